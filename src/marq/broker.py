"""A broker: where queues live. Made by `marq.connect(...)`."""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar, Unpack, overload
from urllib.parse import unquote

from marq import forks, lifetime
from marq import settings as settings_module
from marq.backend import Backend
from marq.core import names
from marq.core.catalog import definitions, options
from marq.core.catalog.definitions import QueueDefinition
from marq.core.catalog.options import QueueOptions
from marq.errors import ConfigError
from marq.group import Group, delete_groups, groups, open_group
from marq.groups.options import GroupOptions
from marq.memory.backend import Memory
from marq.memory.clock import Clock
from marq.queue import Queue
from marq.settings import ConnectOptions, Settings
from marq.work.worker import Worker

T = TypeVar("T")
log = logging.getLogger("marq")
_COLLIDES = (
    "this queue has a name that marq uses for topics and consumer groups of its own: it goes on to "
    "work, but make one of another name, let this one run empty, and delete it"
)


class Broker:
    """Queues by name. A context manager: leaving it closes everything it opened."""

    def __init__(self, backend: Backend, settings: Settings) -> None:
        self.backend = backend
        self._settings = settings
        self._queues: dict[str, Queue[Any]] = {}
        self._workers: list[Worker] = []
        self._groups: list[Group] = []
        self._closed = False
        forks.tell(self)

    def forked(self) -> None:
        """In a child nothing of it runs."""
        self._workers, self._groups = [], []

    @overload
    def queue(self, name: str, *, type: type[T], **wanted: Unpack[QueueOptions]) -> Queue[T]: ...

    @overload
    def queue(
        self, name: str, *, type: None = None, **wanted: Unpack[QueueOptions]
    ) -> Queue[Any]: ...

    def queue(self, name: str, *, type: Any = None, **wanted: Unpack[QueueOptions]) -> Queue[Any]:
        """The queue of this name, created if there is none.

        Options that are given must be the queue's; `type` is what payloads are decoded to.
        """
        self._refuse_if_closed()
        name = names.queue_name(name)
        fields = options.definition_fields(wanted)
        self._create_or_compare(name, fields)
        return self._opened(name, type)

    def declare(self, queues: Iterable[str], **wanted: Unpack[QueueOptions]) -> list[Queue[Any]]:
        """The queues of these names; those that are missing are created together, which takes some
        milliseconds each. Options that are given must be those of all."""
        self._refuse_if_closed()
        wanted_names = [names.queue_name(name) for name in queues]
        fields = options.definition_fields(wanted)
        known = self.backend.catalog()
        new = [name for name in dict.fromkeys(wanted_names) if known.queue(name) is None]
        names.refuse_alike(new, known.queues())
        if new:
            self.backend.create_all([names.new_queue_name(n) for n in new], options.define(fields))
            known = self.backend.catalog()
        for name in wanted_names:
            if (found := known.queue(name)) is None:
                self._create_or_compare(name, fields)  # deleted this very moment
            else:
                self._compare(name, found, fields)
        return [self._opened(name, None) for name in wanted_names]

    def _opened(self, name: str, type: Any) -> Queue[Any]:
        if name not in self._queues:
            self._queues[name] = Queue(self.backend, name, type, self._settings.max_delay)
            self._queues[name].broker = self
        elif type is not None:
            self._queues[name].type = type
        return self._queues[name]

    def _create_or_compare(self, name: str, fields: dict[str, Any]) -> None:
        known = self.backend.catalog()
        version = known.queue_version(name)
        while (stored := known.queue(name)) is None:
            names.new_queue_name(name, known.queues())
            # Two may create at once: the first in the catalog's log wins, the other compares.
            if self.backend.change(name, options.define(fields), version):
                return
            known = self.backend.catalog()
            version = known.queue_version(name)
        self._compare(name, stored, fields)

    def _compare(self, name: str, stored: QueueDefinition, fields: dict[str, Any]) -> None:
        if names.collides(name) and name not in self._queues:
            log.warning(_COLLIDES, extra={"queue": name})
        if found := definitions.differences(stored, fields):
            raise ConfigError(
                f"queue {name!r} exists and differs: {'; '.join(found)}. "
                f"Open it without options, or change it with queue.update(...)"
            )

    def queues(self) -> list[str]:
        """The names of all queues."""
        return list(self.backend.catalog().queues())

    def delete_queue(self, name: str) -> None:
        """Delete a queue with all its messages and its ordered groups; its dead letters stay."""
        known = self.backend.catalog()
        if known.queue(names.queue_name(name)) is None:
            raise ConfigError(f"there is no queue {name!r} to delete")
        made = known.made(name)
        delete_groups(self.backend, name)
        # Someone else may delete it first, and make another one of its name: that stays.
        while (version := known.queue_version(name)) and known.made(name) == made:
            if self.backend.change(name, None, version):
                break
            known = self.backend.catalog()
        self._queues.pop(name, None)

    def group(self, queue: str, name: str, **wanted: Unpack[GroupOptions]) -> Group:
        """The ordered group of this name, created if there is none.

        It takes max_members to create one. Options that are given must be the group's.
        """
        self._refuse_if_closed()
        group = open_group(self.backend, queue, name, wanted)
        self._groups.append(group)
        return group

    def groups(self) -> list[tuple[str, str]]:
        """Queue and name of every ordered group."""
        return groups(self.backend)

    def run(self, *queues: Queue[Any], until_idle: bool = False) -> None:
        """Run the handlers of these queues until told to stop (SIGTERM, SIGINT, `close`).

        With `until_idle` it returns when nothing is ready and nothing runs.
        """
        self.worker(*queues).run(until_idle)

    def worker(self, *queues: Queue[Any]) -> Worker:
        """A worker for these queues, to be entered: it works in the background meanwhile."""
        self._refuse_if_closed()
        for queue in queues:
            if not isinstance(queue, Queue):
                raise ConfigError(f"a worker runs queues, made by broker.queue(...), not {queue!r}")
        worker = Worker(self.backend, list(queues), self._settings.drain_timeout / 1_000)
        self._workers.append(worker)
        return worker

    @property
    def clock(self) -> Clock:
        """The clock of a memory broker, which tests move."""
        if not isinstance(self.backend, Memory):
            raise ConfigError("only a memory:// broker has a clock that can be moved")
        return self.backend.clock

    def close(self) -> None:
        """Stop what runs and let go of everything; again is harmless."""
        self._closed = True
        with contextlib.ExitStack() as last:  # each of them, even if one before it fails
            last.callback(self.backend.close)
            last.callback(lifetime.over, self.backend)
            for queue in self._queues.values():
                last.callback(queue.close)
            for group in self._groups:
                last.callback(group.close)
            for worker in self._workers:
                last.callback(worker.stop)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _refuse_if_closed(self) -> None:
        if self._closed:
            raise ConfigError("the broker is closed: connect again")


def connect(url: str | None = None, **settings: Unpack[ConnectOptions]) -> Broker:
    """A broker at this URL: `kafka://host:port,...`, `embedded://[/dir]` or `memory://[name]`.

    Without a URL it is the setting `url` (MARQ_URL, marq.toml), else `embedded://`.
    """
    loaded = settings_module.load(**settings, **({} if url is None else {"url": url}))
    scheme, separator, rest = loaded.url.partition("://")
    opener = _OPENERS.get(scheme.lower())
    if opener is None or not separator:
        shown = settings_module.without_credentials(loaded.url)
        raise ConfigError(
            f"{shown!r} is no URL of a broker: use kafka://host:9092, embedded:// or memory://"
        )
    host, slash, path = rest.partition("/")
    backend = opener(host, unquote(slash + path), loaded)
    broker = Broker(backend, loaded)
    if isinstance(backend, lifetime.Lasting):
        lifetime.watch(broker, backend)
    return broker


def _memory(name: str, path: str, settings: Settings) -> Backend:
    """A broker of its own; or, named, the one of that name in this process."""
    if path.strip("/"):
        raise ConfigError("memory:// takes a name at most, like memory://shop")
    if not name:
        return Memory()
    with _named.lock:
        return _named.found.setdefault((name, settings.namespace), Memory())


class _Named:
    """The memory brokers that have a name."""

    def __init__(self) -> None:
        self.forked()
        forks.tell(self)

    def forked(self) -> None:
        """In a child there are none yet."""
        self.lock = threading.Lock()
        self.found: dict[tuple[str, str], Memory] = {}


_named = _Named()


def _kafka(servers: str, path: str, settings: Settings) -> Backend:
    if not servers or path.strip("/"):
        raise ConfigError("kafka:// needs servers, like kafka://host1:9092,host2:9092")
    if "@" in servers:
        raise ConfigError(
            "a kafka:// URL names servers only: give the user as the Kafka settings "
            "sasl.username and sasl.password (MARQ_KAFKA__SASL_USERNAME, or [kafka] in marq.toml)"
        )
    from marq.kafka.backend import Kafka  # librdkafka is loaded only where it is used

    return Kafka(servers, settings)


def _embedded(host: str, path: str, settings: Settings) -> Backend:
    if host:
        raise ConfigError("embedded:// takes a directory, with three slashes: embedded:///dir")
    if settings.namespace:
        raise ConfigError(
            "embedded:// is one user's own and has no namespaces: leave the setting namespace out, "
            "or name another directory"
        )
    from marq import embedded

    runtime = embedded.start(Path(path) if path else None)
    return _kafka(runtime.bootstrap_servers, "", settings)


_OPENERS: dict[str, Callable[[str, str, Settings], Backend]] = {
    "memory": _memory,
    "kafka": _kafka,
    "embedded": _embedded,
}
