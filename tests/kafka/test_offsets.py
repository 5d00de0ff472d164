"""Where logs start and end, asked of a broker that does not answer."""

from __future__ import annotations

import os
import signal

import pytest

import marq
from marq import embedded
from marq.core import names
from marq.errors import NotConnected
from marq.kafka.client import config
from marq.kafka.cluster.admin import Admin

pytestmark = [pytest.mark.java, pytest.mark.kafka]


def test_an_unanswered_question_is_never_taken_for_the_end_of_a_log(
    kafka: embedded.Runtime, broker: marq.Broker
) -> None:
    admin = Admin(config.common(kafka.bootstrap_servers, {}), 1.0)
    end = admin.end(names.CATALOG, 0)
    (pid,) = (each.pid for each in embedded.status(kafka.directory).brokers if each.pid)

    os.kill(pid, signal.SIGSTOP)
    try:
        with pytest.raises(NotConnected):
            admin.end(names.CATALOG, 0)
    finally:
        os.kill(pid, signal.SIGCONT)

    assert Admin(config.common(kafka.bootstrap_servers, {}), 20.0).end(names.CATALOG, 0) >= end
