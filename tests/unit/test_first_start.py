"""The first start, with nothing compiled: what it compiles, and what waits for it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from simstream.compiling import CompilingProcess
from simstream.model import FingerprintColumns, Page, PageKind
from simstream.text import fingerprinter as module
from simstream.text.fingerprinter import Fingerprinter
from simstream.text.recipe import PRESETS

COMPILED = """
import json, sys
from pathlib import Path

from numba.core import event

class Compiled(event.Listener):
    def on_start(self, found):
        function = found.data["dispatcher"].py_func
        names.append((function.__module__, function.__qualname__, str(found.data["args"])))

    def on_end(self, found):
        pass

names = []
event.register("numba:compile", Compiled())

from simstream.judge.warming import warm_judge
from simstream.text.fingerprinter import Fingerprinter
from simstream.text.recipe import PRESETS
from tests.bench.made_pages import policy

with Fingerprinter(PRESETS["default"], Path(sys.argv[1]), workers=0) as made:
    made.texts(["some words"])
warm_judge(policy(), few=True)
print(json.dumps(names))
"""
HTML = "<article><p>The river rose in the night, and carried the old ferry as far as the mill.</article>"


@pytest.fixture(scope="module")
def compiled(cache: Path, tmp_path_factory: pytest.TempPathFactory) -> list[tuple[str, str, str]]:
    """Module, name and types of all that is compiled before a page of text has its verdict, in an empty folder."""
    variables = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path_factory.mktemp("kernels"))}
    line = [sys.executable, "-c", COMPILED, str(cache)]
    done = subprocess.run(line, env=variables, check=True, capture_output=True, text=True)
    return [(module, name, types) for module, name, types in json.loads(done.stdout)]


def test_no_function_is_compiled_for_one_number_alone(compiled: list[tuple[str, str, str]]) -> None:
    own = [(name, types) for module, name, types in compiled if module.startswith("simstream.")]
    assert len(own) > 50
    assert [name for name, types in own if "Literal" in types] == []


def test_no_text_functions_are_compiled_for_the_messages_of_errors(compiled: list[tuple[str, str, str]]) -> None:
    assert [name for module, name, _ in compiled if "unicode" in module] == []


def test_the_kernels_of_html_are_not_compiled_where_no_html_comes(compiled: list[tuple[str, str, str]]) -> None:
    assert [name for module, name, _ in compiled if module.startswith("simstream.kernels.html")] == []


def _hang() -> None:
    time.sleep(600)


class HangingProcess(CompilingProcess):
    """A process that is never done with HTML's kernels. `asked` is set once somebody waits for it."""

    def __init__(self, _part: str) -> None:
        super().__init__(__name__, "_hang")
        self.asked = threading.Event()

    def wait(self) -> None:
        self.asked.set()
        super().wait()


@pytest.fixture(params=["fast", "prose"])
def starting(
    request: pytest.FixtureRequest, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[Fingerprinter, HangingProcess]]:
    """A fingerprinter whose kernels of HTML are being compiled."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    monkeypatch.setattr(module, "compiled", lambda _: False)
    monkeypatch.setattr(module, "extraction_process", HangingProcess)
    with Fingerprinter(replace(PRESETS["default"], extract=request.param), cache, workers=0) as made:
        assert isinstance(made._compiling, HangingProcess)
        yield made, made._compiling


def page(text: str | None, raw: str | None = None) -> Page:
    return Page(id="a", identity=b"i" * 16, offset=0, time=0, text=text, raw=raw)


def test_text_does_not_wait_for_the_kernels_of_html(starting: tuple[Fingerprinter, HangingProcess]) -> None:
    made, process = starting
    assert made.columns([page("The night train stops at the mill village again after forty years.")]).words[0] > 0
    assert made.is_compiling
    assert not process.asked.is_set()


def test_html_waits_for_its_kernels(starting: tuple[Fingerprinter, HangingProcess]) -> None:
    made, process = starting
    found: list[FingerprintColumns] = []
    thread = threading.Thread(target=lambda: found.append(made.columns([page(None, HTML)])))
    thread.start()
    assert process.asked.wait(60)
    assert not found
    process.close()
    thread.join(60)
    assert found[0].kind.tolist() == [PageKind.READABLE]
    assert found[0].words[0] > 0
    assert not made.is_compiling


def test_a_stop_does_not_wait_for_the_kernels_of_html(starting: tuple[Fingerprinter, HangingProcess]) -> None:
    made, process = starting
    made.close()
    assert not process.is_running
