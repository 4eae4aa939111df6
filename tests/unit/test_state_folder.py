"""The state's folder: what a snapshot writes, what it keeps, and who may use it."""

from __future__ import annotations

import errno
import fcntl
import os
import socket
import subprocess
import sys
from concurrent.futures import thread
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from simstream.errors import StateDamaged, StateError, StateFormat, StateLocked, StateUnwritable, UsageError
from simstream.files import blocks, checksum, header, manifest
from simstream.files.blocks import BLOCK_BYTES
from simstream.files.file_system import FileSystem
from simstream.files.folder import StateFolder
from simstream.files.snapshot_part import SnapshotPart
from tests.faulty_files import FailingFiles
from tests.forked_process import forked, lingering
from tests.short import examples
from tests.states import facts, found, immutable, number_of, same, state, take

MEGABYTE = 1 << 20
HOLD = """
import sys
from simstream.files.folder import StateFolder
folder = StateFolder(sys.argv[1])
print(1, flush=True)
input()
"""


def changing(name: str, **arrays: Any) -> SnapshotPart:
    return SnapshotPart(name, "rows", {}, arrays, changes=True)


def save(folder: StateFolder, *parts: SnapshotPart) -> int:
    """Take a snapshot; how many bytes of changing parts went to the disk."""
    prepared = folder.prepare(parts, {})
    prepared.write()
    prepared.commit()
    return prepared.changed_bytes


def size(path: Path) -> int:
    return sum(each.stat().st_size for each in path.iterdir())


def test_a_new_folder_is_made_and_has_nothing(tmp_path: Path) -> None:
    with StateFolder(tmp_path / "a" / "b") as folder:
        assert folder.load() is None
        assert folder.snapshots == ()


def test_the_last_two_snapshots_come_back(tmp_path: Path) -> None:
    with StateFolder(tmp_path) as folder:
        for number in range(1, 6):
            take(folder, number)
    assert found(tmp_path) == [5, 4]


def test_each_snapshot_of_the_folder_can_be_loaded(tmp_path: Path) -> None:
    with StateFolder(tmp_path) as folder:
        take(folder, 1)
        take(folder, 2)
    with StateFolder(tmp_path) as folder:
        assert [number_of(folder.load_one(each)) for each in folder.snapshots] == [2, 1]


def test_a_snapshot_can_be_loaded_once_the_main_thread_has_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with StateFolder(tmp_path) as folder:
        take(folder, 1)
        monkeypatch.setattr(thread, "_shutdown", True)
        assert number_of(folder.load()) == 1


def test_a_snapshot_after_the_older_one_was_loaded_replaces_the_newer_one(tmp_path: Path) -> None:
    with StateFolder(tmp_path) as folder:
        take(folder, 1)
        take(folder, 2)
    with StateFolder(tmp_path) as folder:
        folder.load_one(folder.snapshots[1])
        take(folder, 3)
        assert [each.manifest.facts["ordinal"] for each in folder.snapshots] == [3, 1]
        take(folder, 4)
    assert found(tmp_path) == [4, 3]


def test_an_immutable_part_of_a_name_that_another_judge_used_meanwhile_is_written(tmp_path: Path) -> None:
    with StateFolder(tmp_path) as folder:
        save(folder, immutable("segment-1", 1))
        save(folder, immutable("segment-2", 2))
    with StateFolder(tmp_path) as folder:
        folder.load_one(folder.snapshots[1])
        save(folder, immutable("segment-2", 22))
        loaded = folder.load()
        assert loaded is not None
        assert same(loaded.parts, [immutable("segment-2", 22)])


def test_an_immutable_part_is_written_once(tmp_path: Path) -> None:
    with StateFolder(tmp_path) as folder:
        first = folder.prepare([immutable("segment-1", 1)], {})
        first.write()
        first.commit()
        assert [each.name for each in first.sealed] == ["segment-1"]
        assert np.array_equal(
            np.fromfile(first.sealed[0].path, "<u8", 11, offset=64), immutable("", 1).arrays["keys"]
        )
        second = folder.prepare([immutable("segment-1", 1), immutable("segment-2", 2)], {})
        second.write()
        second.commit()
        assert [each.name for each in second.sealed] == ["segment-2"]
    with StateFolder(tmp_path) as folder:
        folder.load()
        third = folder.prepare([immutable("segment-1", 1)], {})
        third.write()
        assert third.sealed == ()


def test_what_changes_is_written_by_blocks(tmp_path: Path) -> None:
    array = np.zeros(10 * BLOCK_BYTES // 8, np.uint64)
    with StateFolder(tmp_path) as folder:
        assert save(folder, changing("rows", a=array)) == 10 * BLOCK_BYTES
        assert save(folder, changing("rows", a=array)) == 0
        array[5] = 1
        assert save(folder, changing("rows", a=array)) == BLOCK_BYTES
        longer = np.append(array, np.uint64(7))
        assert save(folder, changing("rows", a=longer)) == 8
        shorter = longer[: 3 * BLOCK_BYTES // 8 + 1]
        assert save(folder, changing("rows", a=shorter)) == 8 + 2 * BLOCK_BYTES  # two of ten are left: they move
    with StateFolder(tmp_path) as folder:
        loaded = folder.load()
        assert loaded is not None
        assert same(loaded.parts, [changing("rows", a=shorter)])
        loaded.parts[0].arrays["a"][5] += 1
        assert save(folder, *loaded.parts) == BLOCK_BYTES


def test_a_prepared_snapshot_is_of_the_moment_when_it_was_prepared(tmp_path: Path) -> None:
    array = np.arange(1000)
    with StateFolder(tmp_path) as folder:
        prepared = folder.prepare([changing("rows", a=array)], {})
        array[:] = -1
        prepared.write()
        prepared.commit()
        loaded = folder.load()
        assert loaded is not None
        assert same(loaded.parts, [changing("rows", a=np.arange(1000))])


def test_a_snapshot_that_another_one_has_overtaken_is_void(tmp_path: Path) -> None:
    with StateFolder(tmp_path) as folder:
        first = folder.prepare(state(1), facts(1))
        first.write()
        second = folder.prepare(state(2), facts(2))
        with pytest.raises(ValueError, match="prepared since"):
            first.commit()
        with pytest.raises(ValueError, match="call write before"):
            second.commit()
        second.write()
        second.commit()
        with pytest.raises(ValueError, match="committed"):
            second.commit()
    assert found(tmp_path) == [2]


@pytest.mark.parametrize("names", [("a", "a"), ("../a",), ("",), ("a/b",), ("blocks-1",), ("a" * 61,)])
def test_parts_need_names_that_files_can_have(tmp_path: Path, names: tuple[str, ...]) -> None:
    with StateFolder(tmp_path) as folder, pytest.raises(ValueError, match="names of their own"):
        folder.prepare([immutable(name, 1) for name in names], {})


def test_disk_use_stays_near_twice_the_changes(tmp_path: Path) -> None:
    random = np.random.default_rng(1)
    array = np.zeros(8 * MEGABYTE, np.uint8)
    largest = 0
    with StateFolder(tmp_path) as folder:
        for _ in range(60):
            array[random.integers(0, array.size, 3)] += 1
            save(folder, changing("rows", a=array))
            largest = max(largest, size(tmp_path))
        loaded = folder.load()
        assert loaded is not None
        assert same(loaded.parts, [changing("rows", a=array)])
    assert 8 * MEGABYTE < largest < 2.5 * 8 * MEGABYTE


def test_files_of_parts_that_are_gone_leave_with_the_last_snapshot_that_names_them(tmp_path: Path) -> None:
    with StateFolder(tmp_path) as folder:
        for number in range(1, 6):
            save(folder, immutable(f"segment-{number}", number))
        assert sorted(each.name for each in tmp_path.glob("*.sealed")) == [
            "segment-4.4.sealed",
            "segment-5.5.sealed",
        ]


def test_leftovers_go_and_other_peoples_files_stay(tmp_path: Path) -> None:
    with StateFolder(tmp_path) as folder:
        take(folder, 1)
    for name in ("segment-9.9.sealed", "segment-9.9.sealed.part", "notes.txt"):
        (tmp_path / name).write_bytes(b"x")
    with StateFolder(tmp_path):
        assert not list(tmp_path.glob("segment-9*"))
        assert (tmp_path / "notes.txt").exists()


def test_a_second_process_is_refused_with_the_pid_of_the_first(tmp_path: Path) -> None:
    command = [sys.executable, "-c", HOLD, str(tmp_path)]
    root = Path(__file__).parents[2]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=root) as first:
        assert first.stdout is not None
        assert first.stdout.readline() == "1\n"
        with pytest.raises(StateLocked, match=rf"process {first.pid} already uses the state in {tmp_path}"):
            StateFolder(tmp_path)
        first.communicate("\n", timeout=60)
    StateFolder(tmp_path).close()


@pytest.mark.parametrize(
    ("holder", "said"),
    [
        ("{host}:{pid}", "process {pid} already uses the state in {path}: close this program's other Deduper"),
        ("other:{pid}", "process {pid} on other already uses the state in {path}: stop it first"),
        ("{pid}", "process {pid} already uses the state in {path}: stop it first"),
    ],
    ids=["this process", "the same pid in another container", "an earlier version"],
)
def test_a_folder_that_is_in_use_says_by_whom(tmp_path: Path, holder: str, said: str) -> None:
    given = {"host": socket.gethostname(), "pid": os.getpid(), "path": tmp_path}
    with (tmp_path / "lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.write(holder.format(**given))
        file.flush()
        with pytest.raises(StateLocked) as caught:
            StateFolder(tmp_path)
    assert said.format(**given) in str(caught.value)
    with StateFolder(tmp_path), pytest.raises(StateLocked, match="close this program's other Deduper"):
        StateFolder(tmp_path)


@pytest.mark.parametrize(
    ("number", "said"),
    [
        (errno.EACCES, "check its owner and permissions"),
        (errno.ENOLCK, "use a local disk: this file system gives no locks"),
        (errno.EIO, "check the disk"),
    ],
)
def test_a_lock_that_cannot_be_had_is_named_with_what_to_do(tmp_path: Path, number: int, said: str) -> None:
    class UnlockableFiles(FileSystem):
        def lock(self, path: Path) -> int:
            raise OSError(number, os.strerror(number))

    with pytest.raises(StateUnwritable, match=f"cannot write {tmp_path}/lock ") as caught:
        StateFolder(tmp_path, UnlockableFiles())
    assert caught.value.todo.startswith(said)


def test_a_folder_that_its_process_has_closed_is_free_although_a_forked_process_lives(tmp_path: Path) -> None:
    folder = StateFolder(tmp_path)
    with lingering():
        assert forked(folder.close) == 0
        with pytest.raises(StateLocked):
            StateFolder(tmp_path)
        folder.close()
        StateFolder(tmp_path).close()


def test_a_folder_that_cannot_be_opened_is_given_back(tmp_path: Path) -> None:
    (tmp_path / "manifest").write_bytes(b"x")
    for _ in range(2):
        with pytest.raises(StateDamaged):
            StateFolder(tmp_path)


def test_a_sign_of_life_comes_with_each_array_and_every_few_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "BLOCK_BYTES", 64)
    monkeypatch.setattr(blocks, "BEAT_BLOCKS", 4)
    beats: list[int] = []
    parts = [changing(str(i), small=np.zeros(3), large=np.arange(100)) for i in range(2)]
    cut = blocks.cut(parts, 1, {}, {}, lambda: beats.append(1))
    compared = 2 * (1 + 4)  # 24 bytes are a block, 800 are thirteen
    assert len(beats) == compared + 7, "28 blocks are copied"
    beats.clear()
    blocks.cut(parts, 2, cut.tables, {1: cut.content.nbytes}, lambda: beats.append(1))
    assert len(beats) == compared


def test_nothing_is_removed_where_a_manifest_cannot_be_read(tmp_path: Path) -> None:
    with StateFolder(tmp_path) as folder:
        take(folder, 1)
        take(folder, 2)
    before = {each.name for each in tmp_path.iterdir()}
    with (tmp_path / "manifest.previous").open("r+b") as file:
        file.truncate(100)
    with pytest.raises(StateDamaged, match=r"manifest\.previous"):
        StateFolder(tmp_path)
    assert {each.name for each in tmp_path.iterdir()} == before


def flipped(path: Path) -> Any:
    """The file with each of its bytes changed in turn; then as it was."""
    good = path.read_bytes()
    for at in range(len(good)):
        path.write_bytes(good[:at] + bytes([good[at] ^ (1 << at % 8)]) + good[at + 1 :])
        yield at
    path.write_bytes(good)


def test_every_byte_of_every_file_is_noticed_or_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blocks, "BLOCK_BYTES", 256)
    with StateFolder(tmp_path) as folder:
        for number in range(1, 5):
            take(folder, number)
    names = {each.part: each.file for each in folder.snapshots[0].manifest.files()}
    harmless = dict.fromkeys(["manifest", "manifest.previous", names["segment-4"], names["blocks-4"]], 0)
    for name in harmless:
        for _ in flipped(tmp_path / name):
            try:
                numbers = found(tmp_path)
            except StateDamaged as error:
                about = str(error)
                assert str(tmp_path / name) in about
            else:
                assert numbers == [4, 3]
                harmless[name] += 1
    assert found(tmp_path) == [4, 3]
    assert list(harmless.values())[:3] == [0, 0, 0]
    assert harmless[names["blocks-4"]] < 64, "only the padding: `state verify` looks at that, too"


def test_a_missing_or_exchanged_file_is_named(tmp_path: Path) -> None:
    with StateFolder(tmp_path) as folder:
        take(folder, 1)
        take(folder, 2)
    for path in sorted(tmp_path.glob("*.sealed")):
        good = path.read_bytes()
        path.unlink()
        with pytest.raises(StateDamaged, match=rf"{path} is damaged \(it is missing\)"):
            found(tmp_path)
        other = next(each for each in tmp_path.glob("*.sealed") if each != path)
        path.write_bytes(other.read_bytes())
        with pytest.raises(StateDamaged, match="not the file that the manifest names"):
            found(tmp_path)
        path.write_bytes(good)


@pytest.mark.parametrize("version", [0, header.FORMAT + 1])
def test_a_manifest_of_another_format_is_refused_by_name(tmp_path: Path, version: int) -> None:
    with StateFolder(tmp_path) as folder:
        take(folder, 1)
    path = tmp_path / "manifest"
    data = (
        header.encode(header.MANIFEST, version, "9.8.7")
        + path.read_bytes()[header.SIZE_BYTES : -checksum.SIZE_BYTES]
    )
    path.write_bytes(data + checksum.of_bytes(data))
    with pytest.raises(StateFormat, match=rf"simstream 9\.8\.7 in format {version}"):
        StateFolder(tmp_path)


def test_a_kind_that_is_trusted_is_not_read_at_the_start(tmp_path: Path) -> None:
    with StateFolder(tmp_path) as folder:
        save(folder, immutable("segment-1", 1))
    path = tmp_path / "segment-1.1.sealed"
    data = bytearray(path.read_bytes())
    data[70] ^= 1
    path.write_bytes(data)
    with StateFolder(tmp_path) as folder:
        assert folder.load(trusted={"segment"}) is not None
        with pytest.raises(StateDamaged):
            folder.load()


def test_a_reader_finds_two_whole_snapshots_whenever_it_looks(tmp_path: Path) -> None:
    """At every step of a commit somebody else looks, without the lock."""
    seen = []

    class WatchedFiles(FailingFiles):
        def _step(self, name: str) -> None:
            super()._step(name)
            if name.startswith(("rename", "sync_folder", "unlink")):
                seen.append([each.manifest.facts["ordinal"] for each in manifest.read_all(FileSystem(), tmp_path)])

    with StateFolder(tmp_path, WatchedFiles()) as folder:
        for number in range(1, 5):
            take(folder, number)
    assert {tuple(each) for each in seen} == {(), (1,), (2, 1), (3, 2), (4, 3)}


class SnapshotFolders(RuleBasedStateMachine):
    """Snapshots of changing arrays, given up, repeated, reopened, against plain copies."""

    @initialize(folder=st.builds(lambda: None))
    def start(self, folder: None) -> None:
        import tempfile

        self.place = tempfile.TemporaryDirectory()
        self.patch = pytest.MonkeyPatch()
        self.patch.setattr(blocks, "BLOCK_BYTES", 64)
        self.folder = StateFolder(Path(self.place.name))
        self.arrays = {"a": np.zeros(100, np.uint8), "b": np.zeros((5, 3), np.uint32)}
        self.segments: list[int] = []
        self.next = 0
        self.saved: list[list[SnapshotPart]] = []

    def parts(self) -> list[SnapshotPart]:
        copies = {name: array.copy() for name, array in self.arrays.items()}
        return [immutable(f"segment-{n}", n) for n in self.segments] + [changing("rows", **copies)]

    @rule(at=st.integers(0, 10_000), name=st.sampled_from("ab"))
    def change(self, at: int, name: str) -> None:
        flat = self.arrays[name].reshape(-1)
        if flat.size:
            flat[at % flat.size] += 1

    @rule(rows=st.integers(0, 40), name=st.sampled_from("ab"))
    def resize(self, rows: int, name: str) -> None:
        array = self.arrays[name]
        self.arrays[name] = (
            np.resize(array, (rows, *array.shape[1:]))
            if array.size
            else np.zeros((rows, *array.shape[1:]), array.dtype)
        )

    @rule()
    def seal(self) -> None:
        self.next += 1
        self.segments.append(self.next)

    @precondition(lambda self: self.segments)
    @rule(at=st.integers(0, 100))
    def drop(self, at: int) -> None:
        self.segments.pop(at % len(self.segments))

    @rule(how=st.sampled_from(["commit", "commit", "commit", "prepare", "write"]))
    def snapshot(self, how: str) -> None:
        prepared = self.folder.prepare(self.parts(), {})
        if how != "prepare":
            prepared.write()
        if how == "commit":
            prepared.commit()
            self.saved = [self.parts(), *self.saved[:1]]

    @rule(previous=st.booleans())
    def reopen(self, previous: bool) -> None:
        self.folder.close()
        self.folder = StateFolder(Path(self.place.name))
        assert len(self.folder.snapshots) == len(self.saved)
        if not self.saved:
            return
        which = int(previous and len(self.saved) > 1)
        loaded = self.folder.load_one(self.folder.snapshots[which]) if which else self.folder.load()
        assert loaded is not None
        assert same(loaded.parts, self.saved[which])
        self.saved = self.saved[which:]
        self.arrays = {name: array.copy() for name, array in self.saved[0][-1].arrays.items()}
        self.segments = [int(part.name[8:]) for part in self.saved[0][:-1]]
        if which:  # the newer one is still there until the next commit
            prepared = self.folder.prepare(self.parts(), {})
            prepared.write()
            prepared.commit()
            self.saved = [self.parts(), self.saved[0]]

    @invariant()
    def nothing_is_left_over(self) -> None:
        if hasattr(self, "folder"):
            assert len(list(Path(self.place.name).glob("*.part"))) == 0

    def teardown(self) -> None:
        if hasattr(self, "folder"):
            self.folder.close()
            self.patch.undo()
            self.place.cleanup()


TestFolders = SnapshotFolders.TestCase
TestFolders.settings = settings(max_examples=examples(60), stateful_step_count=30, deadline=None)


def test_a_folder_that_holds_other_files_is_refused_and_no_file_is_touched(tmp_path: Path) -> None:
    names = ["letters.sealed", "report.2024.sealed", "thesis.tar.gz.part"]
    for name in names:
        (tmp_path / name).write_text("precious")
    with pytest.raises(UsageError, match=r"holds other files \(letters.sealed, report.2024.sealed, thesis"):
        StateFolder(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == names


def test_a_file_of_somebody_else_stays_beside_a_state(tmp_path: Path) -> None:
    with StateFolder(tmp_path) as folder:
        take(folder, 1)
    names = ["letters.sealed", "notes.txt", "thesis.tar.gz.part", "x.sealed.part"]
    for name in names:
        (tmp_path / name).write_text("precious")
    left = tmp_path / "segment-9.7.sealed.part"
    left.touch()
    with StateFolder(tmp_path) as folder:
        take(folder, 2)
    assert all((tmp_path / name).read_text() == "precious" for name in names)
    assert not left.exists()


def test_a_new_disk_counts_as_an_empty_folder(tmp_path: Path) -> None:
    (tmp_path / "lost+found").mkdir()
    (tmp_path / ".snapshot").mkdir()
    (tmp_path / "suspect").touch()  # what a service leaves whose state was removed while it ran
    (tmp_path / "damaged").mkdir()
    (tmp_path / "shards-16").mkdir()  # of a judge with matchers, as the chart calls it
    with StateFolder(tmp_path) as folder:
        take(folder, 1)
    assert found(tmp_path) == [1]


def test_a_pipe_in_place_of_a_file_is_damage_and_waits_for_no_writer(tmp_path: Path) -> None:
    with StateFolder(tmp_path) as folder:
        take(folder, 1)
    (tmp_path / manifest.NEWEST).unlink()
    os.mkfifo(tmp_path / manifest.NEWEST)
    with pytest.raises(StateError, match=manifest.NEWEST):
        manifest.read(FileSystem(), tmp_path / manifest.NEWEST)


def test_other_users_cannot_read_a_state(tmp_path: Path) -> None:
    with StateFolder(tmp_path) as folder:
        take(folder, 1)
    assert {path.stat().st_mode & 0o777 for path in tmp_path.iterdir()} == {0o600}


def test_setting_aside_replaces_what_was_set_aside_and_leaves_all_other_files(tmp_path: Path) -> None:
    aside = tmp_path / "damaged"
    with StateFolder(tmp_path) as folder:
        save(folder, changing("a", rows=np.zeros(9)))
        folder.set_aside(folder.snapshots)
        earlier = {each.name for each in aside.iterdir()}
        (aside / "notes.txt").write_text("keep these")
        (aside / "copies").mkdir()
        (aside / "copies" / "manifest").write_text("a copy")
        assert folder.aside() == len(earlier)
        save(folder, changing("b", rows=np.ones(9)))
        folder.set_aside(folder.snapshots)
        assert folder.snapshots == ()
    names = {each.name for each in aside.iterdir()}
    assert names > {"notes.txt", "copies", "manifest"}
    assert names.isdisjoint(earlier - {"manifest"})
    assert (aside / "notes.txt").read_text() == "keep these"
    assert (aside / "copies" / "manifest").read_text() == "a copy"
