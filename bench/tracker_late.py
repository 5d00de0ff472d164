"""How late the tracker's work is handed out, and that nothing is early.

Deadlines and due times are the log's: a copy names its own. Beside that, nothing may come back
sooner than a lease after it was handed out the first time, whatever a copy says.
"""

from __future__ import annotations

import time
from typing import Any

from bench.tracker_rig import Member, Rig, late, median, say, until

import marq

LEASE_S = 10
_VICTIM = {"keep-alive": "hang", "pull": "abandon"}
_HEIR = {"keep-alive": "handle", "pull": "pull"}


def redelivery(rig: Rig, kind: str, rate: int, kills: int) -> dict[str, Any]:
    """Messages of killed processes, as another one gets them at the deadline."""
    queue: marq.Queue[Any] = rig.queue(lease=f"{LEASE_S}s", partitions=4, max_attempts=50)
    with rig.load(rate) as rates:
        heir = rig.member(queue, _HEIR[kind])
        heir.wait_for("ready")
        sent: set[str] = set()
        began: dict[str, float] = {}
        counted = rig.counted()
        for number in range(kills):
            victim = _victim(rig, queue, _VICTIM[kind], sent)
            say(f"kill {number + 1} of {kills}: {len(victim.deliveries)} in its hands")
            victim.kill()
            began |= {each["id"]: each["at_ms"] for each in victim.deliveries}
            # One after the other: the next one would be handed what this one had.
            until(lambda: _ids(heir) >= sent, "what a killed process had")
        again = [each for each in heir.deliveries if each["copies"] == 1]
        heir.kill()
        batches = counted()
    found = late(each["at_ms"] - each["due_ms"] for each in again)
    sooner = [e for e in again if e["at_ms"] < began.get(e["id"], 0.0) + LEASE_S * 1e3]
    found["early"] = max(found.get("early", 0), sum(e["id"] in began for e in sooner))
    found["copy_written_p99"] = late(e["written_ms"] - e["due_ms"] for e in again).get("p99", 0.0)
    return {"worker": kind, "load_per_s": median(rates), "kills": kills, **found, **batches}


def _victim(rig: Rig, queue: marq.Queue[Any], mode: str, sent: set[str]) -> Member:
    """A process with messages in its hands; they are sent until it has some."""
    victim = rig.member(queue, mode)
    victim.wait_for("ready")

    def has_some() -> bool:
        sent.update(each.message_id for each in queue.send_many([b"x"] * 20))
        time.sleep(0.5)
        return len(victim.deliveries) >= 5

    until(has_some, "a process to be killed gets messages", every_s=0.5)
    time.sleep(1.5)  # beats of the keep-alive
    return victim


def _ids(member: Member) -> set[str]:
    return {each["id"] for each in member.deliveries}


def delays(rig: Rig, rate: int, number: int, over_s: float = 30.0) -> dict[str, Any]:
    """Delayed messages that were parked: all delays are longer than what goes straight."""
    queue: marq.Queue[Any] = rig.queue(partitions=4)
    with rig.load(rate) as rates:
        heir = rig.member(queue, "handle")
        heir.wait_for("ready")
        counted = rig.counted()
        say(f"{number} messages, due within {over_s:.0f} s")
        receipts = [
            queue.send_nowait(b"x", delay=12.0 + over_s * at / number) for at in range(number)
        ]
        due: dict[str, float] = {}
        for receipt in receipts:
            sent = receipt.result()
            assert sent.due is not None
            due[sent.message_id] = sent.due.timestamp() * 1e3
        until(lambda: len(_ids(heir)) >= number, "all delayed messages", every_s=0.5)
        handed = heir.deliveries
        heir.kill()
        batches = counted()
    found = late(each["at_ms"] - due[each["id"]] for each in handed)
    return {"load_per_s": median(rates), "over_s": over_s, **found, **batches}
