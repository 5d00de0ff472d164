"""What the tracker carries: a mass death, pending messages, markers, a long history."""

from __future__ import annotations

import secrets
import shutil
import time
from collections.abc import Iterable, Iterator
from functools import partial
from itertools import count
from typing import Any

from bench.tracker_rig import PATIENCE_S, Rig, say, until
from confluent_kafka import Producer

import marq
from marq.core import names
from marq.core.fold import snapshot
from marq.core.fold.parked import ParkedEntry
from marq.core.markers import bits, codec
from marq.core.markers.marker import (
    Action,
    Begun,
    Claim,
    ClaimId,
    Marker,
    ParkedRef,
    Progress,
    Source,
    Step,
)
from marq.kafka.client.record import stored

PACKED = 500
"""Messages of a claim, as a busy worker polls them."""
OPEN = 20
"""Claims of a partition that are open at a time."""
_DAY_MS = 86_400_000


def mass(rig: Rig, number: int) -> dict[str, Any]:
    """How fast all that a dead worker had comes back."""
    queue: marq.Queue[Any] = rig.queue(lease="15s", partitions=4)
    say(f"{number} messages for one worker")
    for receipt in [queue.send_nowait(b"x" * 100) for _ in range(number)]:
        receipt.result()
    victim = rig.member(queue, "take", number=number)
    victim.wait_for("taken")
    victim.kill()
    say("it is dead")
    copies: dict[str, tuple[int, int]] = {}

    def all_back() -> bool:
        spans = dict(enumerate(rig.kafka.admin.spans({queue.name: 4}).values()))
        for record in map(stored, rig.kafka.reader.read(queue.name, spans)):
            if record.meta().copies:
                copies[record.message_id()] = (record.at_ms, record.meta().due_ms)
        return len(copies) >= number

    until(all_back, "all copies", every_s=1.0)
    written, due = [at for at, _ in copies.values()], [at for _, at in copies.values()]
    took_s = (max(written) - min(written)) / 1e3
    return {
        "messages": number,
        "copies_per_s": round(number / took_s),
        "last_after_deadline_s": round((max(written) - max(due)) / 1e3, 2),
        "early": sum(at < due_ms for at, due_ms in copies.values()),
    }


def pending(rig: Rig, numbers: Iterable[int], days: float) -> Iterator[dict[str, Any]]:
    """Batches with so many messages parked, due within so many days."""
    queue: marq.Queue[Any] = rig.queue(partitions=4)
    parked = 0
    for number in numbers:
        say(f"{number} messages, due within {days} days")
        began = time.monotonic()
        steps = range(parked, number)
        delays = (3_600 + days * 86_400 * (at * 7_919 % 10_007) / 10_007 for at in steps)
        receipts = [queue.send_nowait(b"x" * 100, delay=delay) for delay in delays]
        for receipt in receipts:
            receipt.result()
        sent_s = time.monotonic() - began
        parked = number
        until(partial(_holds, rig, number), "all are parked", every_s=0.5)
        folded_s = time.monotonic() - began
        say(f"sent in {sent_s:.1f} s, folded in {folded_s:.1f} s")
        time.sleep(5)
        yield {
            "messages": number,
            "days": days,
            "folded_s": round(folded_s, 1),
            **rig.batches(20),
            "state_bytes_each": round(_entry_bytes(queue.name), 1),
            "state_mb_on_disk": round(_size(rig) / 1e6, 1),
        }


def _holds(rig: Rig, number: int) -> bool:
    return rig.metrics()["marq_tracker_holds"] >= number


def _entry_bytes(queue: str) -> float:
    """What a parked message takes in its chunk."""
    now_ms, number = int(time.time() * 1_000), 1_000
    entries = {
        at: ParkedEntry(ParkedRef(now_ms, at), now_ms, 3_000, Action.RELEASE, queue=queue)
        for at in range(1_000_000, 1_000_000 + number)
    }
    return len(snapshot.dump_chunk(entries)) / number


def _size(rig: Rig) -> int:
    return sum(path.stat().st_size for path in rig.checkpoint.rglob("*") if path.is_file())


def throughput(rig: Rig, messages: int) -> dict[str, Any]:
    """How fast a tracker with one core for its tasks folds what it finds."""
    claims = messages // PACKED
    say(f"markers of {messages} messages: {2 * claims} records")
    write(rig, history(claims, rig.kafka.markers_partitions))
    began = time.time()
    rig.start_tracker("--master", "local[1]")
    until(lambda: rig.metrics()["marq_tracker_clock_seconds"] > began, "it has caught up", 0.02)
    found, cpu = rig.metrics(), rig.cpu_s()
    seconds = found["marq_tracker_batch_seconds_sum"]
    return {
        "messages": messages,
        "records": 2 * claims,
        "batches": found["marq_tracker_batch_seconds_count"],
        "messages_per_s": round(messages / seconds),
        "records_per_s": round(2 * claims / seconds),
        "python_cpu_s": round(cpu["python"], 1),
    }


def history(claims: int, partitions: int) -> Iterator[tuple[int, Marker]]:
    """Claims that are acked a while later, by markers partition: one run each."""
    topic_id, worker = secrets.token_bytes(16), secrets.randbits(63)
    everything = bits.span(0, PACKED)
    for number in range(claims + OPEN * partitions):
        place = number % partitions
        if number < claims:
            first = number // partitions * PACKED
            source = Source(topic_id, place, "history", "", 0)
            run = ((first, PACKED),)
            yield place, Claim(ClaimId(worker, number), source, first, run, 3_600_000)
        if (ended := number - OPEN * partitions) >= 0:
            yield place, Progress((Step(ClaimId(worker, ended), everything),))


def write(rig: Rig, markers: Iterable[tuple[int, Marker]]) -> None:
    """Append them, as fast as the log takes them."""
    producer = Producer({"bootstrap.servers": rig.servers, "linger.ms": 20, "acks": "all"})
    for place, marker in markers:
        while True:
            try:
                producer.produce(names.MARKERS, codec.encode(marker), partition=place)
                break
            except BufferError:
                producer.poll(0.1)
    producer.flush()


def restart(rig: Rig, histories: Iterable[int], open_claims: int) -> Iterator[dict[str, Any]]:
    """Seconds until a tracker that was killed acts again, after histories of so many records."""
    partitions = rig.kafka.markers_partitions
    for number in histories:
        say(f"a history of {number} records, while the tracker folds and trims")
        began = time.monotonic()
        write(rig, history(number // 2, partitions))
        ends = rig.kafka.admin.ends(names.MARKERS, partitions)
        patience_s = PATIENCE_S + number / 10_000
        until(partial(_trimmed, rig, ends), "the log is trimmed", 1.0, patience_s)
        say(
            f"written, folded and trimmed in {time.monotonic() - began:.0f} s; {open_claims} claims"
        )
        write(rig, _open(open_claims, partitions))
        spans = rig.kafka.admin.spans({names.MARKERS: partitions}).values()
        yield {
            "history": number,
            "open_claims": open_claims,
            "log_records": sum(end - start for start, end in spans),
            **_restarted(rig, "", lost=False),
            **_restarted(rig, "anew_", lost=True),
        }


def _trimmed(rig: Rig, ends: list[int]) -> bool:
    starts = rig.kafka.admin.starts(names.MARKERS, len(ends))
    return all(start >= end for start, end in zip(starts, ends, strict=True))


def _open(claims: int, partitions: int) -> Iterator[tuple[int, Marker]]:
    """Claims of handlers that run for hours."""
    topic_id, worker = secrets.token_bytes(16), secrets.randbits(63)
    begun = (Begun(bits.span(0, 10), 43_200_000, 1, False, 0),)
    for number in range(claims):
        place, first = number % partitions, number // partitions * 10
        source = Source(topic_id, place, "open", "", 0)
        yield place, Claim(ClaimId(worker, number), source, first, ((first, 10),), 3_600_000)
        yield place, Progress((Step(ClaimId(worker, number), 0, begun),))


def _restarted(rig: Rig, name: str, lost: bool) -> dict[str, float]:
    """Kill it with a message in someone's hands, let the lease go by, start it again."""
    queue: marq.Queue[Any] = rig.queue(lease="3s")
    queue.send(b"x")
    (first,) = queue.receive(1, "10s")
    queue.flush()
    time.sleep(0.5)
    rig.stop_tracker()
    if lost:
        shutil.rmtree(rig.checkpoint)
    time.sleep(5)
    began = time.monotonic()
    ready_s = rig.start_tracker()
    again = next(found for _ in count() for found in queue.receive(1, "1s"))
    acts_s = time.monotonic() - began
    assert (again.message_id, again.attempt) == (first.message_id, 2)
    again.ack().result()
    say(f"{name or 'with its checkpoint: '}ready after {ready_s:.1f} s, acts after {acts_s:.1f} s")
    return {f"{name}ready_s": round(ready_s, 1), f"{name}acts_s": round(acts_s, 1)}
