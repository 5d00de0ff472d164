"""Where logs start and end, asked of a broker that does not answer."""

from __future__ import annotations

import contextlib
import os
import signal

import pytest

import marq
from marq import embedded
from marq.core import names
from marq.errors import NotConnected
from marq.kafka.client import config
from marq.kafka.cluster.admin import Admin
from tests.e2e.kafka_process import eventually

pytestmark = [pytest.mark.java, pytest.mark.kafka]


def test_an_unanswered_question_is_never_taken_for_the_end_of_a_log(
    kafka: embedded.Runtime, broker: marq.Broker
) -> None:
    patient = Admin(config.common(kafka.bootstrap_servers, {}), 60.0)
    hurried = Admin(config.common(kafka.bootstrap_servers, {}), 1.0)
    end = patient.end(names.CATALOG, 0)

    def is_connected() -> bool:
        with contextlib.suppress(NotConnected):
            return hurried.end(names.CATALOG, 0) >= end
        return False

    assert eventually(is_connected, 60)
    (pid,) = (each.pid for each in embedded.status(kafka.directory).brokers if each.pid)

    os.kill(pid, signal.SIGSTOP)
    try:
        with pytest.raises(NotConnected):
            hurried.end(names.CATALOG, 0)
    finally:
        os.kill(pid, signal.SIGCONT)

    assert patient.end(names.CATALOG, 0) >= end
