"""Say in one sentence what the machine lacks, before anything is installed.

Runs on the system's Python, whatever its age: no syntax newer than Python 3.0 here.
"""

import os
import re
import shutil
import subprocess
import sys

INSTALL_JAVA = "install one (Debian: apt-get install openjdk-17-jre-headless) or set JAVA_HOME."


def python_problem():
    # type: () -> str
    if sys.version_info < (3, 11):
        found = "%d.%d" % sys.version_info[:2]
        return (
            "marq needs Python 3.11 or newer and this is %s: "
            "install it and run make PYTHON=python3.11." % found
        )
    try:
        import ensurepip  # noqa: F401
        import venv  # noqa: F401
    except ImportError:
        return "Python's venv module is missing: install it (Debian: apt-get install python3-venv)."
    return ""


def java_problem():
    # type: () -> str
    home = os.environ.get("JAVA_HOME")
    java = os.path.join(home, "bin", "java") if home else shutil.which("java")
    if not java or not os.access(java, os.X_OK):
        where = "JAVA_HOME (%s)" % home if home else "PATH"
        return "marq needs Java 17 or newer and there is none in %s: %s" % (where, INSTALL_JAVA)
    out = subprocess.run(
        [java, "-version"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False
    )
    said = out.stdout.decode("utf-8", "replace")
    found = re.search(r'version "(?:1\.)?(\d+)', said)
    if not found or int(found.group(1)) < 17:
        version = found.group(1) if found else "unknown"
        return "marq needs Java 17 or newer and %s is %s: %s" % (java, version, INSTALL_JAVA)
    return ""


if __name__ == "__main__":
    problem = python_problem() or java_problem()
    if problem:
        sys.exit(problem)
