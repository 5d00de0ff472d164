"""`module:queue`: the queues a worker runs, found in the user's own code."""

from __future__ import annotations

import importlib
import os
import sys
import traceback
from types import ModuleType, TracebackType
from typing import Any

import marq
from marq.errors import ConfigError, QueueError

Queues = list[marq.Queue[Any]]


def find(targets: list[str]) -> Queues:
    """The queues these targets name; their modules are imported from the current directory."""
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    return [_find(target) for target in targets]


def owner(queues: Queues) -> marq.Broker:
    """The one broker that has all these queues."""
    brokers = {id(queue.broker): queue.broker for queue in queues}
    if len(brokers) > 1:
        raise ConfigError(
            "these queues belong to different brokers: connect once and share the broker, "
            "or start a worker for each"
        )
    [broker] = brokers.values()
    if not isinstance(broker, marq.Broker):
        raise ConfigError("a worker runs queues made by broker.queue(...)")
    return broker


def file_of(target: str) -> str | None:
    """The file of a target's module, once it is imported."""
    return sys.modules[target.partition(":")[0]].__file__


def producer_group(target: str) -> marq.ProducerGroup:
    """The producer group that this target names, open as its module opened it."""
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    _, found = _named(target)
    if isinstance(found, marq.ProducerGroup):
        return found
    raise ConfigError(
        f"{target} names no producer group: make one there with queue.producer_group(...)"
    )


def _named(target: str) -> tuple[ModuleType, Any]:
    """The module of this target, and what it names there."""
    name, _, path = target.partition(":")
    module = _import(name)
    found: Any = module if path else None
    for part in path.split("."):
        found = getattr(found, part, None)
    return module, found


def _find(target: str) -> marq.Queue[Any]:
    path = target.partition(":")[2]
    module, found = _named(target)
    if isinstance(found, marq.Queue):
        return found
    what = f"is {type(found).__name__}, not a queue" if found is not None else "is not there"
    raise ConfigError(f"{target} {what if path else 'names no queue'}: {_hint(module)}")


def _hint(module: ModuleType) -> str:
    found = [name for name, it in vars(module).items() if isinstance(it, marq.Queue)]
    if not found:
        return "make one there with broker.queue(...)"
    return "there is " + ", ".join(f"{module.__name__}:{name}" for name in found)


def _import(name: str) -> ModuleType:
    if not name or name.startswith(".") or name.endswith(".py") or os.sep in name:
        raise ConfigError(f"name a module and its queue, like app:orders, not {name!r}")
    try:
        return importlib.import_module(name)
    except QueueError:
        raise
    except ModuleNotFoundError as error:
        if error.name and f"{name}.".startswith(f"{error.name}."):
            raise ConfigError(
                f"there is no module {name!r}: start the worker in the directory it is in"
            ) from None
        raise _failed(name, error, ConfigError) from None
    except Exception as error:
        wrong = isinstance(error, SyntaxError | ImportError)
        raise _failed(name, error, ConfigError if wrong else QueueError) from None


def _failed(name: str, error: Exception, kind: type[QueueError]) -> QueueError:
    """Show where in the user's code it happened, and say it in a sentence."""
    traceback.print_exception(error.with_traceback(_in_users_code(error.__traceback__)))
    return kind(f"importing {name} failed: {type(error).__name__}: {error}")


def _in_users_code(trace: TracebackType | None) -> TracebackType | None:
    """The trace without the frames that only import."""
    while trace and trace.tb_frame.f_code.co_filename.startswith(_IMPORTING):
        trace = trace.tb_next
    return trace


_IMPORTING = (__file__, importlib.__file__, "<frozen importlib")
