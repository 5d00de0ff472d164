"""Say in one sentence what the machine lacks, before anything is installed.

Runs on the system's Python, whatever its age: no syntax newer than Python 3.0 here.
"""

import os
import re
import shutil
import subprocess
import sys


def python_problem():
    # type: () -> str
    if sys.version_info < (3, 11):
        return "marq needs Python 3.11 or newer and this is %d.%d: install it and run make PYTHON=python3.11." % (
            sys.version_info[0],
            sys.version_info[1],
        )
    try:
        import ensurepip  # noqa: F401
        import venv  # noqa: F401
    except ImportError:
        return "Python's venv module is missing: install it (Debian: apt-get install python3-venv)."
    return ""


def java_problem():
    # type: () -> str
    hint = "install a JDK 17 or newer (Debian: apt-get install openjdk-17-jre-headless) or set JAVA_HOME."
    home = os.environ.get("JAVA_HOME")
    java = os.path.join(home, "bin", "java") if home else shutil.which("java")
    if not java or not os.access(java, os.X_OK):
        where = "JAVA_HOME (%s)" % home if home else "PATH"
        return "marq needs Java 17 or newer and there is none in %s: %s" % (where, hint)
    out = subprocess.run([java, "-version"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    found = re.search(r'version "(?:1\.)?(\d+)', out.stdout.decode("utf-8", "replace"))
    if not found or int(found.group(1)) < 17:
        return "marq needs Java 17 or newer and %s is %s: %s" % (java, found.group(1) if found else "unknown", hint)
    return ""


if __name__ == "__main__":
    problem = python_problem() or java_problem()
    if problem:
        sys.exit(problem)
