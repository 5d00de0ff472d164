"""The connection by which a task of the fold reaches its state in the JVM, ended so that it closes.

Spark 4.2 gives each task one and never closes its own end once Python has ended it, by saying
CLOSED or by closing the other end: a descriptor of the JVM's is lost with each task, twenty
thousand within an hour. But a connection that is still open when the task completes is closed, for
the thread that reads it is interrupted then. So CLOSED is not said, and the worker keeps its end
open until its next task. (The JVM sets the state to CLOSED itself when it is interrupted.)
"""

from __future__ import annotations

from typing import Any

from pyspark.sql.streaming.stateful_processor_api_client import (
    StatefulProcessorApiClient,
    StatefulProcessorHandleState,
)

_kept: list[StatefulProcessorApiClient] = []


def leave_closing_to_the_jvm() -> None:
    """Have the workers forked from this process end their connections so."""
    connect = StatefulProcessorApiClient.__init__
    set_state = StatefulProcessorApiClient.set_handle_state

    def kept(self: StatefulProcessorApiClient, *arguments: Any, **options: Any) -> None:
        connect(self, *arguments, **options)
        _kept[:] = [self]

    def set_but_closed(
        self: StatefulProcessorApiClient, state: StatefulProcessorHandleState
    ) -> None:
        if state is StatefulProcessorHandleState.CLOSED:
            self.handle_state = state
        else:
            set_state(self, state)

    StatefulProcessorApiClient.__init__ = kept  # type: ignore[method-assign]
    StatefulProcessorApiClient.set_handle_state = set_but_closed  # type: ignore[method-assign]
