"""The options of a queue, checked before anything is written."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

import marq
from marq.core.catalog import options
from marq.errors import ConfigError


def test_options_become_fields_of_the_definition() -> None:
    fields = options.definition_fields(
        {
            "lease": timedelta(seconds=5),
            "max_attempts": 3,
            "backoff": ["1s", "1m"],
            "dead_letter": False,
            "ttl": "1h",
            "priorities": 1,
            "partitions": 8,
            "lane": False,
            "retention": "7d",
        }
    )

    definition = options.define(fields)
    assert (definition.lease_ms, definition.max_attempts) == (5_000, 3)
    assert (definition.backoff_ms, definition.dead_letter) == ((1_000, 60_000), False)
    assert (definition.ttl_ms, definition.partitions) == (3_600_000, 8)
    assert definition.retention_ms == 604_800_000


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"leese": "30s"}, "no option 'leese': did you mean 'lease'"),
    ({"zzz": 1}, "no option 'zzz': there are lease, max_attempts"),
    ({"lease": -1}, "lease must be between 0 and 3650d, not -1"),
    ({"lease": "99ms"}, "lease must be at least 100ms, not '99ms'"),
    ({"lease": 0}, "lease must be at least 100ms"),
    ({"lease": "soon"}, "lease must be a duration like"),
    ({"max_attempts": 0}, "max_attempts must be between 1 and 1000000, not 0"),
    ({"max_attempts": "5"}, "max_attempts must be a whole number, not '5'"),
    ({"max_attempts": True}, "max_attempts must be a whole number"),
    ({"max_attempts": 2.0}, "max_attempts must be a whole number"),
    ({"backoff": "1s"}, r'backoff must be \(first, longest\) like \("1s", "5m"\)'),
    ({"backoff": ("1s",)}, r"backoff must be \(first, longest\)"),
    ({"backoff": ("1s", "2s", "3s")}, r"backoff must be \(first, longest\)"),
    ({"backoff": ("5m", "1s")}, "backoff must not start above its longest wait"),
    ({"backoff": ("1s", None)}, "backoff must be a duration"),
    ({"backoff": ("-1s", "1s")}, "backoff must be a duration"),
    ({"dead_letter": "no"}, "dead_letter must be True or False, not 'no'"),
    ({"dead_letter": 1}, "dead_letter must be True or False"),
    ({"ttl": 0}, "ttl must be longer than 0: None means that nothing expires"),
    ({"ttl": -5}, "ttl must be between 0 and 3650d"),
    ({"partitions": 0}, "partitions must be between 1 and 10000"),
    ({"partitions": 10_001}, "partitions must be between 1 and 10000"),
    ({"retention": "-1d"}, "retention must be a duration"),
    ({"priorities": 3}, "priorities=3 is not available yet: leave it at 1"),
    ({"lane": True}, "lane=True is not available yet"),
]


@pytest.mark.parametrize(("wanted", "advice"), WRONG)
def test_a_wrong_option_is_refused_before_the_queue_is_created(
    marq_broker: marq.Broker, wanted: dict[str, Any], advice: str
) -> None:
    with pytest.raises(ConfigError, match=advice):
        marq_broker.queue("orders", **wanted)

    assert marq_broker.queues() == []


@pytest.mark.parametrize(
    ("wanted", "advice"),
    [case for case in WRONG if not case[0].keys() & options.FIXED],
)
def test_a_wrong_update_changes_nothing(
    marq_broker: marq.Broker, wanted: dict[str, Any], advice: str
) -> None:
    orders = marq_broker.queue("orders")
    before = orders.definition

    with pytest.raises(ConfigError, match=advice):
        orders.update(**{"retention": "1d"} | wanted)

    assert orders.definition == before
