"""The public Python API: its names, what it costs to import, what type checkers see, the examples in docstrings."""

from __future__ import annotations

import doctest
import importlib
import inspect
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

import simstream
from simstream.errors import SimstreamError

ROOT = Path(__file__).parents[2]
SURFACE = """
AsyncClient BrokerUnreachable Candidate Client ClientClosed ClientError ClientFull Deduper DeliveryFailed
ExplainedPage ExtractionNotStarted HtmlPage InputError InputMissing LogError LogLocked Match NotAdmitted
NotPermitted PageSource RawPage Recipe Record RecordTooLarge SettingsError SimstreamError StateDamaged StateError
StateFormat StateFull StateLocked StateUnwritable TopicMissing Unavailable UsageError Verdict VerdictKind
VerdictLate WrongLog WrongPolicy WrongRecipe fingerprint load_recipe read_html
"""
USER_FILE = """
from simstream import Client, Deduper, RawPage, SimstreamError, Verdict, fingerprint

with Deduper(recipe="google2007", path="folder") as deduper:
    verdicts: list[Verdict] = deduper.judge([{"id": "a", "text": "one text"}])
    closest: str | None = verdicts[0].near_duplicate_of
    bits: int = deduper.match("one text")[0].distance
page = RawPage("https://a.example/1", b"<p>one text")
try:
    with Client("kafka://127.0.0.1:9092") as client:
        late: Verdict = client.submit(page).result()
except SimstreamError as error:
    advice: str = error.todo
prints: str = fingerprint(["one text"])
Deduper("google2007")
"""


def public() -> Iterator[tuple[str, object]]:
    """Yield each public name and what it stands for, errors left out except the root."""
    for name in simstream.__all__:
        found = getattr(simstream, name)
        if not (inspect.isclass(found) and issubclass(found, SimstreamError)) or found is SimstreamError:
            yield name, found


def test_the_surface_is_pinned() -> None:
    assert simstream.__all__ == SURFACE.split() == sorted(simstream.__all__)
    assert set(simstream.__all__) <= set(dir(simstream))
    for name in simstream.__all__:
        assert getattr(simstream, name).__name__ == name
    with pytest.raises(AttributeError, match="has no attribute 'anything_else'"):
        simstream.anything_else  # noqa: B018  # the access is the test


def test_importing_the_package_loads_none_of_it() -> None:
    code = "import sys; before = set(sys.modules); import simstream; print(*sorted({*sys.modules} - before))"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    own = [name for name in done.stdout.split() if name.startswith("simstream")]
    assert own == ["simstream", "simstream.version"]
    assert not {"numpy", "numba", "msgspec", "confluent_kafka"} & set(done.stdout.split())


@pytest.mark.parametrize(
    ("code", "variables", "said"),
    [
        (
            "from simstream import Deduper",
            {"NUMBA_DISABLE_JIT": "1"},
            "ImportError: simstream.deduper cannot be imported: kernels must be compiled, and NUMBA_DISABLE_JIT "
            "forbids it: unset it",
        ),
        (
            "import msgspec; del msgspec.Struct; from simstream import Verdict",
            {},
            "ImportError: simstream.model cannot be imported: module 'msgspec' has no attribute 'Struct'",
        ),
    ],
    ids=["no compiler", "another msgspec"],
)
def test_a_name_that_cannot_be_imported_tells_the_cause(code: str, variables: dict[str, str], said: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", code], env=os.environ | variables, capture_output=True, text=True, check=False
    )
    assert done.stderr.splitlines()[-1].startswith(said)


def test_type_checkers_see_the_surface_and_refuse_arguments_without_a_name(tmp_path: Path) -> None:
    (tmp_path / "user.py").write_text(USER_FILE)
    examples = [path for path in (ROOT / "examples").glob("*.py") if path.name != "spider.py"]
    flags = ["--strict", "--config-file=", "--follow-imports=silent", "--ignore-missing-imports"]
    files = ["--no-color-output", "--cache-dir", tmp_path / "cache", "user.py", *examples]
    command = [sys.executable, "-m", "mypy", *flags, *map(str, files)]
    environment = {"MYPYPATH": str(ROOT / "stream"), "PATH": ""}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    found = re.findall(r"^(\S+?):(\d+): error: .* \[([a-z-]+)\]$", done.stdout, re.MULTILINE)
    lines = {str(number): text for number, text in enumerate(USER_FILE.splitlines(), 1)}
    assert [(file, lines.get(line), kind) for file, line, kind in found] == [
        ("user.py", 'prints: str = fingerprint(["one text"])', "assignment"),
        ("user.py", 'Deduper("google2007")', "arg-type"),
    ], done.stdout + done.stderr


@pytest.mark.parametrize("name", ["Deduper", "Client", "AsyncClient", "fingerprint", "load_recipe"])
def test_the_errors_that_a_docstring_names_can_be_imported_from_simstream(name: str) -> None:
    found = getattr(simstream, name)
    texts = [found.__doc__ or ""] + [member.__doc__ or "" for member in vars(found).values() if callable(member)]
    sections = [text.partition("Raises:\n")[2].partition("\n\n")[0] for text in texts]
    raised = {error for section in sections for error in re.findall(r"^ +([A-Z]\w+): ", section, re.MULTILINE)}
    known = {error for error in raised if error != "TypeError" and not hasattr(simstream, error)}
    assert raised
    assert known == set()


def test_everything_public_shows_an_example() -> None:
    missing = []
    for name, found in public():
        members = [(name, found)]
        if inspect.isclass(found):
            own = [(f"{name}.{key}", value) for key, value in vars(found).items() if not key.startswith("_")]
            members += [(key, value) for key, value in own if inspect.isfunction(value) or key == "Deduper.judged"]
        missing += [key for key, value in members if ">>>" not in (value.__doc__ or "")]
    assert missing == []


def homes() -> list[ModuleType]:
    """The modules whose docstrings run here; those of the clients need a service: `tests/e2e/test_examples.py`."""
    names = {found.__module__ for _, found in public()}
    return [simstream, *(importlib.import_module(name) for name in sorted(names) if ".client" not in name)]


@pytest.mark.parametrize("module", homes(), ids=lambda module: module.__name__)
def test_the_examples_in_docstrings_print_what_they_say(
    module: ModuleType, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SIMSTREAM_CACHE", str(cache))
    failed, tried = doctest.testmod(module, extraglobs={"Deduper": simstream.Deduper})
    assert tried
    assert not failed
