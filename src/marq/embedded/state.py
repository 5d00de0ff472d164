"""Who runs now: the file by which every process finds the same runtime."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Literal

import msgspec

from marq.embedded import files, layout
from marq.embedded.files import RuntimeHome
from marq.embedded.process import ProcessId

KAFKA_VERSION = "4.3.1"
_PATIENCE = 10.0
LATE_S = 10.0
"""After so long without a sign of life the tracker keeps no time, whatever it said last."""
SILENT = "it gives no sign of life"

RuntimePhase = Literal["starting", "running", "degraded", "stopping"]


class BrokerState(msgspec.Struct, frozen=True):
    """One broker as its supervisor knows it; without a process it waits for its restart."""

    id: int
    port: int
    process: ProcessId | None
    restarts: int = 0


class TrackerState(msgspec.Struct, frozen=True):
    """The tracker as its supervisor knows it."""

    wanted: bool = True
    process: ProcessId | None = None
    keeps_time: bool = False
    restarts: int = 0
    note: str = ""
    """Why there is none, or how the last one ended; nothing while one keeps time."""


class RuntimeState(msgspec.Struct, frozen=True):
    """What the supervisor writes at every change."""

    supervisor: ProcessId
    phase: RuntimePhase
    bootstrap_servers: str
    brokers: tuple[BrokerState, ...]
    tracker: TrackerState = TrackerState()


class BrokerStatus(msgspec.Struct, frozen=True):
    """One broker as a user sees it."""

    id: int
    port: int
    alive: bool
    pid: int | None
    uptime: float
    restarts: int
    log: str


class TrackerStatus(msgspec.Struct, frozen=True):
    """The tracker as a user sees it."""

    wanted: bool
    alive: bool
    keeps_time: bool
    pid: int | None
    uptime: float
    restarts: int
    log: str
    note: str


class Status(msgspec.Struct, frozen=True, kw_only=True):
    """A runtime as a user sees it."""

    status: Literal["stopped", "stale", "starting", "running", "degraded", "stopping"]
    directory: str
    bootstrap_servers: str
    supervisor_pid: int | None
    uptime: float
    brokers: tuple[BrokerStatus, ...]
    tracker: TrackerStatus
    log: str
    failure: str = ""
    """Why the last supervisor gave up, if it did."""
    kafka_version: str = KAFKA_VERSION

    def to_json(self) -> str:
        """One JSON object."""
        return msgspec.json.encode(self).decode()


def read(home: RuntimeHome) -> RuntimeState | None:
    """What the last supervisor wrote; it may be dead."""
    return files.read(home.state, RuntimeState)


def of_living(home: RuntimeHome) -> RuntimeState | None:
    """What a supervisor that lives wrote."""
    state = read(home)
    return state if state and state.supervisor.alive() else None


def status(home: RuntimeHome) -> Status:
    """The runtime in `home` at this moment."""
    made, state = layout.read(home), read(home)
    alive = state is not None and state.supervisor.alive()
    return Status(
        status=_word(state, alive),
        directory=str(home.path),
        bootstrap_servers=made.bootstrap_servers if made else "",
        supervisor_pid=state.supervisor.pid if state and alive else None,
        uptime=round(state.supervisor.uptime(), 1) if state else 0.0,
        brokers=_brokers(home, made, state),
        tracker=_tracker(home, state.tracker if state else TrackerState()),
        log=str(home.supervisor_log),
        failure=files.read(home.failure, str) or "",
    )


def _word(
    state: RuntimeState | None, alive: bool
) -> Literal["stopped", "stale", "starting", "running", "degraded", "stopping"]:
    if state is None:
        return "stopped"
    if not alive:
        return "stale"
    whole = all(broker.process and broker.process.alive() for broker in state.brokers)
    return "degraded" if state.phase == "running" and not whole else state.phase


def _brokers(
    home: RuntimeHome, made: layout.Layout | None, state: RuntimeState | None
) -> tuple[BrokerStatus, ...]:
    known = {broker.id: broker for broker in state.brokers} if state else {}
    nodes = made.nodes if made else ()
    return tuple(
        _broker(home, known.get(node.id) or BrokerState(node.id, node.port, None)) for node in nodes
    )


def _broker(home: RuntimeHome, broker: BrokerState) -> BrokerStatus:
    process = broker.process if broker.process and broker.process.alive() else None
    return BrokerStatus(
        id=broker.id,
        port=broker.port,
        alive=process is not None,
        pid=process.pid if process else None,
        uptime=round(process.uptime(), 1) if process else 0.0,
        restarts=broker.restarts,
        log=str(home.broker_log(broker.id)),
    )


def _tracker(home: RuntimeHome, tracker: TrackerState) -> TrackerStatus:
    process = tracker.process if tracker.process and tracker.process.alive() else None
    # What it said last is not enough: one that is stopped, or hangs, says nothing any more.
    is_silent = process is not None and tracker.keeps_time and _age_s(home.tracker_alive) > LATE_S
    return TrackerStatus(
        wanted=tracker.wanted,
        alive=process is not None,
        keeps_time=process is not None and tracker.keeps_time and not is_silent,
        pid=process.pid if process else None,
        uptime=round(process.uptime(), 1) if process else 0.0,
        restarts=tracker.restarts,
        log=str(home.tracker_log),
        note=SILENT if is_silent else tracker.note,
    )


def _age_s(sign: Path) -> float:
    """Since when it was not touched; either way, should the clock have been set."""
    try:
        return abs(time.time() - sign.stat().st_mtime)
    except OSError:
        return LATE_S + 1


def clear_stale(home: RuntimeHome) -> None:
    """End what a dead supervisor left and forget it.

    Where the kernel ties children to their parent there is nothing left; elsewhere the children of
    a killed supervisor still run. Only processes that are provably the recorded ones are touched.
    """
    state = read(home)
    if state is None:
        return
    for process in (state.tracker.process, *(broker.process for broker in state.brokers)):
        if process:
            process.end(_PATIENCE)
    home.state.unlink(missing_ok=True)
