"""Dead letters on Kafka: sent again or discarded, wherever their consumers are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from marq.core import redelivery
from marq.core.marker import Source
from marq.core.stored import ANY_PARTITION, Stored

if TYPE_CHECKING:
    from marq.kafka.backend import Kafka


def redrive(kafka: Kafka, letters: list[Stored]) -> int:
    """The copies first, then the ends: a crash between the two sends them twice."""
    for home in {redelivery.home_of(letter) for letter in letters}:
        kafka.definition(home)  # a plain record among them names no queue
    copies = [kafka.sender.send(redelivery.redriven(each, ANY_PARTITION)) for each in letters]
    sent = []
    try:
        for letter, copy in zip(letters, copies, strict=True):
            copy.result(kafka.connect_timeout_s)
            sent.append(letter)
    finally:
        ended = discard(kafka, sent)
    return ended


def discard(kafka: Kafka, letters: list[Stored]) -> int:
    """Claim and end them; one claim each: a claim spans all between its first and last offset."""
    topic_ids = {topic: kafka.admin.topic_id(topic) for topic in {each.topic for each in letters}}
    ends = [
        kafka.markers.end_one(
            Source(topic_id, letter.partition, letter.topic, "", 0),
            letter.offset,
            next(kafka.sequence),
        )
        for letter in letters
        if (topic_id := topic_ids[letter.topic]) is not None
    ]
    return sum(end.result(kafka.connect_timeout_s) for end in ends)
