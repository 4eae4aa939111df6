"""What a release holds, and that its wheel works where nothing but the declared dependencies is installed."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import zipfile
from importlib import metadata
from pathlib import Path

import pytest

from deploy import licenses

ROOT = Path(__file__).parents[2]
SOURCES = ROOT / "stream" / "simstream"
PICTURES = {"simstream/feeds/page.png"}
"""What documents show, and what no program reads."""

pytestmark = pytest.mark.long


def run(*line: object, cwd: Path) -> str:
    """The output of a command that knows nothing of this checkout."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "SIMSTREAM_"))}
    done = subprocess.run([str(part) for part in line], cwd=cwd, env=clean, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return done.stdout


COUNTED_DEMO = """
from simstream.cli.main import invoke
from simstream.kernels.html.markup import survey
from simstream.kernels.judge.departures import tidy
invoke(["demo"])
html, judge = (sum(one.stats.cache_misses.values()) for one in (survey, tidy))
print(f"compiled here: {html} and {judge}")
"""


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the sdist, and the wheel that was built from it, as `make dist` builds them."""
    copy, out = tmp_path_factory.mktemp("checkout"), tmp_path_factory.mktemp("dist")
    files = run("git", "ls-files", "--cached", "--others", "--exclude-standard", "-z", cwd=ROOT).split("\0")
    for name in filter(None, files):  # the build writes beside the sources
        if (ROOT / name).is_file():
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            (copy / name).write_bytes((ROOT / name).read_bytes())
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", out, copy, cwd=out)
    return out


@pytest.fixture(scope="module")
def python(release: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of an environment with the wheel and its dependencies, without extras, tests and tools."""
    folder = tmp_path_factory.mktemp("empty")
    run(sys.executable, "-m", "venv", "--without-pip", folder, cwd=folder)
    [packages] = (folder / "lib").glob("python*/site-packages")
    for name in licenses.needed().values():
        installed = metadata.distribution(name)
        for top in {file.parts[0] for file in installed.files or ()} - {"..", "__pycache__"}:
            (packages / top).symlink_to(Path(str(installed.locate_file(top))))
    [wheel] = release.glob("*.whl")
    interpreter = folder / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--python", interpreter, "install", "--quiet", "--no-index", wheel]
    run(*pip, cwd=folder)  # it refuses if a dependency is missing
    return interpreter


def test_the_wheel_holds_every_file_of_the_package_and_nothing_else(release: Path) -> None:
    [wheel] = release.glob("*.whl")
    with zipfile.ZipFile(wheel) as packed:
        names = set(packed.namelist())
    tracked = run("git", "ls-files", "--cached", "--others", "--exclude-standard", cwd=SOURCES).splitlines()
    files = {f"simstream/{name}" for name in tracked if (SOURCES / name).is_file()} - PICTURES
    assert {"simstream/py.typed", "simstream/sources/demo_pages.jsonl", "simstream/feeds/static/index.html"} < files
    assert {name for name in names if ".dist-info/" not in name} == files
    assert any(name.endswith("/licenses/LICENSE") for name in names)
    assert any(name.endswith("/licenses/stream/simstream/text/tables/jieba/LICENSE") for name in names)
    assert wheel.stat().st_size < 15_000_000


def test_the_sdist_holds_what_the_wheel_is_built_of_and_no_tests(release: Path) -> None:
    [sdist] = release.glob("*.tar.gz")
    with tarfile.open(sdist) as packed:
        names = {name.partition("/")[2] for name in packed.getnames()}
    assert {"pyproject.toml", "README.md", "LICENSE", "stream/simstream/py.typed"} < names
    assert not [name for name in names if name.startswith(("tests", "deploy", "docs", "examples"))]


def test_the_demo_runs_from_the_wheel(python: Path, tmp_path: Path) -> None:
    assert str(python.parents[1]) in run(python, "-c", "import simstream; print(simstream.__file__)", cwd=tmp_path)
    said = run(python, "-c", COUNTED_DEMO, cwd=tmp_path)
    assert "108 pages, 108 verdicts" in said
    assert said.endswith("compiled here: 0 and 0\n"), "other processes compile meanwhile"


def test_python_runs_the_package_as_its_command(python: Path, tmp_path: Path) -> None:
    said = run(python, "-m", "simstream", "--version", cwd=tmp_path)
    assert said == run(python.parent / "simstream", "--version", cwd=tmp_path) != ""


def test_python_judges_pages_with_the_wheel(python: Path, tmp_path: Path) -> None:
    code = """
import importlib.util
from simstream import Deduper
assert importlib.util.find_spec("jieba") is None
text = " ".join(f"word{number}" for number in range(60))
with Deduper() as deduper:
    verdicts = deduper.judge([{"id": "a", "text": text}, {"id": "b", "text": text + " more"}])
print([verdict.verdict for verdict in verdicts])
"""
    assert run(python, "-c", code, cwd=tmp_path) == "['new', 'near_duplicate']\n"
