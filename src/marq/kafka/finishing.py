"""The last look at what was written: nobody asks for it any more."""

from __future__ import annotations

import contextlib
import time

from marq.kafka.marking.markers import Markers
from marq.kafka.sending.senders import Senders


def finish(senders: Senders | None, markers: Markers | None, until: float) -> str:
    """Make durable what was sent and settled; what is not in (monotonic) time, in words."""
    with contextlib.suppress(Exception):  # what is not written is counted below
        if markers is not None:
            markers.flush_now()  # while messages are on their way
    for each in (senders, markers):
        with contextlib.suppress(Exception):
            if each is not None:
                each.flush(max(0.0, until - time.monotonic()))
    words = []
    if senders is not None and (sends := senders.unsent()):
        words.append(f"{sends} sent messages")
    if markers is not None and (settled := markers.unwritten()):
        words.append(f"{settled} acks, retries or rejects: those messages come again")
    return " and ".join(words)
