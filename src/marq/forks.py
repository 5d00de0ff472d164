"""What a fork leaves behind: in the child there are no threads and no connections of its parent's.

Whoever has either is told in the child, before anything else runs there. It takes no lock (someone
may have held it who does not exist any more), closes nothing (it is the parent's) and connects to
nothing (the child may only be there to run another program).
"""

from __future__ import annotations

import ctypes
import os
from typing import Protocol
from weakref import WeakSet


class Forked(Protocol):
    """Something that a child of this process must not use as it is."""

    def forked(self) -> None:
        """This is the child."""
        ...


_known: WeakSet[Forked] = WeakSet()
_kept: WeakSet[object] = WeakSet()


def tell(each: Forked) -> None:
    """Tell it of forks, as long as it is there."""
    _known.add(each)


def keep(each: object) -> None:
    """Never destroy it in a child: that would wait for threads which are not there."""
    _kept.add(each)


def _in_child() -> None:
    for each in list(_kept):  # before anybody lets go of it
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(each))
    _kept.clear()
    for known in list(_known):
        known.forked()


os.register_at_fork(after_in_child=_in_child)
