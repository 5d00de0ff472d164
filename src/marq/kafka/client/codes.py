"""What an error of a broker or of librdkafka means: each question is answered here only."""

from __future__ import annotations

from confluent_kafka import KafkaError

_GONE = frozenset(
    (
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError.UNKNOWN_TOPIC_ID,
        KafkaError._UNKNOWN_TOPIC,
        KafkaError._UNKNOWN_PARTITION,
    )
)
_LEADERLESS = frozenset(
    (
        KafkaError._NOENT,
        KafkaError._WAIT_COORD,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.UNKNOWN_LEADER_EPOCH,
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError._UNKNOWN_PARTITION,
        KafkaError._UNKNOWN_TOPIC,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.NOT_COORDINATOR,
    )
)
_MOVED = frozenset((KafkaError.FENCED_LEADER_EPOCH, KafkaError.NOT_LEADER_FOR_PARTITION))
_AWAY = frozenset(
    (
        KafkaError._TRANSPORT,
        KafkaError._ALL_BROKERS_DOWN,
        KafkaError._TIMED_OUT,
        KafkaError._RESOLVE,
    )
)
_DENIED = frozenset(
    (
        KafkaError._AUTHENTICATION,
        KafkaError.SASL_AUTHENTICATION_FAILED,
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.GROUP_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
        KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    )
)
_OFF_THE_LOG = frozenset((KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE))
_FENCED = frozenset(
    (KafkaError._FENCED, KafkaError.PRODUCER_FENCED, KafkaError.INVALID_PRODUCER_EPOCH)
)
_STALE = frozenset(
    (
        KafkaError.ILLEGAL_GENERATION,
        KafkaError.REBALANCE_IN_PROGRESS,
        KafkaError.UNKNOWN_MEMBER_ID,
        KafkaError.FENCED_INSTANCE_ID,
    )
)
_TOO_LARGE = frozenset((KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.INVALID_MSG_SIZE))
_REFUSED = frozenset(
    (
        KafkaError.MSG_SIZE_TOO_LARGE,
        KafkaError.RECORD_LIST_TOO_LARGE,
        KafkaError.INVALID_RECORD,
        KafkaError.INVALID_TIMESTAMP,
        KafkaError.TOPIC_EXCEPTION,
        KafkaError._INVALID_ARG,
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError._UNKNOWN_TOPIC,
        KafkaError._UNKNOWN_PARTITION,
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.POLICY_VIOLATION,
    )
)

NO_ANSWER = KafkaError(KafkaError._TIMED_OUT)
"""In the place of an answer that is none."""


def is_end(error: KafkaError) -> bool:
    """The partition was read to its end."""
    return bool(error.code() == KafkaError._PARTITION_EOF)


def is_gone(error: KafkaError) -> bool:
    """There is no such topic or partition, or this broker does not know it yet."""
    return error.code() in _GONE


def is_off_the_log(error: KafkaError) -> bool:
    """The offset to be read lies below the log's start, or behind its end: the log was trimmed, or
    is another one by the same name."""
    return error.code() in _OFF_THE_LOG


def is_leaderless(error: KafkaError) -> bool:
    """A leader or coordinator is being found, or the broker that was asked is not it."""
    return error.code() in _LEADERLESS


def is_moved(error: KafkaError) -> bool:
    """Another broker leads the partition by now."""
    return error.code() in _MOVED


def is_away(error: KafkaError) -> bool:
    """No broker answers."""
    return error.code() in _AWAY


def is_denied(error: KafkaError) -> bool:
    """The credentials are refused, or a right is missing."""
    return error.code() in _DENIED


def is_group_denied(error: KafkaError) -> bool:
    """The right to the consumer group is missing."""
    return bool(error.code() == KafkaError.GROUP_AUTHORIZATION_FAILED)


def is_topic_denied(error: KafkaError) -> bool:
    """The right to the topic is missing."""
    return bool(error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED)


def is_id_denied(error: KafkaError) -> bool:
    """The right to the transactional id is missing."""
    return bool(error.code() == KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)


def is_unreadable(error: KafkaError) -> bool:
    """A reader outside any group may not read. librdkafka asks for the group it is given a name of,
    which no such reader uses: to be refused that one is no matter."""
    return is_denied(error) and not is_group_denied(error)


def is_passing(error: KafkaError) -> bool:
    """For a reader outside any group: librdkafka goes on by itself, and if it does not, nothing
    comes for too long."""
    return (is_away(error) or is_leaderless(error) or is_group_denied(error)) and not is_gone(error)


def is_fenced(error: KafkaError) -> bool:
    """Another producer has opened the transactional id since, or this one has failed for good."""
    return error.code() in _FENCED or bool(error.fatal())


def is_fatal(error: KafkaError) -> bool:
    """The client has failed for good: it must be replaced."""
    return bool(error.fatal() or error.code() == KafkaError._FATAL)


def is_stale(error: KafkaError) -> bool:
    """The consumer group has been dealt out anew since."""
    return error.code() in _STALE


def has_members(error: KafkaError) -> bool:
    """The consumer group is in use, so its offsets are its members' to commit."""
    return is_stale(error) or bool(error.code() == KafkaError.NON_EMPTY_GROUP)


def is_no_group(error: KafkaError) -> bool:
    """There is no such consumer group."""
    return bool(error.code() == KafkaError.GROUP_ID_NOT_FOUND)


def is_there_already(error: KafkaError) -> bool:
    """The topic to be created exists."""
    return bool(error.code() == KafkaError.TOPIC_ALREADY_EXISTS)


def is_too_large(error: KafkaError) -> bool:
    """The record is too large for the broker."""
    return error.code() in _TOO_LARGE


def is_refused(error: KafkaError) -> bool:
    """No broker takes this record, however often it is sent."""
    return error.code() in _REFUSED


def is_never_written(error: KafkaError) -> bool:
    """A marker cannot be written, for what it says or for want of a right."""
    return (
        is_too_large(error)
        or is_gone(error)
        or is_topic_denied(error)
        or error.code() in (KafkaError.CLUSTER_AUTHORIZATION_FAILED, KafkaError.INVALID_MSG)
    )


def is_late(error: KafkaError) -> bool:
    """No broker took the record in time."""
    return bool(error.code() == KafkaError._MSG_TIMED_OUT)


def is_unanswered(error: KafkaError) -> bool:
    """The call was not answered in time, or the connection broke."""
    return error.code() in (KafkaError._TIMED_OUT, KafkaError._TRANSPORT)
