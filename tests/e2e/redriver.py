"""A process that redrives a queue's dead letters: waits for the word, and dies where it is told to.

Said: `ready` when it has looked at them, `window` before it is killed, `done <n>` at the end.
"""

from __future__ import annotations

import sys

import marq
from marq.kafka.inspecting import dead_letters
from marq.kafka.inspecting.dead_letters import Taker
from tests.e2e.kafka_windows import Window, say


def _arm(window: str) -> None:
    found = Window(window, 1, 0)
    match window:
        case "before-claim":
            found.before(Taker, "_take")
        case "claimed":
            found.before(Taker, "_won")
        case "won":
            found.before(Taker, "_send")
        case "sent":
            found.before(Taker, "_end")
        case "ended":
            found.after(Taker, "_end")


def main(servers: str, queue: str, window: str, lease_ms: str) -> None:
    dead_letters.LEASE_MS = int(lease_ms)
    _arm(window)
    waited = False

    def once_told(letter: marq.DeadLetter) -> bool:
        nonlocal waited
        if not waited:
            waited = True
            say("ready")
            sys.stdin.readline()
        return True

    with marq.connect(f"kafka://{servers}") as broker:
        say("done", broker.queue(queue).dead_letters.redrive(where=once_told))


if __name__ == "__main__":
    main(*sys.argv[1:])
