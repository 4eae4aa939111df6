"""CONTRIBUTING.md names files, make targets and commands that exist."""

from __future__ import annotations

import re
from pathlib import Path

from simstream.cli.main import COMMANDS

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")


def test_every_file_and_folder_that_it_names_is_there() -> None:
    named = set(re.findall(r"(?:stream|tests|deploy|\.ci)/[\w./]*\w", TEXT)) - {"stream/simstream/cli/NAME.py"}
    assert len(named) > 15
    assert [name for name in sorted(named) if not (ROOT / name).exists()] == []


def test_every_make_target_and_command_that_it_names_is_there() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"`?\bmake ([a-z-]+)", TEXT))
    assert {"test", "lint", "locks"} <= targets
    assert [target for target in sorted(targets) if f"\n{target}:" not in makefile] == []
    commands = set(re.findall(r"`simstream ([a-z-]+)", TEXT)) - {"--help", "--version"}
    assert "explain" in commands
    assert commands <= set(COMMANDS)


def test_the_example_of_one_test_finds_tests() -> None:
    [(file, word)] = re.findall(r"-m pytest (\S+) -k (\w+)", TEXT)
    assert re.search(rf"^def test_\w*{word}", (ROOT / file).read_text(encoding="utf-8"), re.MULTILINE)
