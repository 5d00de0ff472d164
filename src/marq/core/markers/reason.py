"""Why a message was retried or rejected, in a form every record can carry.

Reasons are texts of strangers: of exceptions, of handlers, of whoever writes to the hold logs. They
are kept in the tracker's state and written again with every restatement and dead letter.
"""

from __future__ import annotations

REASON_CHARS = 300
"""What is kept of a reason."""


def cleaned(text: str) -> str:
    """The reason as it is written and kept: cut, and without what UTF-8 cannot say.

    A lone surrogate (a JSON payload may bring one into an exception's text) becomes a question
    mark. What is clean already comes back as it is.
    """
    return text[:REASON_CHARS].encode("utf-8", "replace").decode()
