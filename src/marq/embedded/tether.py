"""Becomes another program that the kernel ends when its parent dies.

Run by path, not imported: `python tether.py PARENT_PID PROGRAM ARGUMENTS...`. A process of its own
because code between fork and exec must not run in a parent with threads.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def main() -> None:
    """Tie this process to its parent, then become the program."""
    parent, program, *arguments = sys.argv[1:]
    if sys.platform == "linux":
        # Survives exec. SIGKILL, not SIGTERM: an orderly stop may hang without the others.
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        # The parent may have died before the call above.
        if os.getppid() != int(parent):
            os._exit(1)
    os.execv(program, [program, *arguments])


if __name__ == "__main__":
    main()
