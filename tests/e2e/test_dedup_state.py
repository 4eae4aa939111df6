"""`dedup --state`: a run that was broken off goes on, and writes the bytes of an unbroken run."""

from __future__ import annotations

import errno
import gzip
import json
import os
import random
import re
import shutil
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from simstream.cli.dedup_outputs import FurtherOutputs
from simstream.cli.main import invoke
from simstream.deduper.state import SavedState
from simstream.files.folder import StateFolder
from simstream.files.zstandard import zstd
from simstream.judge.resolver import Resolver
from simstream.model import FingerprintColumns, Verdict
from simstream.tools.dedup.run_state import RunState
from simstream.wire.frame import checksum
from tests.disks import small_disk
from tests.e2e.harness import Program, command_line, environment

DICE = random.Random(5)
WORDS = [f"word{number}" for number in range(2000)]
OUTPUTS = ["-o", "v.jsonl", "--pairs", "p.jsonl.gz", "--clusters", "c.jsonl"]
STATE = ["--state", "state", "--save-every", "1ms"]
Pages = list[dict[str, str]]


def made(count: int, name: str) -> Pages:
    """Pages of which every third is like an earlier one, and some have an earlier page's id or text."""
    pages: Pages = []
    for number in range(count):
        text = " ".join(DICE.choices(WORDS, k=40))
        if number % 3 == 2:
            text = pages[DICE.randrange(number)]["text"] + " and more"
        same = number % 50 == 49
        pages.append({"id": pages[number - 7]["id"] if same else f"{name}-{number}", "text": text})
    return pages


FIRST, SECOND, OLD = made(1500, "a"), made(900, "b"), made(700, "old")
for page, other in zip(SECOND[::9], FIRST[::9], strict=False):
    page["id"] = other["id"]  # another page, as it comes from another input


def jsonl(pages: Pages) -> bytes:
    return b"".join(json.dumps(page).encode() + b"\n" for page in pages)


def warc(pages: Pages) -> bytes:
    """An archive with a gzip member for each page."""
    head = (
        b"WARC/1.0\r\nWARC-Target-URI: http://a/%b\r\nWARC-Type: response\r\nContent-Length: %d\r\n\r\n%b\r\n\r\n"
    )
    members = []
    for page in pages:
        body = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n" + page["text"].encode()
        members.append(gzip.compress(head % (page["id"].encode(), len(body), body), 1))
    return b"".join(members)


def write_lines(folder: Path) -> list[str]:
    (folder / "a.jsonl.zst").write_bytes(zstd.compress(jsonl(FIRST)))
    (folder / "b.jsonl").write_bytes(jsonl(SECOND[:400]) + b"{broken\n" + jsonl(SECOND[400:]))
    (folder / "old.jsonl").write_bytes(jsonl(OLD))
    return ["a.jsonl.zst", "b.jsonl", "a.jsonl.zst", "--against", "old.jsonl", "--keep", "kept.jsonl", "--final"]


def write_rows(folder: Path) -> list[str]:
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    for name, pages in (("a", FIRST), ("b", SECOND)):
        pq.write_table(pa.Table.from_pylist(pages), folder / f"{name}.parquet", row_group_size=200)
    return ["a.parquet", "b.parquet", "--keep", "kept.parquet", "--versions"]


def write_records(folder: Path) -> list[str]:
    (folder / "a.warc.gz").write_bytes(warc(FIRST))
    (folder / "b.warc.gz").write_bytes(warc(SECOND))
    return ["b.warc.gz", "a.warc.gz", "--keep", "kept.warc.gz"]


def write_mixture(folder: Path) -> list[str]:
    """Files of several formats; the first, an archive, is damaged."""
    broken = warc(SECOND)
    (folder / "b.warc.gz").write_bytes(broken[:20_000] + bytes(500) + broken[20_500:])
    (folder / "a.csv").write_bytes(b"id,text\n" + b"".join(f"{p['id']},{p['text']}\n".encode() for p in FIRST))
    (folder / "old.jsonl").write_bytes(jsonl(OLD))
    return ["b.warc.gz", "a.csv", "old.jsonl"]


def outputs(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.name[:2] in ("v.", "p.", "c.", "ke")}


def reference(program: Program, arguments: list[str]) -> tuple[dict[str, bytes], int]:
    """What an unbroken run without a state writes, and its exit code. Removes it."""
    done = program.run("dedup", "--max-unreadable", 1, *arguments, *OUTPUTS)
    found = outputs(program.folder)
    for name in found:
        (program.folder / name).unlink()
    assert len(found) >= 3
    return found, done.returncode


@pytest.fixture
def here(alone: Program, cache: Path, monkeypatch: pytest.MonkeyPatch) -> Program:
    """The program in a folder that is this process's own folder, too."""
    monkeypatch.chdir(alone.folder)
    monkeypatch.setenv("SIMSTREAM_CACHE", str(cache))
    return alone


@pytest.mark.parametrize("write", [write_lines, write_rows, write_records, write_mixture])
def test_a_run_that_is_interrupted_again_and_again_gives_the_bytes_of_an_unbroken_one(
    here: Program,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    write: Callable[[Path], list[str]],
) -> None:
    arguments = write(here.folder)
    expected, code = reference(here, arguments)
    dice, calls = random.Random(len(arguments)), [0]
    places = ((FurtherOutputs, "note_pages"), (RunState, "append"))

    def interrupted(kind: type, name: str) -> None:
        """Let the call of this number end as Ctrl-C does."""
        real = getattr(kind, name)

        def call(*given: object) -> object:
            calls[0] -= 1
            if calls[0] == 0:
                raise KeyboardInterrupt
            return real(*given)

        monkeypatch.setattr(kind, name, call)

    for place in places:
        interrupted(*place)
    command = ["dedup", "--max-unreadable", "1", *arguments, *OUTPUTS, *STATE]
    for _ in range(3):
        calls[0] = dice.randint(2, 9)
        assert invoke(command) == 130
        assert outputs(here.folder) == {}
        assert "state keeps the progress: give the same command to go on" in capsys.readouterr().err
    calls[0] = -1
    assert invoke(command) == code
    assert "state/judge goes on after" in capsys.readouterr().err
    assert outputs(here.folder) == expected
    assert (here.folder / "state").exists() == bool(code)


def test_a_run_that_is_killed_at_any_moment_gives_the_bytes_of_an_unbroken_one(alone: Program, cache: Path) -> None:
    arguments, dice = write_lines(alone.folder), random.Random(1)
    expected, _ = reference(alone, arguments)
    command = command_line("dedup", "--max-unreadable", 1, *arguments, *OUTPUTS, *STATE)
    journal, killed = alone.folder / "state/judged.journal", 0
    for _ in range(2):
        size = (journal.stat().st_size if journal.exists() else 0) + dice.randint(0, 60_000)
        deadline = time.monotonic() + 60
        with subprocess.Popen(command, cwd=alone.folder, env=environment(cache), stderr=subprocess.PIPE) as run:
            while run.poll() is None and not (journal.exists() and journal.stat().st_size >= size):
                assert time.monotonic() < deadline
                time.sleep(0.001)
            run.send_signal(signal.SIGKILL)
        assert run.returncode in (0, -signal.SIGKILL)
        killed += run.returncode != 0
    assert killed
    done = alone.run("dedup", "--max-unreadable", 1, *arguments, *OUTPUTS, *STATE)
    assert done.returncode == 0, done.stderr
    assert outputs(alone.folder) == expected
    assert not (alone.folder / "state").exists()


@pytest.mark.parametrize("signals", [1, 2])
def test_ctrl_c_while_a_batch_is_judged_loses_nothing(
    signals: int, here: Program, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (here.folder / "a.jsonl").write_bytes(jsonl(FIRST))
    command = ["dedup", "a.jsonl", "-o", "v.jsonl", "--state", "state", "--save-every", "1h"]
    calls, judged = [0], [0]
    real, save = Resolver.judge, StateFolder.prepare

    def interrupted(self: Resolver, columns: FingerprintColumns, *more: Any) -> list[Verdict]:
        calls[0] += 1
        if calls[0] == 2:
            os.kill(os.getpid(), signal.SIGINT)
        judged[0] += len(columns)
        return real(self, columns, *more)

    def saved(self: StateFolder, *facts: Any) -> Any:
        if signals > 1:
            os.kill(os.getpid(), signal.SIGINT)  # another one, as impatient people do
        return save(self, *facts)

    with monkeypatch.context() as patched:
        patched.setattr(Resolver, "judge", interrupted)
        patched.setattr(StateFolder, "prepare", saved)
        assert invoke(command) == 130
    assert calls == [2]
    assert "state keeps the progress" in capsys.readouterr().err
    assert invoke(command) == 0
    assert f"state/judge goes on after {judged[0]:,} pages" in capsys.readouterr().err


def test_other_options_are_refused_even_if_nothing_was_saved(
    here: Program, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (here.folder / "a.jsonl").write_bytes(jsonl(FIRST))
    command = ["dedup", "a.jsonl", "-o", "v.jsonl", "--state", "state"]

    def killed(*_: object, **__: object) -> None:
        raise SystemExit(9)

    with monkeypatch.context() as patched:
        patched.setattr(RunState, "known", killed)
        patched.setattr(SavedState, "_write", lambda *_: None)
        with pytest.raises(SystemExit):
            invoke(command)
    for other in (["--distance", "8"], ["--similarity", ".9"], ["--link", "canonical"], ["--window", "1h"]):
        assert invoke([*command, *other]) == 1
        said = "state belongs to a run with another recipe, distance, similarity, window or link: give the same"
        assert said in capsys.readouterr().err
    assert invoke([*command, "--distance", "12", "--link", "any"]) == 0  # the same, in other words


@pytest.fixture
def begun(here: Program, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The command of a run that was broken off behind some batches."""
    (here.folder / "a.jsonl").write_bytes(jsonl(FIRST))
    (here.folder / "b.jsonl").write_bytes(jsonl(SECOND))
    command = ["dedup", "a.jsonl", "b.jsonl", "-o", "v.jsonl", *STATE]
    seen = [0]

    def stop(*_: object) -> None:
        seen[0] += 1
        if seen[0] == 3:
            raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(FurtherOutputs, "note_pages", stop)
        assert invoke(command) == 130
    return command


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--versions"], "state belongs to a run without --versions: give the same inputs and options, or delete"),
        (["--text-field", "body"], "a run without --text-field"),
        (["--keep", "k.jsonl"], "a run without --keep"),
        (["--against", "a.jsonl"], "a run without the --against a.jsonl"),
        (["b.jsonl"], "a run without the input b.jsonl"),
        (["--distance", "3"], "use the same distance"),
        (["--recipe", "google2007"], "the state has recipe"),
    ],
)
def test_another_run_is_refused_by_name(
    begun: list[str], more: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert invoke([*begun, *more]) == 1
    assert said in capsys.readouterr().err
    assert not os.path.exists("v.jsonl")
    assert invoke(begun) == 0


def name_of(descriptor: int) -> str:
    """The name of an open file."""
    return os.path.basename(os.readlink(f"/proc/self/fd/{descriptor}"))


def test_an_output_that_the_disk_does_not_take_in_the_end_leaves_file_and_progress_as_they_were(
    begun: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As on NFS, which may say only at the end that it is full."""
    real = os.fsync

    def full(descriptor: int) -> None:
        if name_of(descriptor) == "v.jsonl.part":
            raise OSError(errno.ENOSPC, "No space left on device")
        real(descriptor)

    Path("v.jsonl").write_bytes(b"as before")
    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full)
        assert invoke(begun) == 1
    assert "writing to v.jsonl failed (No space left on device)" in capsys.readouterr().err
    assert Path("v.jsonl").read_bytes() == b"as before"
    assert not os.path.exists("v.jsonl.part")
    assert invoke(begun) == 0
    said = capsys.readouterr().err
    assert f"state/judge goes on after {len(FIRST) + len(SECOND):,} pages" in said
    assert "pages/s" not in said
    assert not os.path.exists("state")


def test_the_rate_of_a_run_that_goes_on_does_not_count_what_was_judged_before(
    begun: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("simstream.cli.dedup_run.perf_counter", lambda: 100.0)
    monkeypatch.setattr("simstream.cli.dedup.perf_counter", lambda: 110.0)
    assert invoke(begun) == 0
    said = capsys.readouterr().err
    before = int(re.findall(r"goes on after ([\d,]+) pages", said)[0].replace(",", ""))
    total = len(FIRST) + len(SECOND)
    assert 0 < before < total
    assert f"simstream: {total:,} verdicts in v.jsonl" in said
    assert f", {(total - before) / 10:,.0f} pages/s" in said


def test_outputs_are_on_the_disk_before_the_progress_is_removed(
    begun: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[str] = []
    real, remove = os.fsync, RunState.remove

    def noted(descriptor: int) -> None:
        real(descriptor)
        steps.append(name_of(descriptor))

    def removed(self: RunState) -> None:
        steps.append("removed")
        remove(self)

    monkeypatch.setattr(os, "fsync", noted)
    monkeypatch.setattr(RunState, "remove", removed)
    assert invoke(begun) == 0
    assert steps[-3:] == ["v.jsonl.part", Path.cwd().name, "removed"]


@pytest.mark.parametrize("gone", ["*.sealed", "manifest*"])
def test_a_run_that_is_killed_while_it_removes_its_folder_can_be_given_again(
    begun: list[str], monkeypatch: pytest.MonkeyPatch, gone: str
) -> None:
    def killed(folder: Path, **_: object) -> None:
        for path in (*folder.glob(gone), folder / "lock"):
            path.unlink()
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(shutil, "rmtree", killed)
        assert invoke(begun) == 130
    expected = Path("v.jsonl").read_bytes()
    Path("state/run.json").write_text("of another program, as this is:")
    Path("state/mine").touch()
    assert invoke(begun) == 2
    Path("state/mine").unlink()
    assert Path("state/run.json").exists()
    assert invoke(begun) == 0
    assert Path("v.jsonl").read_bytes() == expected
    assert not os.path.exists("state")


def test_a_changed_input_is_refused_by_name(begun: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with open("b.jsonl", "ab") as file:
        file.write(b'{"text":"one more"}\n')
    assert invoke(begun) == 1
    assert "a run with the input b.jsonl, which has changed since" in capsys.readouterr().err


def test_an_input_on_a_disk_that_has_another_number_since_a_reboot_is_the_same(
    begun: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.fstat

    def on_another_disk(descriptor: int) -> SimpleNamespace:
        found = real(descriptor)
        facts = {name: getattr(found, name) for name in dir(found) if name.startswith("st_")}
        return SimpleNamespace(**facts | {"st_dev": found.st_dev + 1})

    monkeypatch.setattr(os, "fstat", on_another_disk)
    assert invoke(begun) == 0


@pytest.mark.parametrize("body", [b"not zstd", zstd.compress(b"junk"), zstd.compress(msgspec.msgpack.encode([1]))])
def test_a_journal_with_something_else_is_refused_by_name(
    begun: list[str], capsys: pytest.CaptureFixture[str], body: bytes
) -> None:
    Path("state/judged.journal").write_bytes(struct.pack("<4sIQ", b"sjr\x01", len(body), checksum(body)) + body)
    assert invoke(begun) == 1
    assert "state/judged.journal is damaged: 1,024 pages were judged, and it has 0" in capsys.readouterr().err


def test_a_journal_that_lost_what_was_judged_is_refused(
    begun: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    journal = Path("state/judged.journal")
    journal.write_bytes(journal.read_bytes()[:-10])
    assert invoke(begun) == 1
    said = capsys.readouterr().err
    assert "state/judged.journal is damaged: 1,024 pages were judged, and it has 512: delete state to begin" in said
    assert not os.path.exists("v.jsonl")


def test_what_a_killed_writer_has_left_behind_the_last_save_does_not_count(begun: list[str]) -> None:
    journal = Path("state/judged.journal")
    whole = journal.read_bytes()
    journal.write_bytes(whole + whole[: len(whole) // 3])
    assert invoke(begun) == 0
    expected = Path("v.jsonl").read_bytes()
    assert invoke(begun[:-4]) == 0
    assert Path("v.jsonl").read_bytes() == expected


@pytest.mark.parametrize(("content", "said"), [(None, "state has no run.json"), (b"{", "run.json cannot be read")])
def test_a_state_that_does_not_say_with_what_it_was_made_is_refused(
    begun: list[str], capsys: pytest.CaptureFixture[str], content: bytes | None, said: str
) -> None:
    facts = Path("state/run.json")
    facts.unlink() if content is None else facts.write_bytes(content)
    assert invoke(begun) == 1
    assert said in capsys.readouterr().err
    assert not os.path.exists("v.jsonl")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["-", "--state", "new"], "--state reads its inputs again, and - is no regular file"),
        (["a.jsonl", "--state", "."], ". is not the state of a run: it holds other files"),
        (["a.jsonl", "--state", "new", "--least-jaccard", ".8"], "--state keeps no texts, which --least-jaccard"),
        (["a.jsonl", "--state", "new", "--exact", "--pairs", "p"], "--state keeps no texts, which --exact needs"),
        (["a.jsonl", "--state", "new", "--save-every", "soon"], "--save-every is 'soon'"),
        (["a.jsonl", "--save-every", "soon"], "--save-every is 'soon'"),
        (["a.jsonl", "--state", "new", "-o", "new/v.jsonl"], "--output new/v.jsonl lies in new, the folder of"),
        (["a.jsonl", "--state", "new", "--pairs", "./new/p"], "--pairs ./new/p lies in new, the folder of --state"),
        (["a.jsonl", "--state", ".", "-o", "v.jsonl"], "--output v.jsonl lies in ., the folder of --state"),
    ],
)
def test_what_cannot_go_on_is_refused_before_a_page_is_read(
    alone: Program, arguments: list[str], said: str
) -> None:
    (alone.folder / "a.jsonl").write_bytes(jsonl(FIRST[:3]))
    done = alone.run("dedup", *arguments)
    assert done.returncode == 2
    assert said.encode() in done.stderr
    assert os.listdir(alone.folder) == ["a.jsonl"]


def test_a_state_that_another_run_holds_is_refused(begun: list[str], alone: Program, cache: Path) -> None:
    lock = "import fcntl; file = open('state/judge/lock'); fcntl.flock(file, 2); print(1, flush=True); input()"
    command = [sys.executable, "-c", lock]
    with subprocess.Popen(command, cwd=alone.folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        done = alone.run(*begun)
        holder.kill()
    assert done.returncode == 1
    assert b"state/judge" in done.stderr
    assert alone.run(*begun).returncode == 0


def test_a_run_whose_disk_was_full_goes_on_once_there_is_room(alone: Program) -> None:
    arguments = write_lines(alone.folder)
    expected, _ = reference(alone, arguments)
    (disk := alone.folder / "disk").mkdir()
    with small_disk(disk, 400):
        command = [
            "dedup",
            "--max-unreadable",
            1,
            *arguments,
            *OUTPUTS,
            "--state",
            "disk/state",
            "--save-every",
            "1ms",
        ]
        done = alone.run(*command)
        assert done.returncode == 1
        assert b"no room to write disk/state" in done.stderr
        assert b"disk/state keeps the progress: give the same command to go on" in done.stderr
        assert outputs(alone.folder) == {}
        subprocess.run(["mount", "-o", "remount,size=64m", str(disk)], check=True)
        done = alone.run(*command)
        assert done.returncode == 0, done.stderr
    assert outputs(alone.folder) == expected
