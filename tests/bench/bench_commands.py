"""Bench: wall time of short commands in processes of their own, against what Python and its imports cost."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import msgspec

from tests.bench.measure import against, line, rounds, title

ENTRANCE = "from simstream.cli.main import run; run()"
FLOORS = {
    "python -c pass": ["-c", "pass"],
    "import click": ["-c", "import click"],
    "import numpy": ["-c", "import numpy"],
    "import numba": ["-c", "import numba"],
}


def run(pages: Sequence[Mapping[str, str]], most_rounds: int) -> None:
    """`--help` and `dedup` of one page, each once before the clock starts, so that caches are warm."""
    turns = min(7, most_rounds)
    title("commands", f"wall time, caches warm, median of {turns} alternating runs")
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "one.jsonl"
        page.write_bytes(msgspec.json.encode(pages[0]) + b"\n")
        commands = {"simstream --help": ["--help"], "dedup of one page": ["dedup", str(page)]}
        _check(commands)
        rivals: dict[str, Callable[[], object]] = {name: _python(arguments) for name, arguments in FLOORS.items()}
        rivals |= {name: _python(["-c", ENTRANCE, *arguments]) for name, arguments in commands.items()}
        seconds = rounds(rivals, turns)
    for name, found in seconds.items():
        line(f"{name:20} {found * 1000:7.0f} ms")
    against("--help against `import click`", seconds["simstream --help"] / seconds["import click"], "near 1")
    print(f" > --help {seconds['simstream --help']:.2f} s (aim: under 0.3)", flush=True)
    against(
        "dedup of one page against `import numba`", seconds["dedup of one page"] / seconds["import numba"], "low"
    )
    print(f" > dedup of one page {seconds['dedup of one page']:.2f} s (aim: under 2)", flush=True)


def _check(commands: Mapping[str, Sequence[str]]) -> None:
    """Both answer as they should."""
    usage = _python(["-c", ENTRANCE, *commands["simstream --help"]])()
    verdict = json.loads(_python(["-c", ENTRANCE, *commands["dedup of one page"]])())
    if b"dedup" not in usage or verdict["verdict"] not in ("new", "too_short"):
        raise AssertionError("a command does not answer as it should")
    line("checked: --help names the commands, dedup gives the page's verdict")


def _python(arguments: Sequence[str]) -> Callable[[], bytes]:
    command = [sys.executable, *arguments]
    return lambda: subprocess.run(command, check=True, capture_output=True).stdout
