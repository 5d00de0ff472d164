"""Performs what an instance decides, and tells what came of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from confluent_kafka import KafkaException, TopicPartition

from marq import threads
from marq.errors import QueueError
from marq.groups import moves, records
from marq.groups.config import GroupConfig
from marq.groups.moves import InstanceAction, InstanceEvent
from marq.groups.names import GroupNames
from marq.groups.records import ConfigRecord
from marq.kafka.client import codes
from marq.kafka.client.making import warm
from marq.kafka.client.refusals import denied
from marq.kafka.groups import note
from marq.kafka.groups.clients import GroupClients
from marq.kafka.groups.fetch import Fetcher
from marq.kafka.groups.hands import Hands
from marq.kafka.groups.log import GroupLog, now_ms
from marq.kafka.groups.note import Note
from marq.kafka.groups.owner import Owner
from marq.kafka.groups.plan import Handling
from marq.kafka.groups.transactions import Candidates, ProducerLost, discard

_ASK_S = 10.0
_EXPIRES_MS = 6 * 86_400_000
"""Kafka forgets the offsets of a group without members after 7 days."""


class Performer:
    """The clients of one instance, and what they do. `hear` is called in the instance's thread,
    `post` from any."""

    def __init__(
        self, cluster: GroupClients, names: GroupNames, member: str, log: GroupLog, plan: Handling
    ) -> None:
        self._cluster = cluster
        self._names = names
        self._log = log
        self._plan = plan
        self.hear: Callable[[InstanceEvent], None] = lambda event: None
        self.post: Callable[[InstanceEvent], None] = lambda event: None
        self.failed: Callable[[BaseException], None] = lambda error: None
        """Told by threads that died."""
        config = log.table.config
        assert config is not None
        self.config: GroupConfig = config
        """As it was at the start: what is used of it never changes."""
        self._topic = names.data(config.kind)
        self._offsets: Any = warm(cluster.offsets(names))
        self.fetcher = Fetcher(
            lambda: warm(cluster.data()), self._topic, lambda error: self.failed(error)
        )
        self._candidates = Candidates(lambda: cluster.transactional(names.producer(member)))
        self._draining: dict[int, int] = {}
        """By partition, until when its handlers may go on."""
        self._notes: dict[int, Note] = {}
        self._verified = ""
        self._owner: Owner | None = None
        self._hands: Hands | None = None

    def prepare(self) -> None:
        """Be ready to take over fast."""
        self._candidates.prepare()

    def perform(self, action: InstanceAction) -> None:
        """Do it. What it leads to is heard."""
        try:
            match action:
                case moves.Init(claim):
                    self._init(claim)
                case moves.ProxyInit(claim, member):
                    self._start_proxy(claim, member)
                case moves.Append(hold):
                    offset = self._log.append(hold, _ASK_S)
                    self.hear(
                        moves.Unknown(hold.claim, hold.n)
                        if offset is None
                        else moves.Appended(hold.claim, hold.n, offset)
                    )
                case moves.Discard():
                    self.discard()
                case _:
                    self._perform_as_owner(action)
        except ProducerLost:
            if self._owner is not None:
                self.hear(moves.WasFenced(self._owner.claim))

    def _perform_as_owner(self, action: InstanceAction) -> None:
        match action:
            case moves.Load(claim, partitions):
                self._verify(claim)
                self.hear(moves.Loaded(claim, self._load(partitions)))
            case moves.Recommit(claim, offsets):
                self._recommit(offsets)
                self.hear(moves.Recommitted(claim, offsets))
            case moves.Start(_, offsets, fences):
                self._start(offsets, fences)
            case moves.Drain(_, partitions) if self._hands is not None:
                self._hands.stop(partitions)
                until = now_ms() + self.config.ack_wait_ms
                self._draining |= dict.fromkeys(partitions, until)

    def _init(self, claim: str) -> None:
        producer = self._candidates.init()
        if producer is None:
            self.hear(moves.InitFailed(claim))
            return
        group = self._offsets.consumer_group_metadata
        owner = Owner(claim, producer, group, self._topic, self.config.ack_wait_ms / 1_000)
        owner.lost = lambda: self.post(moves.WasFenced(claim))
        owner.failed = self.failed
        owner.letter = self._plan.letter
        if self.config.kind == "elastic":  # a static group's log is the queue's
            owner.trim = lambda ends: self._cluster.trim(self._topic, ends)
        self._owner = owner
        self.hear(moves.Initiated(claim))

    def _start_proxy(self, claim: str, member: str) -> None:
        """In a thread of its own: a cold producer may take longer than a lease."""

        def proxy() -> None:
            done = fence(self._cluster, self._names, member)
            self.post(moves.ProxyInitiated(claim) if done else moves.ProxyFailed(claim))

        # It is tried again as long as the other one is in the way.
        threads.start(proxy, "marq-group-proxy", lambda error: self.post(moves.ProxyFailed(claim)))

    def _verify(self, claim: str) -> None:
        """Whether the log that granted the claim is the one we have read all the time.

        A group may have been deleted and created again while we were frozen. The reader goes on in
        the new log where it was in the old one, and what it makes of the two grants us anything.
        Asked once a claim, after the read-back: whoever deletes the group from now on knows of our
        hold, and fences us first.
        """
        if claim != self._verified and not self._is_same_log():
            self._log.gone = True
            raise ProducerLost("the group was deleted")
        self._verified = claim

    def _is_same_log(self) -> bool:
        self._offsets.assign([TopicPartition(self._names.control, 0, 0)])
        try:
            first = self._offsets.poll(_ASK_S)
        finally:
            self._offsets.unassign()
        if first is None or first.error() is not None:
            raise ProducerLost("the control log does not answer")
        found = records.decode(first.value())
        return isinstance(found, ConfigRecord) and found.id == self._log.table.incarnation

    def _load(self, partitions: frozenset[int]) -> dict[int, int]:
        places = [TopicPartition(self._topic, number) for number in sorted(partitions)]
        try:
            found = self._offsets.committed(places, timeout=_ASK_S)
            self._notes |= {place.partition: note.parse(place.metadata) for place in found}
            return {
                place.partition: place.offset if place.offset >= 0 else self._beginning(place)
                for place in found
            }
        except KafkaException as error:
            if codes.is_denied(error.args[0]):
                raise denied(f"READ on group {self._names.offsets!r}", str(error)) from None
            raise ProducerLost(str(error)) from None  # nobody answers: let another try

    def _beginning(self, place: TopicPartition) -> int:
        """The log's start, for a partition that was never acked. Where offsets may have expired
        that would ack messages twice: stop and say so."""
        if self._log.silence_ms > _EXPIRES_MS:
            raise QueueError(
                f"the group {self._names.group!r} was without members for so long that its offset "
                f"of partition {place.partition} has expired: set it by hand"
            )
        return int(self._offsets.get_watermark_offsets(place, timeout=_ASK_S)[0])

    def _recommit(self, offsets: dict[int, int]) -> None:
        assert self._owner is not None
        for number in offsets:
            taken = self._notes[number].taken + 1
            self._notes[number] = self._notes[number]._replace(taken=taken)
        self._owner.recommit({n: (at, self._notes[n].text) for n, at in offsets.items()})

    def _start(self, offsets: dict[int, int], fences: dict[int, int]) -> None:
        assert self._owner is not None
        if self._hands is None:
            self._hands = Hands(self.fetcher, self.config, self._owner, self._plan)
        self._hands.start(offsets, fences, {number: self._notes[number] for number in offsets})

    def finish_drains(self) -> None:
        """Partitions whose handlers are done, or have had their time: what they ack from now on is
        refused."""
        if not self._draining or self._owner is None:
            return
        tenures, now = self._owner.tenures, now_ms()
        done = frozenset(
            number
            for number, until in self._draining.items()
            if now >= until or number not in tenures or not tenures[number].busy
        )
        if done:
            self._release(self._owner, done)

    def _release(self, owner: Owner, partitions: frozenset[int]) -> None:
        try:
            owner.release(partitions)
        except (ProducerLost, QueueError):
            # Fenced, which the owner has reported already; or a dead letter cannot be written, and
            # the partition is not let go before it is.
            return
        for number in partitions:
            del self._draining[number]
        self.hear(moves.Drained(owner.claim, partitions))

    def discard(self) -> None:
        """Stop everything at once; throw the producer away."""
        self._draining.clear()
        owner, self._owner = self._owner, None
        hands, self._hands = self._hands, None
        if owner is not None:
            owner.close()
        if hands is not None:
            hands.close()
        if owner is not None:
            owner.discard()

    def close(self) -> None:
        self.discard()
        self._candidates.drop()
        self.fetcher.close()
        self._offsets.close()


def fence(cluster: GroupClients, names: GroupNames, member: str) -> bool:
    """Whether every instance of the member is fenced: none of its acks gets through any more."""
    made = Candidates(lambda: cluster.transactional(names.producer(member)))
    producer = made.init()
    made.drop()
    if producer is not None:
        discard(producer)
    return producer is not None
