"""Finds the Java that runs the broker, or says what to install."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from marq.errors import RuntimeFailed

NEEDED = 17
_HINT = (
    "install a JDK 17 or newer (Debian: apt-get install openjdk-17-jre-headless, "
    "macOS: brew install openjdk@17) or set JAVA_HOME"
)


def find(environ: Mapping[str, str] = os.environ) -> Path:
    """The java program to use: JAVA_HOME's, else the first on PATH; never one older than 17."""
    java = _candidate(environ)
    version = major_version(_printed_version(java))
    if version is None or version < NEEDED:
        found = "no working Java" if version is None else f"Java {version}"
        raise RuntimeFailed(f"marq needs Java {NEEDED} or newer and {java} is {found}: {_HINT}.")
    return java


def major_version(printed: str) -> int | None:
    """The major version in what `java -version` prints; Java 8 still calls itself 1.8."""
    found = re.search(r'version "(?:1\.)?(\d+)', printed)
    return int(found.group(1)) if found else None


def _candidate(environ: Mapping[str, str]) -> Path:
    home = environ.get("JAVA_HOME")
    where = f"JAVA_HOME ({home})" if home else "PATH"
    folder = str(Path(home, "bin")) if home else environ.get("PATH", "")
    java = shutil.which("java", path=folder)
    if java is None:
        raise RuntimeFailed(
            f"marq needs Java {NEEDED} or newer and there is none in {where}: {_HINT}."
        )
    return Path(java)


def _printed_version(java: Path) -> str:
    try:
        done = subprocess.run(
            [java, "-version"], capture_output=True, timeout=30, check=False, text=True
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stderr + done.stdout
