"""`feed --resume`: what was interrupted goes on, over both logs, and no page is lost."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
from collections import Counter
from pathlib import Path

import pytest

from simstream.log.options import PAGES
from tests.e2e.harness import PATIENCE_S, Program, command_line, environment, read_topic
from tests.waiting import until

PAGE_COUNT = 4_000


def lines() -> list[bytes]:
    return [b'{"id":"p%d","text":"the text of page %d"}\n' % (number, number) for number in range(PAGE_COUNT)]


def fed(program: Program) -> Counter[str]:
    """How often each page lies in the topic."""
    with program.place.open() as log:
        return Counter((record.key or b"").decode() for record in read_topic(log, PAGES))


def position(path: Path) -> int:
    return int(json.loads(path.read_bytes())["records"]) if path.exists() else 0


def test_a_feed_that_was_killed_goes_on_and_loses_nothing(program: Program, cache: Path, tmp_path: Path) -> None:
    stop_and_resume(program, cache, tmp_path, signal.SIGKILL)


@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM])
def test_a_feed_that_was_told_to_stop_goes_on_with_one_double_at_most(
    on_folder: Program, cache: Path, tmp_path: Path, stop: signal.Signals
) -> None:
    stop_and_resume(on_folder, cache, tmp_path, stop)


def stop_and_resume(program: Program, cache: Path, tmp_path: Path, stop: signal.Signals) -> None:
    """Feed from a pipe until some of it is saved, stop; feed the same from a file, add to that and feed again."""
    program.good("topics", "create")
    whole, place = lines(), tmp_path / "position"
    (tmp_path / "pages.jsonl").write_bytes(b"".join(whole))
    process = subprocess.Popen(
        [*command_line("feed", "-", "--resume", place), *program.where],
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=tmp_path,
        env=environment(cache),
    )
    assert process.stdin is not None
    ended = threading.Event()

    def write() -> None:
        """More and more pages, until somebody has seen enough of them."""
        assert process.stdin is not None
        try:
            for number, line in enumerate(whole):
                os.write(process.stdin.fileno(), line)
                if ended.wait(0.001 if number > 500 else 0):
                    return
        except BrokenPipeError:
            pass

    writer = threading.Thread(target=write)
    writer.start()
    until(lambda: position(place) >= 500, "so many pages are sent", process=process)
    process.send_signal(stop)
    code = process.wait(timeout=PATIENCE_S)
    ended.set()
    writer.join()
    assert process.stderr is not None
    with process.stdin, process.stderr:
        assert code == (-stop if stop is signal.SIGKILL else 130), process.stderr.read()
    saved, before = position(place), fed(program)
    assert 500 <= saved <= before.total() < PAGE_COUNT
    assert before.total() - saved <= 1 or stop is signal.SIGKILL  # the one that was being appended

    done = program.on_log("feed", "pages.jsonl", "--resume", "position")
    assert done.returncode == 0, done.stderr.decode()
    assert f"{saved:,} pages were sent before" in done.stderr.decode()
    after = fed(program)
    assert set(after) == {f"p{number}" for number in range(PAGE_COUNT)}
    # What a killed process has sent to a broker may lie there a moment later.
    assert after.total() >= before.total() + PAGE_COUNT - saved
    assert after.total() <= PAGE_COUNT + 1 or stop is signal.SIGKILL

    with (tmp_path / "pages.jsonl").open("ab") as more:
        more.write(b'{"id":"more","text":"x"}\n')
    assert "1 page sent" in program.on_log("feed", "pages.jsonl", "--resume", "position").stderr.decode()
    assert fed(program).total() == after.total() + 1


def test_a_line_that_is_still_being_written_is_left_for_the_next_run(on_folder: Program, tmp_path: Path) -> None:
    program, whole, path = on_folder, lines()[:4], tmp_path / "pages.jsonl"
    program.good("topics", "create")
    end = whole[2].rindex(b",")
    said = "the last line of pages.jsonl is not finished: it is left for the next run"
    for content, sent, is_left in (
        (b"".join(whole[:2]) + whole[2][:end], "2 pages", True),
        (b"".join(whole[:2]) + whole[2][: end + 1], "0 pages", True),
        (b"".join(whole[:3]).rstrip(), "1 page", False),
        (b"".join(whole), "1 page", False),
    ):
        path.write_bytes(content)
        done = program.on_log("feed", path.name, "--resume", "position")
        assert done.returncode == 0, done.stderr.decode()
        assert f"{sent} sent" in done.stderr.decode()
        assert (said in done.stderr.decode()) == is_left
    assert fed(program) == Counter(f"p{number}" for number in range(4))


def test_a_position_of_other_inputs_or_another_topic_is_refused(on_folder: Program, tmp_path: Path) -> None:
    program = on_folder
    program.good("topics", "create")
    (tmp_path / "a.jsonl").write_bytes(b"".join(lines()[:20]))
    (tmp_path / "b.jsonl").write_bytes(b"".join(lines()[5:40]))
    (tmp_path / "c.jsonl").write_bytes(b"".join(lines()[:10]))
    program.good("feed", "a.jsonl", "--resume", "position")
    for other in ("b.jsonl", "c.jsonl"):
        done = program.on_log("feed", other, "--resume", "position")
        assert done.returncode == 2
        assert "do not begin with the pages (20) that position says were sent" in done.stderr.decode()
        assert "or delete position to send all pages" in done.stderr.decode()
    assert fed(program).total() == 20
    whole = json.loads((tmp_path / "position").read_bytes())
    (tmp_path / "position").write_text(json.dumps(whole | {"topic_id": "other"}))
    done = program.on_log("feed", "a.jsonl", "--resume", "position")
    assert done.returncode == 1
    assert "another topic" in done.stderr.decode()
    (tmp_path / "position").write_bytes(b'{"records":')
    done = program.on_log("feed", "a.jsonl", "--resume", "position")
    assert "is not the position of a feed" in done.stderr.decode()
    done = program.on_log("feed", "a.jsonl", "--resume", "a.jsonl")
    assert done.returncode == 2
    assert "is an input, too" in done.stderr.decode()
