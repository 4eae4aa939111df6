"""The README's Python example does what its comments say."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

from tests.chaos.scenarios import SCENARIOS

README = Path(__file__).parents[2] / "README.md"


def example(what: str) -> str:
    """The one Python example in which `what` stands."""
    found = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    [code] = [code for code in found if what in code]
    return code


def test_the_python_example_prints_what_it_says() -> None:
    code = example("Deduper()")
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code, "README.md", "exec"), {})
    assert printed.getvalue().splitlines() == ["a new None", "b near_duplicate a"]


def test_the_table_of_failures_names_existing_tests_and_scenarios() -> None:
    text = README.read_text(encoding="utf-8")
    section = text[text.index("## What can go wrong") : text.index("`simstream status` shows")]
    files = re.findall(r"`(tests/\S+\.py)`", section)
    assert files
    assert all((README.parent / file).is_file() for file in files)
    proofs = [line.split("|")[-2] for line in section.splitlines() if "ONLY=" in line and line.startswith("|")]
    names = {name for proof in proofs for name in re.findall(r"`(?:make chaos )?(?:ONLY=)?([a-z_]+)`", proof)}
    assert names <= {scenario.name for scenario in SCENARIOS}
    assert {"kills", "zombies", "states", "backlog"} <= names


def test_the_browser_that_the_tests_need_comes_with_a_font_for_chinese() -> None:
    lines = re.findall(r"^apt-get install .*$", README.read_text(encoding="utf-8"), re.MULTILINE)
    browsers = [line for line in lines if "chromium" in line]
    assert browsers
    assert all("fonts-noto-cjk" in line for line in browsers)
