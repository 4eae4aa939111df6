"""A state's folder whose file system fails at each step in turn: one whole snapshot, never a mix of two."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from simstream.errors import StateDamaged, StateError, StateFull, StateUnwritable
from simstream.files import blocks
from simstream.files.file_system import FileSystem
from simstream.files.folder import StateFolder
from tests.faulty_files import DeadProcess, FailingFiles, LosingFiles
from tests.states import facts, found, state, take

OLD, NEW = 5, 6
"""The snapshot before the disturbed one, and that: one segment comes, one goes, blocks change and move."""


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "BLOCK_BYTES", 256)


@pytest.fixture(scope="module")
def before(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the snapshots 4 and 5."""
    path = tmp_path_factory.mktemp("before") / "state"
    with pytest.MonkeyPatch.context() as patch, StateFolder(path) as folder:
        patch.setattr(blocks, "BLOCK_BYTES", 256)
        for number in range(1, OLD + 1):
            take(folder, number)
    return path


def copy(before: Path, tmp_path: Path, name: object) -> Path:
    return Path(shutil.copytree(before, tmp_path / str(name)))


def run(path: Path, files: FileSystem) -> None:
    """What a judge does from its start to its next snapshot."""
    with StateFolder(path, files) as folder:
        folder.load()
        take(folder, NEW)


def all_steps(before: Path, tmp_path: Path) -> list[str]:
    files = FailingFiles()
    run(copy(before, tmp_path, "clean"), files)
    return files.steps


def is_whole(path: Path) -> None:
    """The folder has 5 and 4, or 6 and 5; the next snapshot succeeds, and no file is left that none names."""
    assert found(path) in ([OLD, OLD - 1], [NEW, OLD])
    with StateFolder(path) as folder:
        folder.load()
        take(folder, NEW + 1)
        named = {each.file for snapshot in folder.snapshots for each in snapshot.manifest.files()}
    assert {each.name for each in path.iterdir()} == named | {"lock", "manifest", "manifest.previous"}
    assert found(path)[0] == NEW + 1


def test_a_clean_run_has_every_kind_of_step_and_moves_blocks(before: Path, tmp_path: Path) -> None:
    with StateFolder(copy(before, tmp_path, "moving")) as folder:
        folder.load()
        arrays = state(NEW)[-1].arrays
        assert folder.prepare(state(NEW), {}).changed_bytes == arrays["often"].nbytes + arrays["seldom"].nbytes
    kinds = {step.split()[0] for step in all_steps(before, tmp_path)}
    assert kinds == {
        "make_folder", "lock", "listdir", "open", "pread", "map", "create", "write", "fsync", "close", "rename",
        "sync_folder", "unlink",
    }  # fmt: skip


@pytest.mark.parametrize("torn", [0, 5])
def test_a_process_that_dies_at_any_step_leaves_two_whole_snapshots(
    before: Path, tmp_path: Path, torn: int
) -> None:
    for at in range(1, len(all_steps(before, tmp_path)) + 1):
        path = copy(before, tmp_path, at)
        files = FailingFiles(at, DeadProcess, torn)
        with pytest.raises(DeadProcess):
            run(path, files)
        files.die()
        is_whole(path)
        shutil.rmtree(path)


@pytest.mark.parametrize("suffix", [pytest.param("", marks=pytest.mark.long), ".sealed"])
def test_power_that_goes_at_any_step_leaves_two_whole_snapshots(before: Path, tmp_path: Path, suffix: str) -> None:
    spare = tmp_path / "spare"
    cases = 0
    for at in range(1, len(all_steps(before, tmp_path)) + 1):
        kept = changes = 0
        while kept <= changes:
            shutil.rmtree(spare, ignore_errors=True)
            spare.mkdir()
            path = copy(before, tmp_path, at)
            files = LosingFiles(at, spare)
            with pytest.raises(DeadProcess):
                run(path, files)
            changes = len(files.lost)
            files.lose(path, kept, suffix)
            files.die()
            is_whole(path)
            shutil.rmtree(path)
            cases += 1
            kept += 1
    assert cases > 100


def test_what_is_committed_survives_power_that_goes_next(before: Path, tmp_path: Path) -> None:
    (tmp_path / "spare").mkdir()
    path = copy(before, tmp_path, "state")
    files = LosingFiles(0, tmp_path / "spare")
    run(path, files)
    files.lose(path, 0)
    assert found(path)[0] == NEW


def failing(number: int) -> Callable[[str], OSError]:
    return lambda step: OSError(number, os.strerror(number), step)


@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC])
def test_an_error_at_any_step_has_a_name_and_trying_again_succeeds(
    before: Path, tmp_path: Path, number: int
) -> None:
    steps = all_steps(before, tmp_path)
    for at, step in enumerate(steps, 1):
        path = copy(before, tmp_path, at)
        files = FailingFiles(at, failing(number), torn=3)
        errors = [error for error in tries(path, files) if error is not None]
        assert files.failed
        assert len(errors) <= 1
        for error in errors:
            assert isinstance(error, StateUnwritable | StateDamaged), step
            writes = step.split()[0] in ("create", "write", "fsync", "rename", "sync_folder")
            assert not writes or isinstance(error, StateFull) == (number == errno.ENOSPC), step
        assert found(path) == [NEW, OLD], step
        shutil.rmtree(path)


def tries(path: Path, files: FailingFiles) -> Iterator[StateError | None]:
    """Do what `run` does, each step twice where the first try fails; gives each error."""
    while True:
        try:
            folder = StateFolder(path, files)
            break
        except StateError as error:
            files.die()
            yield error
    with contextlib.ExitStack() as stack:
        stack.callback(files.die)
        prepared = None
        for call in ("load", "write", "commit"):
            for _ in range(2):
                try:
                    if call == "load":
                        folder.load()
                        prepared = folder.prepare(state(NEW), facts(NEW))
                    else:
                        getattr(prepared, call)()
                    break
                except StateError as error:
                    assert found_by_others(path) in ([OLD, OLD - 1], [NEW, OLD])
                    yield error
        folder.close()


def found_by_others(path: Path) -> list[int]:
    """What another process would find in a copy of the folder."""
    other = path.with_name("other")
    shutil.copytree(path, other)
    try:
        return found(other)
    finally:
        shutil.rmtree(other)


@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC])
def test_a_snapshot_given_up_at_any_step_does_not_disturb_the_next_one(
    before: Path, tmp_path: Path, number: int
) -> None:
    clean = FailingFiles()
    path = copy(before, tmp_path, "clean")
    with StateFolder(path, clean) as folder:
        folder.load()
        start = len(clean.steps)
        take(folder, NEW)
        end = len(clean.steps)
    for at in range(start + 1, end + 1):
        path = copy(before, tmp_path, at)
        files = FailingFiles(at, failing(number))
        with StateFolder(path, files) as folder:
            folder.load()
            with contextlib.suppress(StateError):
                take(folder, NEW)
            assert files.failed
            take(folder, NEW + 1)
            take(folder, NEW + 2)
        assert found(path) == [NEW + 2, NEW + 1]
        is_clean = {each.name for each in path.iterdir() if each.name.endswith((".part", ".next", ".oldest"))}
        assert not is_clean
        shutil.rmtree(path)
