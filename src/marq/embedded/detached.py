"""A supervisor that goes on after the process that wanted it, and the one answer it sends back."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Literal

import msgspec

from marq.embedded import foreground
from marq.embedded.files import RuntimeHome
from marq.embedded.layout import WantedLayout
from marq.embedded.state import RuntimeState
from marq.errors import ConfigError, QueueError


class StartAnswer(msgspec.Struct, frozen=True):
    """How the start went: ready (at these servers), busy (another was faster), or why it failed."""

    outcome: Literal["ready", "busy", "config", "failed"]
    text: str = ""


def launch(home: RuntimeHome, wanted: WantedLayout) -> StartAnswer:
    """Start a supervisor in the background and wait for its answer."""
    reader, writer = os.pipe()
    with os.fdopen(reader, "rb") as answers:
        try:
            subprocess.run(
                # -P: what lies in the current directory must not shadow a module.
                [sys.executable, "-P", "-m", "marq.embedded", str(home.path), str(writer)],
                input=msgspec.json.encode(wanted),
                pass_fds=(writer,),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
                check=False,
            )
        finally:
            os.close(writer)
        answer = answers.read()  # to the end: when the supervisor closes the pipe, or dies
    if not answer:
        return StartAnswer("failed", f"the supervisor ended before it was ready: see {home.logs}.")
    return msgspec.json.decode(answer, type=StartAnswer)


@dataclass(slots=True)
class _Voice:
    """Writes the log, and the first outcome to whoever waits."""

    home: RuntimeHome
    pipe: int
    answered: bool = False

    def report(self, state: RuntimeState, news: str) -> None:
        self.log(news)
        if state.phase == "running":
            self.answer(StartAnswer("ready", state.bootstrap_servers))

    def log(self, news: str) -> None:
        with contextlib.suppress(OSError), self.home.supervisor_log.open("a") as file:
            file.write(f"{datetime.now():%Y-%m-%d %H:%M:%S} {news}\n")

    def answer(self, answer: StartAnswer) -> None:
        if not self.answered:
            self.answered = True
            with contextlib.suppress(OSError):  # nobody waits any more: run all the same
                os.write(self.pipe, msgspec.json.encode(answer))
            os.close(self.pipe)


def main() -> None:
    """The background process: fork, so that the starter has no child to wait for, and supervise."""
    home, pipe = RuntimeHome(Path(sys.argv[1])), int(sys.argv[2])
    wanted = msgspec.json.decode(sys.stdin.buffer.read(), type=WantedLayout)
    if os.fork():
        os._exit(0)
    os.chdir("/")  # a supervisor must not keep a file system busy
    os.set_inheritable(pipe, False)
    voice = _Voice(home, pipe)
    sys.exit(_outcome(voice, lambda: foreground.supervise(home, wanted, voice.report)))


def _outcome(voice: _Voice, run: Callable[[], None]) -> int:
    try:
        run()
    except foreground.AlreadyRunning:
        voice.answer(StartAnswer("busy"))
        return 0
    except ConfigError as error:
        voice.answer(StartAnswer("config", str(error)))
        return 2
    except Exception as error:
        said = str(error) if isinstance(error, QueueError) else f"unexpected: {error!r}"
        voice.log(f"gave up: {said}")
        voice.answer(StartAnswer("failed", said))
        return 1
    voice.log("stopped")
    voice.answer(StartAnswer("failed", "it was stopped before it was ready."))
    return 0
