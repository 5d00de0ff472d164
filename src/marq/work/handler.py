"""A handler: the user's function, and how it wants its messages."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from operator import attrgetter, methodcaller
from typing import Any, get_args, get_origin

from marq.core.duration import Duration, milliseconds
from marq.errors import ConfigError
from marq.message import Delivery

MAX_CONCURRENCY = 10_000
_PAYLOAD = (False,)


@dataclass(frozen=True, slots=True)
class Handler:
    """A function that handles messages; made by `queue.handler(...)`."""

    function: Callable[..., Any]
    wanted: Any
    """The type payloads are decoded to."""
    concurrency: int
    timeout_ms: int
    batch: bool
    takes: tuple[bool, ...]
    """For each parameter: True = the delivery, False = the payload."""

    @staticmethod
    def of(
        function: Any, queue_type: Any, concurrency: int, timeout: Duration, batch: bool
    ) -> Handler:
        """The handler; `ConfigError` if the function cannot be one."""
        if not callable(function) or _is_generator(function):
            raise ConfigError(f"a handler must be a function that returns, not {function!r}")
        if not isinstance(concurrency, int) or not 1 <= concurrency <= MAX_CONCURRENCY:
            raise ConfigError(
                f"concurrency must be between 1 and {MAX_CONCURRENCY}, not {concurrency!r}"
            )
        timeout_ms = milliseconds(timeout, "timeout")
        if not timeout_ms:
            raise ConfigError("timeout must be longer than 0")
        takes, wanted = _parameters(function, batch)
        wanted = queue_type if wanted is None else wanted
        return Handler(function, wanted, concurrency, timeout_ms, batch, takes)

    @property
    def is_async(self) -> bool:
        return inspect.iscoroutinefunction(self.function) or inspect.iscoroutinefunction(
            getattr(self.function, "__call__", None)  # noqa: B004
        )

    def getters(self) -> list[Callable[[Delivery[Any]], Any]]:
        """What gives each argument of a message, for whoever asks for those of many."""
        wanted = self.wanted
        payload = attrgetter("payload") if wanted is None else methodcaller("payload_as", wanted)
        return [_same if takes else payload for takes in self.takes]

    def arguments(self, deliveries: list[Delivery[Any]]) -> list[Any]:
        """What the function is called with; `PayloadError` if a payload does not decode."""
        found: list[Any] = []
        for takes_delivery in self.takes:
            values = deliveries if takes_delivery else self._payloads(deliveries)
            found.append(values if self.batch else values[0])
        return found

    def _payloads(self, deliveries: list[Delivery[Any]]) -> list[Any]:
        if self.wanted is None:
            return [delivery.payload for delivery in deliveries]
        return [delivery.payload_as(self.wanted) for delivery in deliveries]


def _same(delivery: Delivery[Any]) -> Delivery[Any]:
    return delivery


def _parameters(function: Callable[..., Any], batch: bool) -> tuple[tuple[bool, ...], Any]:
    """Which parameters take the delivery, and the type the payload's one is annotated with."""
    parameters = [
        p
        for p in inspect.signature(function).parameters.values()
        if p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)
    ]
    by_name = any(p.kind is p.KEYWORD_ONLY for p in parameters)
    if by_name or not 1 <= len(parameters) <= 2:
        raise ConfigError(
            f"a handler takes the payload, or the payload and the delivery: "
            f"{getattr(function, '__name__', function)} takes {inspect.signature(function)}"
        )
    hints = [_element(_hint(function, p), batch) for p in parameters]
    takes = tuple(map(_is_delivery, hints))
    if len(takes) == 2 and not takes[0]:  # by its place, whatever it is called
        takes = (False, True)
    payloads = [h for h, delivery in zip(hints, takes, strict=True) if not delivery]
    payloads += [of for h in hints for of in get_args(h) if _is_delivery(h)]
    return takes, next(iter(payloads), None)


def _is_generator(function: Callable[..., Any]) -> bool:
    return inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function)


def _is_delivery(hint: Any) -> bool:
    return hint is Delivery or get_origin(hint) is Delivery


def _hint(function: Callable[..., Any], parameter: inspect.Parameter) -> Any:
    """The type the parameter is annotated with; each is looked up for itself."""
    hint = None if parameter.annotation is parameter.empty else parameter.annotation
    if not isinstance(hint, str):
        return hint
    code = inspect.unwrap(function)
    code = code if hasattr(code, "__globals__") else type(code).__call__
    try:
        return eval(hint, getattr(code, "__globals__", {}))
    except Exception:  # a name only a type checker knows: then there is nothing to decode to
        return None


def _element(hint: Any, batch: bool) -> Any:
    if batch and get_origin(hint) is list:
        hint = get_args(hint)[0]
    return None if hint in (Any, object) else hint
