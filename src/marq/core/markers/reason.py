"""Why a message was retried or rejected, in a form every record can carry.

Reasons are texts of strangers: of exceptions, of handlers, of whoever writes to the hold logs. They
are kept in the tracker's state and written again with every restatement and dead letter.
"""

from __future__ import annotations

import contextlib

REASON_CHARS = 300
"""What is kept of a reason."""


def cleaned(text: str) -> str:
    """The reason as it is written and kept: cut, and without what UTF-8 cannot say.

    A lone surrogate (a JSON payload may bring one into an exception's text) becomes a question
    mark. What is clean already comes back as it is.
    """
    return text[:REASON_CHARS].encode("utf-8", "replace").decode()


def told(error: BaseException) -> str:
    """The error in words; its own text is a stranger's code."""
    with contextlib.suppress(BaseException):
        return f"{type(error).__name__}: {error}"
    with contextlib.suppress(BaseException):
        return type(error).__name__
    return "an error without a name"
