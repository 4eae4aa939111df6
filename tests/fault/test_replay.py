"""A log judged again under another policy beside the running service: killed amid it, gone on with, compared."""

from __future__ import annotations

import json
import shlex
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from simstream.cli.main import invoke
from simstream.log.base import Log
from simstream.log.options import FINGERPRINTS, POSITIONS, VERDICTS
from tests.e2e import pages
from tests.e2e.harness import Program, all_verdicts, environment, naive_verdicts, read_topic, watching

PAGES = 200
MORE = 40
SMALL = {"SIMSTREAM_FRAME_MAX_PAGES": "4"}
KILLED = """
import os, signal, sys
from simstream.cli.main import invoke
from simstream.roles.judge.outbox import VerdictOutbox
from simstream.roles.judge.transaction_room import TransactionRoom

# Many transactions, so that one can be the third.
TransactionRoom.count_fitting = lambda self, sizes: min(5, len(sizes))
publish, number = VerdictOutbox._publish, 0

def dying(self, frames):
    global number
    number += 1
    if number == 3 and {before!r}:
        os.kill(os.getpid(), signal.SIGKILL)
    publish(self, frames)
    if number == 3:
        os.kill(os.getpid(), signal.SIGKILL)

VerdictOutbox._publish = dying
sys.exit(invoke(sys.argv[1:]))
"""


def replay_killed(program: Program, cache: Path, *arguments: object, before: bool) -> None:
    """Run a command that dies by SIGKILL at its third transaction, before or after it."""
    done = subprocess.run(
        [sys.executable, "-c", KILLED.format(before=before), *map(str, arguments)],
        capture_output=True,
        cwd=program.folder,
        env=environment(cache),
        timeout=120,
        check=False,
    )
    assert done.returncode == -signal.SIGKILL, done.stderr.decode()


def kinds(old: list[bytes], new: list[bytes]) -> Counter[tuple[str, str]]:
    return Counter((json.loads(a)["verdict"], json.loads(b)["verdict"]) for a, b in zip(old, new, strict=True))


def compared(program: Program, to: str, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    assert invoke(["replay", "--to", to, "--compare", "--json", *program.where]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_a_log_is_judged_again_through_a_kill_and_goes_on_live_beside_the_old_policy(
    program: Program, cache: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place, to = program.place, f"{program.place.prefix}-b"
    again = ["replay", "--to", to, "--link", "canonical", "--state", tmp_path / "state"]
    with place.open() as old, place.open(publish_to=to) as new:
        old.create_topics(2, verdict_partitions=3)
        program.good("feed", pages.write(tmp_path / "one.jsonl", PAGES, seed=5))
        with program.serve(**SMALL) as service, watching(old) as watcher:
            watcher.wait(PAGES, service)
            replay_killed(program, cache, *again, *program.where, before=not place.is_local)
            assert 0 < len(all_verdicts(new)) < PAGES  # it was in the middle
            done = program.on_log(*again)
            said = done.stdout.decode()
            assert said.startswith(f"{PAGES} verdicts in {to}.verdicts, policy ")
            check_comparison(compared(program, to, capsys), all_verdicts(old), all_verdicts(new))
            assert invoke(["replay", "--to", to, "--distance", "3", *program.where]) == 1  # no third policy
            assert "simstream replay --to" in capsys.readouterr().err
            # Live: both judges follow the same frames from now on.
            live = shlex.split(done.stderr.decode().splitlines()[-1].partition("simstream serve ")[2])
            assert {"--link", "canonical", "--state", str(tmp_path / "state")} <= set(live)
            with program.serve(*live) as beside, watching(new) as other:
                program.good("feed", pages.write(tmp_path / "two.jsonl", MORE, seed=6))
                watcher.wait(PAGES + MORE, service)
                other.wait(PAGES + MORE, beside)
                assert beside.end() == 0
            assert service.end() == 0
        assert new.topic(VERDICTS).partitions == 3
        check(old, new, PAGES + MORE)
        assert json.loads(all_verdicts(new)[-1])["policy"] in said


def check(old: Log, new: Log, count: int) -> None:
    """Both topics hold what the quadratic judge says of the one log under either policy."""
    assert all_verdicts(old) == naive_verdicts(old)
    verdicts = all_verdicts(new)
    assert len(verdicts) == count
    assert verdicts == naive_verdicts(old, link="canonical")
    assert new.topic(FINGERPRINTS) == old.topic(FINGERPRINTS)
    assert read_topic(new, POSITIONS)[-1].value != read_topic(old, POSITIONS)[-1].value


def check_comparison(found: dict[str, Any], old: list[bytes], new: list[bytes]) -> None:
    assert (found["compared"], found["only_old"], found["only_new"]) == (len(old), 0, 0)
    counted = {(pair["old"], pair["new"]): pair["pages"] for pair in found["pairs"]}
    assert counted == kinds(old, new)
    same = ("verdict", "near_duplicate_of", "cluster_id")
    both = list(zip(map(json.loads, old), map(json.loads, new), strict=True))
    differ = [a["ordinal"] for a, b in both if any(a[name] != b[name] for name in same)]
    assert found["same"] == len(old) - len(differ)
    assert 0 < len(differ) < len(old)
    examples = [example["ordinal"] for pair in found["pairs"] for example in pair["examples"]]
    assert examples
    assert set(examples) <= set(differ)
    assert min(differ) in examples
