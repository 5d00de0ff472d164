"""The workers of the simulated world: they die at any point, and their records land when they may.

They keep the one order that must hold (claim acknowledged, committed, handed out) and no other:
they go on after their lease is over, and records of theirs land late and twice.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from marq.core.markers.marker import (
    Action,
    Begun,
    Claim,
    ClaimId,
    Held,
    Hold,
    KeepAlive,
    Marker,
    Progress,
    Step,
)
from tests.properties.chance import Chance
from tests.properties.hold_log import runs_of
from tests.properties.world import World

PUMP_LEASE_MS = 3_000
LEASES_MS = (2_000, 800, 6_000)


@dataclass
class Delivery:
    """One message in a worker's hands."""

    claim: ClaimId
    index: int
    attempt: int
    phase: str = "fetched"


@dataclass
class Batch:
    """One claim of a worker, and its deliveries once it is committed."""

    claim: Claim
    landed: bool = False
    committed: bool = False
    dropped: bool = False
    """The partition moved before it was committed: it is never handed out, beaten or ended."""


@dataclass
class Worker:
    """A worker: what it has sent and not heard of yet, and what it works on."""

    id: int
    position: int = 0
    sent: list[Marker] = field(default_factory=list)
    batches: list[Batch] = field(default_factory=list)
    deliveries: list[Delivery] = field(default_factory=list)


class Workers:
    """All workers, alive or dead; one of the living owns the source partition."""

    def __init__(self, world: World, chance: Chance) -> None:
        self._world, self._chance = world, chance
        self.all = [Worker(1), Worker(2)]
        self.alive = list(self.all)
        self.owner = self.all[0]
        self._landed: list[Marker] = []

    def poll(self, most: int = 4) -> None:
        worker, world = self.owner, self._world
        count = 1 + self._chance.below(most)
        left = range(worker.position, len(world.source))
        offsets = [n for n in left if world.source[n] is not None][:count]
        if not offsets:
            return
        name = ClaimId(worker.id, len(worker.batches))
        runs = runs_of(offsets)
        claim = Claim(name, world.current(), worker.position, runs, PUMP_LEASE_MS)
        worker.position = offsets[-1] + 1
        worker.batches.append(Batch(claim))
        worker.sent.append(claim)

    def land(self, worker: Worker | None = None) -> None:
        """The oldest record a worker has sent reaches the log, whether it still lives or not."""
        waiting = [one for one in self.all if one.sent]
        if worker is None and not waiting:
            return
        worker = worker or self._chance.pick(waiting)
        marker = worker.sent.pop(0)
        self._landed.append(marker)
        self._world.append_of_worker(marker)
        for batch in worker.batches:
            batch.landed |= batch.claim is marker

    def land_again(self) -> None:
        """A record that has landed lands once more, however late."""
        if self._landed:
            self._world.append_of_worker(self._chance.pick(self._landed[::-1][:200]))

    def land_all_again(self) -> None:
        """Every record of a worker's lands once more."""
        for marker in list(self._landed):
            self._world.append_of_worker(marker)

    def commit(self) -> None:
        """Commit the end of the contiguous prefix of acknowledged claims, then hand them out."""
        world, worker = self._world, self.owner
        for batch in worker.batches:
            claim = batch.claim
            in_turn = claim.start == world.committed and claim.source == world.current()
            if batch.landed and in_turn and not batch.committed and not batch.dropped:
                batch.committed = True
                world.committed = sum(claim.runs[-1])
                self._hand_out(worker, claim)

    def _hand_out(self, worker: Worker, claim: Claim) -> None:
        offsets = [n for first, count in claim.runs for n in range(first, first + count)]
        for index, offset in enumerate(offsets):
            attempt = self._world.message((claim.source, offset)).attempt
            worker.deliveries.append(Delivery(claim.id, index, attempt))

    def rebalance(self) -> None:
        """The partition moves: the new owner starts where the group has committed."""
        self.owner = self._chance.pick(self.alive)
        self.owner.position = self._world.committed
        for batch in (batch for worker in self.all for batch in worker.batches):
            batch.dropped |= not batch.committed

    def seek(self) -> None:
        """The subscription is sought back, to before all that is open."""
        world = self._world
        still = [what[1] for what in world.open_at[-1] if isinstance(what[1], int)]
        offsets = [n for n in still if n < world.committed]
        world.committed = min([*offsets, self._chance.below(world.committed + 1)])
        world.sought = world.committed
        world.epoch += 1
        self.rebalance()

    def die(self) -> None:
        dead = self._chance.pick(self.alive)
        self.alive.remove(dead)
        self.all.append(Worker(len(self.all) + 1))
        self.alive.append(self.all[-1])
        if dead is self.owner:
            self.rebalance()
        if self._chance.below(2):
            del dead.sent[self._chance.below(len(dead.sent) + 1) :]

    # What a worker does with a message.

    def _pick(self, *phases: str) -> tuple[Worker, Delivery] | None:
        found = [(w, d) for w in self.alive for d in w.deliveries if d.phase in phases]
        return self._chance.pick(found[-200:]) if found else None

    def begin(self) -> None:
        if found := self._pick("fetched", "retried"):
            worker, delivery = found
            delivery.attempt += delivery.phase == "retried"
            delivery.phase = "begun"
            lease_ms = self._chance.pick(LEASES_MS)
            kept_alive = bool(self._chance.below(2))
            ahead_ms = lease_ms // 2 if kept_alive else 0
            begun = Begun(1 << delivery.index, lease_ms, delivery.attempt, kept_alive, ahead_ms)
            worker.sent.append(Progress((Step(delivery.claim, 0, (begun,)),)))

    def ack(self) -> None:
        if found := self._pick("begun", "fetched"):
            worker, delivery = found
            delivery.phase = "done"
            worker.sent.append(Progress((Step(delivery.claim, 1 << delivery.index),)))

    def hold(self, action: Action) -> None:
        """Retry, reject or extend."""
        phases = {
            Action.REDELIVER: ("begun",),
            Action.BURY: ("begun", "fetched", "retried"),
        }.get(action, ("begun", "fetched"))
        if found := self._pick(*phases):
            worker, delivery = found
            if action is not Action.EXTEND:
                delivery.phase = "retried" if action is Action.REDELIVER else "done"
            after_ms, ahead_ms = self._chance.pick(((500, 0), (0, 3_000), (3_000, 1_000)))
            held = Held(delivery.claim, 1 << delivery.index, action, after_ms, ahead_ms, "so")
            worker.sent.append(Hold((held,)))

    def beat(self) -> None:
        worker = self._chance.pick(self.alive)
        committed = [b.claim.id.sequence for b in worker.batches if b.committed]
        if committed:
            worker.sent.append(KeepAlive(worker.id, tuple(committed)))

    def retire(self) -> Worker:
        """All die and what they had under way is lost; a new one owns the partition."""
        for worker in self.all:
            worker.sent.clear()
        fresh = Worker(len(self.all) + 1, self._world.committed)
        self.all.append(fresh)
        self.alive, self.owner = [fresh], fresh
        return fresh
