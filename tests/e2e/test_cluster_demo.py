"""The demo of a stream on many processes: what it shows, what it checks, and that it leaves nothing behind."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path

import pytest

from deploy.cluster import endless
from deploy.cluster_demo import listed
from simstream.sources.demo import demo_records
from tests.e2e.harness import PATIENCE_S, ROOT
from tests.forked_process import working_below
from tests.kafka_fixtures import need_broker
from tests.waiting import until


@contextmanager
def demo(cache: Path, folder: Path) -> Iterator[tuple[subprocess.Popen[bytes], Path]]:
    """The program, and the file with what it says. Nothing of it works in its folder afterwards."""
    need_broker()
    said = folder / "said"
    line = [sys.executable, "-m", "deploy.cluster_demo", "--speed", "40"]
    more = {"SIMSTREAM_CACHE": str(cache), "TMPDIR": str(folder), "PYTHONFAULTHANDLER": "1"}
    with said.open("wb") as output:
        process = subprocess.Popen(line, cwd=ROOT, env=os.environ | more, stdout=output, stderr=output)
    try:
        yield process, said
    finally:
        process.kill()
        process.wait()
    assert not working_below(folder)
    assert [path.name for path in folder.iterdir()] == [said.name]


def code_of(process: subprocess.Popen[bytes], seconds: float, said: Path) -> int:
    """Its exit code, once it has ended. If it does not end in time, the test's failure shows where it hangs."""
    try:
        return process.wait(seconds)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGABRT)  # Python's faulthandler writes where each thread is
        process.wait(PATIENCE_S)
        pytest.fail(f"it has not ended after {seconds:g} s:\n{said.read_text()}")


@pytest.mark.kafka
@pytest.mark.long
def test_it_kills_one_of_each_kind_and_finds_every_verdict_right(cache: Path, tmp_path: Path) -> None:
    with demo(cache, tmp_path) as (process, said):
        assert code_of(process, 5 * PATIENCE_S, said) == 0, said.read_text()
        text = said.read_text()
    killed = re.findall(r"kill -9  (.*): ", text)
    assert killed[:2] + killed[3:] == ["fingerprinter 1", "matcher 2", "the broker"]
    assert killed[2] in ("judge 1", "judge 2")
    assert text.count("no page is behind") == 4
    sent = int(re.findall(r"right  each of ([\d,]+) pages has exactly one verdict", text)[0].replace(",", ""))
    assert sent > 40 * 8
    assert text.endswith("verdicts of one judge with an index of its own, over the same log\n")
    assert "WRONG" not in text
    assert "Traceback" not in text


@pytest.mark.kafka
@pytest.mark.long
def test_ctrl_c_ends_all_of_its_processes(cache: Path, tmp_path: Path) -> None:
    with demo(cache, tmp_path) as (process, said):
        until(
            lambda: "pages a second" in said.read_text(),
            lambda: f"pages are judged: {said.read_text()}",
            2 * PATIENCE_S,
            every=0.1,
            process=process,
        )
        process.send_signal(signal.SIGINT)
        assert code_of(process, PATIENCE_S, said) == 0, said.read_text()
        assert said.read_text().endswith("ended\n")


def test_the_pages_come_again_with_other_ids_and_in_other_halves() -> None:
    count = len(list(demo_records()))
    assert list(islice(endless(demo_records()), count)) == list(demo_records())
    later = [json.loads(record.value or b"") for record in islice(endless(demo_records()), count, 5 * count)]
    rounds = [{page["id"] for page in later if page["id"].endswith(f"#{turn}")} for turn in (1, 2, 3)]
    assert rounds[0]
    assert len(rounds[0]) == len(rounds[1]) == len(rounds[2])
    assert not rounds[0] & rounds[1]
    assert len({page["text"] for page in later}) > count


def test_numbers_are_listed_as_people_write_them() -> None:
    assert [listed(numbers) for numbers in ((), (3,), (1, 3), (1, 3, 7))] == ["", "3", "1 and 3", "1, 3 and 7"]
