"""Kills threads of this process, as nothing in them is made for."""

from __future__ import annotations

import ctypes
import threading

PATIENCE_S = 60.0


class Killed(BaseException):
    """What is injected: nothing in a thread is made for it."""


def kill(name: str) -> None:
    """End the youngest thread of this name by an exception, at whatever it is."""
    *_, victim = [each for each in threading.enumerate() if each.name == name]
    assert victim.ident is not None
    ctypes.pythonapi.PyThreadState_SetAsyncExc(
        ctypes.c_ulong(victim.ident), ctypes.py_object(Killed)
    )
    victim.join(PATIENCE_S)
    assert not victim.is_alive(), f"{name} lives on"
