"""`simstream state`: what it shows of a real judge's folder, and that it names what is damaged and how to go on."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import numpy as np
import pytest

from simstream import Deduper
from simstream.cli.main import invoke
from simstream.errors import InputMissing
from simstream.files.file_system import FileSystem
from simstream.files.folder import LoadedSnapshot, StateFolder
from simstream.files.manifest import NEWEST, PREVIOUS
from simstream.files.snapshot_part import SnapshotPart
from simstream.judge.directory import PLACED
from simstream.tools.state import inspect as looking
from simstream.tools.state.verify import verify
from tests.states import save_again

HOUR_MS = 3_600_000
PAGES = 5000
"""More than a memtable holds, so that there is a segment."""


def pages(start: int, count: int) -> list[dict[str, Any]]:
    words = [
        " ".join(f"w{(i * 7 + j * 13 + i * j) % 4999}" for j in range(40)) for i in range(start, start + count)
    ]
    return [{"id": f"id-{start + i}", "time": (start + i) * 1000, "text": text} for i, text in enumerate(words)]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, cache: Path) -> Path:
    """The folder of a judge that took two snapshots and stopped."""
    path = tmp_path_factory.mktemp("made") / "state"
    with Deduper(path=path, cache=cache, window="720h") as deduper:
        deduper.judge(pages(0, PAGES))
        deduper.save()
        deduper.judge(pages(PAGES, 200))
    return path


@pytest.fixture
def folder(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "state"))


def run(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    code = invoke(["state", *map(str, arguments)])
    out, err = capsys.readouterr()
    return code, click.unstyle(out), err


def flip(path: Path, at: int) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 0x10
    path.write_bytes(data)


def test_inspect_shows_what_the_judge_knew(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "inspect", folder, "--json")
    assert code == 0
    found = json.loads(out)
    newest, previous = found["snapshots"]
    assert (newest["facts"]["ordinal"], previous["facts"]["ordinal"]) == (PAGES + 200, PAGES)
    assert newest["age_s"] <= previous["age_s"]
    segments = [part for part in newest["parts"] if part["kind"] == "segment"]
    memtable = next(part for part in newest["parts"] if part["kind"] == "memtable")
    entries = sum(part["facts"]["count"] for part in segments) + memtable["facts"]["count"]
    assert entries == memtable["facts"]["live"] > 4096
    assert newest["facts"]["live_pages"] == PAGES + 199, "one has a single word"
    on_disk = sum(each.stat().st_size for each in folder.iterdir() if each.name != "lock")
    assert sum(found["disk"].values()) + found["rest"] == on_disk
    assert found["rest"] == 0


def test_inspect_as_a_table_names_policy_positions_and_sizes(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, _ = run(capsys, "inspect", folder)
    assert code == 0
    assert re.search(r"next ordinal +5,200 +5,000", out)
    assert re.search(r"policy +[0-9a-f]{8}\n", out)
    assert re.search(r"window +720 h\n", out)
    assert re.search(r"segment +\d+ +\S+ KiB", out)
    assert re.search(r"\d x \d+ bits, flips \d|scan", out)


def test_a_whole_folder_is_verified_and_each_file_named(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, "verify", folder, "--verbose")
    assert (code, err) == (0, "")
    *lines, last = out.splitlines()
    assert {Path(line.split()[1]).name for line in lines} == {each.name for each in folder.iterdir()} - {"lock"}
    assert all(line.startswith("sound ") for line in lines)
    assert last.startswith(f"{folder} is whole: 2 snapshots, ")


def only_in(folder: Path, which: int, kind: str) -> Path:
    """A file of this kind that the newest (0) or previous (1) snapshot alone names."""
    with StateFolder(folder) as opened:
        files = [{each.file for each in one.manifest.files() if each.kind == kind} for one in opened.snapshots]
    return folder / sorted(files[which] - files[1 - which])[0]


def shared(folder: Path) -> Path:
    """A file that both snapshots name."""
    with StateFolder(folder) as opened:
        one, other = ({each.file for each in snapshot.manifest.files()} for snapshot in opened.snapshots)
    return folder / sorted(one & other)[0]


CASES: dict[str, tuple[Callable[[Path], Path], str]] = {
    "the newest's blocks": (
        lambda folder: only_in(folder, 0, "blocks"),
        "and start it again: the previous snapshot is whole",
    ),
    "the newest manifest": (lambda folder: folder / NEWEST, "and start it again: the previous snapshot is whole"),
    "the previous manifest": (lambda folder: folder / PREVIOUS, "and start it again: the newest snapshot is whole"),
    "the previous one's blocks": (
        lambda folder: only_in(folder, 1, "blocks"),
        "keep it running: the newest snapshot is whole",
    ),
    "a shared file": (shared, "stop the process and delete the folder"),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("place", [0.02, 0.5, 1.0])
def test_a_damaged_file_is_named_and_the_advice_is_right(
    folder: Path, capsys: pytest.CaptureFixture[str], cache: Path, name: str, place: float
) -> None:
    find, advice = CASES[name]
    path = find(folder)
    flip(path, int((path.stat().st_size - 1) * place))
    code, out, err = run(capsys, "verify", folder)
    assert code == 1
    assert f"damaged  {path} is damaged" in out
    assert advice in err
    assert len(err.splitlines()) == 1
    follow(err, folder)
    with Deduper(path=folder, cache=cache, window="720h") as deduper:
        verdicts = deduper.judge(pages(PAGES + 200, 1))
    assert [verdict.ordinal for verdict in verdicts] == [0 if "delete the folder" in advice else at(advice)]


def at(advice: str) -> int:
    """The next ordinal of the snapshot that is still whole."""
    return PAGES if "previous snapshot is whole" in advice else PAGES + 200


def follow(advice: str, folder: Path) -> None:
    """Do what it says."""
    if move := re.search(r"`mv (\S+) (\S+)`", advice):
        Path(move[1]).replace(move[2])
    elif file := re.search(r"stop the process, delete (\S+), and start it again", advice):
        Path(file[1]).unlink()
    elif "delete the folder" in advice:
        shutil.rmtree(folder)


def changed(part: SnapshotPart, name: str, change: Callable[[Any], None]) -> SnapshotPart:
    array = part.arrays[name].copy()
    change(array)
    return part._replace(arrays={**part.arrays, name: array})


def swap(array: Any) -> None:
    array[[0, -1]] = array[[-1, 0]]


def double(array: Any) -> None:
    array[0] = array[1]


def more(array: Any) -> None:
    array.reshape(-1)[0] += 1


@pytest.mark.parametrize(
    ("kind", "name", "change"),
    [("segment", "rows", double), ("segment", "sketches", None), ("directory", PLACED, more)],
)
def test_damage_under_right_checksums_is_found_by_order_and_count(
    folder: Path, tmp_path: Path, kind: str, name: str, change: Callable[[Any], None] | None
) -> None:
    def damage(parts: list[SnapshotPart], _: dict[str, Any]) -> None:
        for at, part in enumerate(parts):
            if part.kind == kind and change is None:
                parts[at] = part._replace(arrays={key: each for key, each in part.arrays.items() if key != name})
            elif part.kind == kind:
                parts[at] = changed(part, name, change)

    other = tmp_path / "other"
    save_again(folder, damage, other)
    found = verify(other)
    assert [each.name for each in found.wrong] == [NEWEST]
    assert "contradicts itself" in str(found.wrong[0].error)


def test_a_table_that_is_out_of_order_is_found(folder: Path, tmp_path: Path) -> None:
    with StateFolder(folder) as opened:
        loaded = opened.load()
    assert loaded is not None
    segment = next(part for part in loaded.parts if part.kind == "segment")
    tables = [name for name in segment.arrays if name not in ("rows", "sketches")]
    unequal = [name for name in tables if not np.array_equal(segment.arrays[name][0], segment.arrays[name][-1])]
    assert unequal
    for number, name in enumerate(unequal):

        def damage(parts: list[SnapshotPart], _: dict[str, Any], name: str = name) -> None:
            parts[:] = [changed(part, name, swap) if part.name == segment.name else part for part in parts]

        other = tmp_path / str(number)
        save_again(folder, damage, other)
        assert verify(other).wrong, name


def test_a_folder_is_looked_at_while_a_judge_uses_it(
    folder: Path, capsys: pytest.CaptureFixture[str], cache: Path
) -> None:
    with Deduper(path=folder, cache=cache, window="720h"):
        assert run(capsys, "verify", folder)[0] == 0
        assert run(capsys, "inspect", folder)[0] == 0


def test_each_state_of_a_process_is_shown_and_verified(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A judge's, a matcher's and a query's states in one folder; then without the judge's manifests."""
    names = ["", "shards/2-of-16", "shards/10-of-16", "query"]
    shutil.copytree(folder, tmp_path / "copy")
    for name in names[1:]:
        shutil.copytree(tmp_path / "copy", folder / name)
    (folder / "shards" / "0-of-16").mkdir()  # without a snapshot
    states = [folder / name for name in names]
    assert [json.loads(line)["folder"] for line in run(capsys, "inspect", folder, "--json")[1].splitlines()] == [
        str(state) for state in states
    ]
    assert run(capsys, "inspect", folder)[1].count("next ordinal") == len(states)
    assert len(run(capsys, "verify", folder)[1].splitlines()) == len(states)
    for state in states[1::2]:
        flip(state / NEWEST, 100)
    for name in (NEWEST, PREVIOUS):
        (folder / name).unlink()
    code, out, err = run(capsys, "verify", folder)
    assert (code, len(err.splitlines())) == (1, 4)
    assert f"{folder} has no snapshot" in err
    assert "3 of 4 states" in err
    assert f"{states[2]} is whole" in out
    for state in states[1::2]:
        assert f"damaged  {state / NEWEST} is damaged" in out
        assert f"`mv {state / PREVIOUS} {state / NEWEST}`" in err


class OvertakingFiles(FileSystem):
    """Lets a judge take two snapshots just before each seventh file is opened: all files that were there go."""

    def __init__(self, folder: Path, loaded: LoadedSnapshot, times: int) -> None:
        self._folder, self._loaded, self._left = folder, loaded, times
        self._count = 0

    def open(self, path: Path) -> int:
        self._count += 1
        if self._left and self._count % 7 == 0:
            self._left -= 1
            self._overtake()
        return super().open(path)

    def _overtake(self) -> None:
        before = {each.name for each in self._folder.glob("*.sealed")}
        with StateFolder(self._folder) as judge:  # knows nothing of what is there, so it writes all anew
            for _ in range(2):
                prepared = judge.prepare(self._loaded.parts, dict(self._loaded.facts))
                prepared.write()
                prepared.commit()
        assert not before & {each.name for each in self._folder.glob("*.sealed")}


@pytest.mark.parametrize("times", [1, 3])
def test_a_judge_that_replaces_snapshots_meanwhile_disturbs_nobody(folder: Path, times: int) -> None:
    with StateFolder(folder) as opened:
        loaded = opened.load()
    assert loaded is not None
    assert verify(folder, files=OvertakingFiles(folder, loaded, times)).wrong == []
    assert len(looking.inspect(folder, OvertakingFiles(folder, loaded, times)).snapshots) == 2


@pytest.mark.parametrize("command", ["inspect", "verify"])
def test_a_folder_without_a_snapshot_is_wrong_usage(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    assert run(capsys, command, tmp_path / "gone")[0] == 2
    code, _, err = run(capsys, command, tmp_path)
    assert code == 2
    assert "has no snapshot" in err
    with pytest.raises(InputMissing):
        verify(tmp_path)
