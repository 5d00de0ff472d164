"""What marq logs, readable on a terminal: the message and what it carries."""

from __future__ import annotations

import logging
from typing import Any

from marq.cli import plain

_FORMAT = "%(asctime)s %(levelname)s [%(process)d] %(name)s: %(message)s"
_ITS_OWN = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
_NOWHERE = logging.NullHandler()


class Formatter(logging.Formatter):
    """Adds the `extra` of a record as name=value; one record is one line, but for a traceback."""

    def formatMessage(self, record: logging.LogRecord) -> str:
        extra = (f" {name}={it}" for name, it in vars(record).items() if name not in _ITS_OWN)
        return plain.text(super().formatMessage(record) + "".join(extra))

    def formatException(self, error: Any) -> str:
        return plain.lines(super().formatException(error))


def hush() -> None:
    """Let no connection that fails be told of beside the error of the command that needs it."""
    logging.getLogger("marq.kafka.client").addHandler(_NOWHERE)


def show(level: int = logging.INFO) -> None:
    """Log to standard error, unless the program has set logging up itself."""
    root = logging.getLogger()
    if not root.handlers:
        handler = logging.StreamHandler()
        handler.setFormatter(Formatter(_FORMAT))
        root.addHandler(handler)
        root.setLevel(level)
        logging.getLogger("py4j").setLevel(logging.WARNING)  # it has a line for each batch
