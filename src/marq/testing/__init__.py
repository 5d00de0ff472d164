"""For users' tests: a broker in memory with a clock the test moves.

    def test_a_late_order_comes_back(marq_broker):
        orders = marq_broker.queue("orders", lease="30s")
        orders.send(b"1")
        orders.receive()
        marq_broker.clock.advance("30s")
        assert orders.receive()[0].attempt == 2

Without pytest: `marq.connect("memory://")`.
"""

from __future__ import annotations

from marq.broker import Broker
from marq.errors import ConfigError
from marq.memory.backend import Memory
from marq.memory.clock import Clock

__all__ = ["Clock", "crash_workers"]


def crash_workers(broker: Broker) -> None:
    """Let the workers of a memory broker die as killed processes do: their messages come back."""
    if not isinstance(broker.backend, Memory):
        raise ConfigError("only the workers of a memory:// broker can be crashed from inside")
    broker.backend.crash_workers()
