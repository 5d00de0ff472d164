"""`pip install marq` works: of a wheel that is built here, in an environment of its own."""

from __future__ import annotations

import re
import subprocess
import sys
import sysconfig
import tomllib
import zipfile
from email.message import Message
from email.parser import BytesParser
from pathlib import Path

import pytest
from markdown_it import MarkdownIt

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built without a network: what builds it is installed."""
    directory = tmp_path_factory.mktemp("wheel")
    run(
        sys.executable, "-m", "pip", "wheel", "--quiet", "--disable-pip-version-check",
        "--no-deps", "--no-build-isolation", "--no-index", "--wheel-dir", directory, ROOT,
    )  # fmt: skip
    [built] = directory.glob("marq-*.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs of an environment of its own, with the wheel and, borrowed, its dependencies."""
    directory = tmp_path_factory.mktemp("installed")
    run(sys.executable, "-m", "venv", "--without-pip", directory)
    # A file in a directory that is only borrowed installs nothing: not marq as it is edited here.
    [packages] = directory.glob("lib/python*/site-packages")
    (packages / "borrowed.pth").write_text(sysconfig.get_path("purelib") + "\n")
    python = directory / "bin" / "python"
    run(
        sys.executable, "-m", "pip", "--python", python, "install", "--quiet",
        "--disable-pip-version-check", "--no-deps", "--no-index", wheel,
    )  # fmt: skip
    return directory / "bin"


def run(*command: object, cwd: Path | None = None) -> str:
    done = subprocess.run(
        [str(part) for part in command],
        cwd=cwd, capture_output=True, text=True, timeout=150, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_an_installed_marq_says_its_version(installed: Path, tmp_path: Path) -> None:
    shown = run(installed / "marq", "--version", cwd=tmp_path)

    assert shown == f"marq {PROJECT['version']}\n"


def test_an_installed_marq_runs_the_first_example(installed: Path, tmp_path: Path) -> None:
    python = installed / "python"

    where = run(python, "-c", "import marq; print(marq.__file__)", cwd=tmp_path)
    shown = run(python, ROOT / "examples" / "hello.py", cwd=tmp_path)

    assert Path(where.strip()).is_relative_to(installed.parent)
    assert shown == "got {'order': 7}\n"


def test_the_wheel_holds_everything_that_marq_is_made_of(wheel: Path) -> None:
    packed = {name for name in zipfile.ZipFile(wheel).namelist() if name.startswith("marq/")}

    files = [path for path in (ROOT / "src").rglob("*") if path.is_file()]
    ours = {str(path.relative_to(ROOT / "src")) for path in files if path.suffix != ".pyc"}
    assert packed == ours


def test_what_the_wheel_tells_of_itself_is_the_readme(wheel: Path) -> None:
    told = _metadata(wheel)

    assert told["Description-Content-Type"] == "text/markdown"
    payload = told.get_payload(decode=True)
    assert isinstance(payload, bytes)
    assert payload.decode().strip() == (ROOT / "README.md").read_text().strip()
    page = MarkdownIt("commonmark").enable("table").render(payload.decode())
    assert page.startswith("<h1>marq</h1>")
    assert "<table>" in page


def test_every_extra_brings_what_marq_imports() -> None:
    source = "".join(path.read_text() for path in (ROOT / "src").rglob("*.py"))
    imported = set(re.findall(r"^\s*(?:from|import) (\w+)", source, re.MULTILINE))
    brought = {
        re.split(r"[<>=\[]", requirement)[0].replace("-", "_")
        for extra in PROJECT["optional-dependencies"].values()
        for requirement in extra
    }

    assert brought - imported == {"protobuf"}  # pyspark's, which says it too late


def _metadata(wheel: Path) -> Message:
    archive = zipfile.ZipFile(wheel)
    [name] = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
    return BytesParser().parsebytes(archive.read(name))
