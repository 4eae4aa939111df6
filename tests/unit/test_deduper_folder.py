"""A folder that a Deduper cannot use: each error says what its reader can do, who has no log."""

from __future__ import annotations

import gc
import itertools
import os
import shutil
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from simstream import Deduper, StateDamaged, StateFormat, StateLocked, UsageError, WrongLog
from simstream.deduper import state
from simstream.errors import StateUnwritable
from simstream.files import file_system, header
from simstream.files.folder import StateFolder
from simstream.files.manifest import IN_ORDER, PREVIOUS
from simstream.files.snapshot_part import SnapshotPart
from simstream.files.snapshot_writing import PreparedSnapshot
from simstream.judge.resolver import Resolver
from simstream.judge.state_facts import restore_acceptor
from simstream.model import Record
from simstream.text.fingerprinter import Fingerprinter
from tests.forked_process import forked
from tests.states import save_again

STORY = "The night train stops at the mill village again after forty years, and the baker opens before dawn for it."


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, cache: Path) -> Path:
    """A folder that a Deduper has closed."""
    path = tmp_path_factory.mktemp("made") / "state"
    with Deduper(path=path, cache=cache, workers=0) as deduper:
        deduper.judge([f"{STORY} {number}" for number in range(40)])
    return path


@pytest.fixture
def folder(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "state"))


def of_part(name: str, **facts: Any) -> Callable[[Path], object]:
    """Change some facts of the part of this name."""

    def change(parts: list[SnapshotPart], _: dict[str, Any]) -> None:
        [at] = [at for at, part in enumerate(parts) if part.name == name]
        parts[at] = parts[at]._replace(facts=dict(parts[at].facts) | facts)

    return lambda path: save_again(path, change)


def without(name: str) -> Callable[[Path], object]:
    """Leave a part out."""
    return lambda path: save_again(
        path, lambda parts, _: parts.remove(next(part for part in parts if part.name == name))
    )


def cut_manifests(path: Path) -> None:
    for manifest in (path / name for name in IN_ORDER if (path / name).exists()):
        manifest.write_bytes(manifest.read_bytes()[:100])


DAMAGES: dict[str, Callable[[Path], object]] = {
    "cut manifests": cut_manifests,
    "facts of another type": lambda path: save_again(path, lambda _, facts: facts.update(ordinal="many")),
    "no memtable": without("memtable"),
    "no table of nodes": without("nodes"),
    "a memtable without its next number": of_part("memtable", next="none"),
    "more segments than there are": of_part("memtable", segments=3),
    "a table with impossible free records": of_part("rows", free_count=-1),
    "a directory of another size": of_part("directory", count=7),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_damage_is_answered_with_a_copy_or_a_new_beginning(folder: Path, cache: Path, damage: str) -> None:
    DAMAGES[damage](folder)
    with pytest.raises(StateDamaged) as raised:
        Deduper(path=folder, cache=cache, workers=0)
    assert raised.value.todo.endswith("and a Deduper begins empty")
    shutil.rmtree(folder)
    with Deduper(path=folder, cache=cache, workers=0) as deduper:
        assert deduper.judged == 0


def test_another_format_is_answered_with_the_version_that_reads_it(
    folder: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as later:
        later.setattr(header.encode, "__defaults__", (header.FORMAT + 1, "9.9.9"))
        save_again(folder, lambda parts, facts: None)
        (folder / PREVIOUS).unlink()
    with pytest.raises(StateFormat, match=r"start simstream 9\.9\.9.*a Deduper begins empty"):
        Deduper(path=folder, cache=cache, workers=0)


def test_the_folder_of_a_service_is_refused_as_such(folder: Path, cache: Path) -> None:
    save_again(folder, lambda _, facts: facts.update(log_id="simstream.fingerprints:k3x9"))
    with pytest.raises(WrongLog) as raised:
        Deduper(path=folder, cache=cache, workers=0)
    assert raised.value.what == "the folder holds the state of a service over the log simstream.fingerprints:k3x9"
    assert raised.value.todo == "give the Deduper a folder of its own"


def test_a_service_that_is_given_the_folder_of_a_deduper_hears_so(folder: Path) -> None:
    with StateFolder(folder) as opened:
        loaded = opened.load()
    assert loaded is not None
    with pytest.raises(WrongLog, match="the folder holds the state of a Deduper, which has no log: choose another"):
        restore_acceptor(loaded.facts, "simstream.fingerprints:k3x9")


def test_a_second_deduper_of_one_program_is_told_to_close_the_first(folder: Path, cache: Path) -> None:
    said = "close this program's other Deduper first, or use another folder"
    with Deduper(path=folder, cache=cache, workers=0), pytest.raises(StateLocked, match=said):
        Deduper(path=folder, cache=cache, workers=0)


def test_a_deduper_that_is_dropped_unlocks_its_folder(tmp_path: Path, cache: Path) -> None:
    """Only the end of the process did."""
    deduper = Deduper(path=tmp_path / "state", cache=cache, workers=0)
    deduper.judge([STORY])
    deduper.save()
    deduper.judge([STORY])
    del deduper
    gc.collect()
    with Deduper(path=tmp_path / "state", cache=cache, workers=0) as deduper:
        assert deduper.judged == 1


def test_a_deduper_that_its_caller_ends_as_it_begins_unlocks_its_folder(folder: Path, cache: Path) -> None:
    def end(said: str) -> None:
        if "goes on after" in said:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Deduper(path=folder, cache=cache, workers=0, say=end)
    with Deduper(path=folder, cache=cache, workers=0) as deduper:
        assert deduper.judged == 40


def test_an_interrupt_behind_the_lock_unlocks_the_folder(
    folder: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted() -> str:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(file_system, "process_name", interrupted)
        with pytest.raises(KeyboardInterrupt):
            Deduper(path=folder, cache=cache, workers=0)
    with Deduper(path=folder, cache=cache, workers=0) as deduper:
        assert deduper.judged == 40


def test_a_deduper_keeps_its_folder_when_the_program_changes_its_directory(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It wrote to a folder of the same name, which another Deduper used."""
    for name in ("own", "other"):
        (tmp_path / name).mkdir()
        monkeypatch.chdir(tmp_path / name)
        with Deduper(path="state", cache=cache, workers=0) as deduper:
            deduper.judge([f"{STORY} {name}"])
    monkeypatch.chdir(tmp_path / "own")
    with Deduper(path="state", cache=cache, workers=0) as deduper:
        deduper.judge([STORY])
        monkeypatch.chdir(tmp_path / "other")
        before = {file: file.read_bytes() for file in Path("state").iterdir()}
    assert [file for file in Path("state").iterdir() if file.read_bytes() != before.get(file)] == []
    with Deduper(path=tmp_path / "own/state", cache=cache, workers=0) as deduper:
        assert deduper.judged == 2


@pytest.mark.parametrize("argument", ["path", "scratch"])
def test_a_relative_folder_in_a_removed_directory_is_refused(
    argument: Any, tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    with pytest.raises(UsageError, match="the working directory was removed"):
        Deduper(**{argument: "state"}, cache=cache, workers=0)


def test_a_forked_process_never_writes_the_folder_of_its_parent(tmp_path: Path, cache: Path) -> None:
    with Deduper(path=tmp_path / "state", cache=cache, workers=0) as deduper:
        deduper.judge([f"{STORY} {number}" for number in range(20)])
        assert forked(deduper.close) == 0
        assert forked(deduper.save) == 3
        assert forked(lambda: deduper.judge(["another text"])) == 3
        assert forked(lambda: deduper.match(STORY)) == 0
        deduper.judge([f"{STORY} {number}" for number in range(20, 40)])
    with Deduper(path=tmp_path / "state", cache=cache, workers=0) as again:
        assert again.judged == 40


def test_a_forked_process_may_judge_with_its_own_copy_in_memory(cache: Path) -> None:
    with Deduper(cache=cache, workers=0) as deduper:
        deduper.judge([STORY])
        assert forked(lambda: deduper.judge([STORY])) == forked(deduper.close) == 0
        assert deduper.judged == 1


def test_two_threads_that_judge_at_once_are_told_so_and_the_state_goes_on(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Deduper(cache=cache, workers=0) as deduper:
        with judging(deduper, monkeypatch), pytest.raises(UsageError, match="another thread is judging with this"):
            deduper.judge(["another text"])
        [verdict] = deduper.judge([STORY + "!"])
        assert (verdict.verdict, verdict.near_duplicate_of, deduper.judged) == ("near_duplicate", "python/0/0", 2)


def test_another_thread_cannot_save_while_a_batch_is_judged(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It wrote arrays that the judging thread was changing: the folder could not be opened again."""
    with Deduper(path=tmp_path / "state", cache=cache, workers=0) as deduper:
        with judging(deduper, monkeypatch), pytest.raises(UsageError, match="let one thread at a time use it"):
            deduper.save()
        deduper.save()
        shutil.copytree(tmp_path / "state", tmp_path / "killed")
    with Deduper(path=tmp_path / "killed", cache=cache, workers=0) as deduper:
        assert [match.id for match in deduper.match(STORY)] == ["python/0/0"]


def test_closing_waits_until_another_thread_has_judged_its_batch(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deduper = Deduper(path=tmp_path / "state", cache=cache, workers=0)
    with judging(deduper, monkeypatch):
        closing = threading.Thread(target=deduper.close)
        closing.start()
        while True:
            try:
                deduper.match(STORY)
            except UsageError:  # it is closed
                break
    closing.join()
    with Deduper(path=tmp_path / "state", cache=cache, workers=0) as deduper:
        assert [match.id for match in deduper.match(STORY)] == ["python/0/0"]


def test_a_thread_that_judges_while_another_one_saves_or_closes_is_told_so(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deduper = Deduper(path=tmp_path / "state", cache=cache, workers=0)
    deduper.judge([STORY])
    said: list[str] = []

    def judge_meanwhile(*_: Any) -> None:
        with pytest.raises(UsageError) as raised:
            deduper.judge([STORY])
        said.append(raised.value.what)

    def in_another_thread(*_: Any) -> Any:
        other = threading.Thread(target=judge_meanwhile)
        other.start()
        other.join()
        return prepare(*_)

    prepare = StateFolder.prepare
    monkeypatch.setattr(StateFolder, "prepare", in_another_thread)
    deduper.save()
    deduper.close()
    assert said == ["another thread is saving this Deduper", "this Deduper is closed"]


def test_a_process_that_is_forked_while_a_batch_is_judged_is_told_so(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def judge_in_it() -> None:
        with pytest.raises(UsageError, match="was forked while a batch was judged: make another Deduper in it"):
            deduper.judge(["another text"])
        deduper.close()

    with Deduper(cache=cache, workers=0) as deduper, judging(deduper, monkeypatch):
        assert forked(judge_in_it) == 0


@contextmanager
def judging(deduper: Deduper, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Another thread is in the middle of a batch of one page."""
    inside, over, judge = threading.Event(), threading.Event(), Resolver.judge

    def slow(*arguments: Any) -> Any:
        inside.set()
        over.wait(30)
        return judge(*arguments)

    with monkeypatch.context() as patched:
        patched.setattr(Resolver, "judge", slow)
        other = threading.Thread(target=deduper.judge, args=([STORY],))
        other.start()
        assert inside.wait(30)
        yield
        over.set()
        other.join()


@pytest.mark.parametrize("call", ["judge", "judge_table"])
def test_pages_that_another_thread_judges_while_these_are_read_take_no_numbers_of_them(
    cache: Path, call: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both had the name python/0/0, and the later one took the place of the other."""
    pyarrow = pytest.importorskip("pyarrow")
    with Deduper(cache=cache, workers=0) as deduper:
        columns = Fingerprinter.columns

        def interrupted(self: Fingerprinter, pages: Any) -> Any:
            monkeypatch.setattr(Fingerprinter, "columns", columns)
            other = threading.Thread(target=deduper.judge, args=([STORY],))
            other.start()
            other.join()
            return columns(self, pages)

        monkeypatch.setattr(Fingerprinter, "columns", interrupted)
        given = ["another text"] if call == "judge" else pyarrow.table({"text": ["another text"]})
        with pytest.raises(UsageError, match="another thread is judging with this Deduper"):
            getattr(deduper, call)(given)
        assert deduper.judged == 1
        assert [match.id for match in deduper.match(STORY)] == ["python/0/0"]


def test_a_stream_that_is_left_saves_no_page_whose_verdict_nobody_got(cache: Path, tmp_path: Path) -> None:
    records = [Record("p", 0, n, b"%d" % n, b'{"text":"%s %d"}' % (STORY.encode(), n)) for n in range(10)]
    for taken in (4, 2, 6):
        with Deduper(cache=cache, workers=0, path=tmp_path / "state") as deduper:
            batch = records[deduper.judged :][: max(taken, 4)]
            assert len(list(itertools.islice(deduper.stream(batch), taken))) == taken
    with Deduper(cache=cache, workers=0, path=tmp_path / "state") as deduper:
        assert deduper.judged == 10


@pytest.mark.parametrize(("behind", "saved"), [(0, 0), (1, 6)])
def test_pages_of_a_stream_that_was_left_are_saved_only_with_pages_that_are_judged_behind_it(
    cache: Path, tmp_path: Path, behind: int, saved: int
) -> None:
    """A page that is judged within the stream saves none of the stream's."""
    records = [Record("p", 0, n, b"%d" % n, b'{"text":"%s %d"}' % (STORY.encode(), n)) for n in range(4)]
    with Deduper(cache=cache, workers=0, path=tmp_path / "state") as deduper:
        for _ in deduper.stream(records):
            deduper.judge([{"id": "within", "text": STORY}])
            break
        for _ in range(behind):
            deduper.judge([{"id": "behind", "text": STORY}])
    with Deduper(cache=cache, workers=0, path=tmp_path / "state") as deduper:
        assert deduper.judged == saved


def test_a_half_judged_batch_is_not_saved_beside_a_journal_either(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The journal does not have it: the next run would refuse both."""

    def full(*_: Any) -> None:
        raise MemoryError

    records = [Record("p", 0, n, b"%d" % n, b'{"text":"%s"}' % STORY.encode()) for n in range(2)]
    journal: Any = SimpleNamespace(is_open=True, append=lambda *_: None, sync=lambda: None)
    with Deduper(cache=cache, workers=0, path=tmp_path / "state") as deduper:
        assert len(list(deduper.stream(records[:1], journal=journal))) == 1
        deduper.save()
        with monkeypatch.context() as patched:
            patched.setattr(Resolver, "judge", full)
            with pytest.raises(MemoryError):
                list(deduper.stream(records[1:], journal=journal))
    with Deduper(cache=cache, workers=0, path=tmp_path / "state") as deduper:
        assert deduper.judged == 1


def stop_the_program(*_: Any) -> None:
    raise SystemExit(143)


def closing(deduper: Deduper) -> Callable[..., None]:
    return lambda *_: deduper.close()


ENDS: dict[str, tuple[int, Callable[[Deduper], Any], type[BaseException]]] = {
    "Ctrl-C": (signal.SIGINT, lambda _: signal.default_int_handler, KeyboardInterrupt),
    "a handler that waits for the batch": (signal.SIGTERM, closing, UsageError),
    "a handler that does not wait": (signal.SIGUSR1, closing, UsageError),
    "a handler that ends the program": (signal.SIGUSR1, lambda _: stop_the_program, SystemExit),
}


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("options", [{}, {"window": "2h"}, {"scratch": "here"}])
@pytest.mark.parametrize("saved", [False, True])
def test_a_deduper_that_is_stopped_in_a_batch_saves_just_the_pages_whose_verdicts_it_has_returned(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: str, options: dict[str, str], saved: bool
) -> None:
    """It saved none since the last save, and said nothing."""
    options = {name: str(tmp_path) if name == "scratch" else value for name, value in options.items()}
    pages = [{"id": f"{n % 17}", "text": f"{STORY} {n % 23} {n % 5}", "time": n * 600_000} for n in range(90)]
    with Deduper(cache=cache, workers=0, **options) as whole:
        wanted = whole.judge(pages)
    sent, make_handler, raised = ENDS[end]
    judge = Resolver.judge

    def stopped(*arguments: Any) -> Any:
        monkeypatch.setattr(Resolver, "judge", judge)
        verdicts = judge(*arguments)
        os.kill(os.getpid(), sent)
        return verdicts

    with Deduper(path=tmp_path / "state", cache=cache, workers=0, **options) as deduper:
        before = signal.signal(sent, make_handler(deduper))
        try:
            judged = deduper.judge(pages[:20])
            if saved:
                deduper.save()
            judged += deduper.judge(pages[20:45]) + deduper.judge(pages[45:60])
            monkeypatch.setattr(Resolver, "judge", stopped)
            with pytest.raises(raised):
                deduper.judge(pages[60:70])
        finally:
            signal.signal(sent, before)
    with Deduper(path=tmp_path / "state", cache=cache, workers=0, **options) as deduper:
        assert deduper.judged == 60
        assert judged + deduper.judge(pages[60:]) == wanted


def test_a_save_that_would_save_nothing_says_so(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    judge = Resolver.judge

    def interrupted(*arguments: Any) -> Any:
        os.kill(os.getpid(), signal.SIGINT)
        return judge(*arguments)

    with Deduper(cache=cache, workers=0, path=tmp_path / "state") as deduper:
        deduper.judge([STORY])
        with monkeypatch.context() as patched:
            patched.setattr(Resolver, "judge", interrupted)
            with pytest.raises(KeyboardInterrupt):
                deduper.judge([STORY, STORY])
        with pytest.raises(
            UsageError, match="of 3 pages, only the first 1 have verdicts that were returned: judge"
        ):
            deduper.save()
        deduper.judge([STORY])
        deduper.save()
        shutil.copytree(tmp_path / "state", tmp_path / "killed")
    with Deduper(cache=cache, workers=0, path=tmp_path / "killed") as deduper:
        assert deduper.judged == 4


def test_pages_are_kept_until_a_save_without_their_texts_and_no_more_of_them_than_the_limit(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(state, "MAX_KEPT_PAGES", 600)
    records = [Record("pages", 0, n, b"%d" % n, f'{{"text": "{STORY} {n}"}}'.encode()) for n in range(2000)]
    with Deduper(cache=cache, workers=0, path=tmp_path / "state", save_pages=10**9, save_s=10**9) as deduper:
        stream = deduper.stream(records)
        next(stream)
        unsaved = deduper._state._unsaved
        assert unsaved
        assert not any(batch.pages for batch in unsaved)
        for _ in range(1000):
            deduper.judge([STORY])  # while the stream is open, nothing is saved
        assert deduper._state._unsaved is None
        stream.close()


def test_pages_that_closing_cannot_save_are_counted_in_an_error(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(state, "MAX_KEPT_PAGES", 1)
    deduper = Deduper(cache=cache, workers=0, path=tmp_path / "state")
    for _ in range(3):
        deduper.judge([STORY])
    with monkeypatch.context() as patched:
        patched.setattr(Resolver, "judge", stop_the_program)
        with pytest.raises(SystemExit):
            deduper.judge([STORY])
    with pytest.raises(UsageError, match="verdicts of 3 pages were returned, and the folder has 0 pages: go on"):
        deduper.close()
    with Deduper(cache=cache, workers=0, path=tmp_path / "state") as deduper:
        assert deduper.judged == 0


@pytest.mark.parametrize(
    ("sent", "outcome"),
    [
        (signal.SIGTERM, nullcontext()),  # its handler waits until the folder is saved
        (
            signal.SIGUSR1,
            pytest.raises(UsageError, match="is being saved: close it outside of the signal's handler"),
        ),
    ],
)
def test_a_handler_that_closes_while_the_folder_is_saved_loses_no_page(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sent: int, outcome: AbstractContextManager[object]
) -> None:
    commit = PreparedSnapshot.commit

    def signalled(self: PreparedSnapshot) -> None:
        monkeypatch.setattr(PreparedSnapshot, "commit", commit)
        os.kill(os.getpid(), sent)
        commit(self)

    with Deduper(cache=cache, workers=0, path=tmp_path / "state") as deduper:
        before = signal.signal(sent, lambda *_: deduper.close())
        try:
            deduper.judge([STORY])
            monkeypatch.setattr(PreparedSnapshot, "commit", signalled)
            with outcome:
                deduper.save()
        finally:
            signal.signal(sent, before)
    with Deduper(cache=cache, workers=0, path=tmp_path / "state") as deduper:
        assert deduper.judged == 1


def test_a_save_within_a_stream_saves_behind_the_batch(cache: Path, tmp_path: Path) -> None:
    records = [Record("p", 0, n, b"%d" % n, b'{"text":"%s"}' % STORY.encode()) for n in range(4)]
    with Deduper(cache=cache, workers=0, path=tmp_path / "state") as deduper:
        for number, _ in enumerate(deduper.stream(records)):
            if not number:
                deduper.save()
        shutil.copytree(tmp_path / "state", tmp_path / "killed")
    with Deduper(cache=cache, workers=0, path=tmp_path / "killed") as deduper:
        assert deduper.judged == 4


def test_nothing_is_saved_before_the_journal_is_on_the_disk(cache: Path, tmp_path: Path) -> None:
    def refuse() -> None:
        raise StateUnwritable("cannot write the journal", "check the disk")

    record = Record("p", 0, 0, b"a", b'{"text":"%s"}' % STORY.encode())
    journal: Any = SimpleNamespace(is_open=True, append=lambda *_: None, sync=refuse)
    deduper = Deduper(cache=cache, workers=0, path=tmp_path / "state")
    assert len(list(deduper.stream([record], journal=journal))) == 1
    with pytest.raises(StateUnwritable):
        deduper.close()
    with Deduper(cache=cache, workers=0, path=tmp_path / "state") as deduper:
        assert deduper.judged == 0


def test_a_closed_deduper_answers_nothing(cache: Path) -> None:
    deduper = Deduper(cache=cache, workers=0)
    deduper.close()
    html = {"html": f"<p>{STORY}"}
    record = Record("p", 0, 0, b"a", b"{}")
    asked: tuple[Callable[[], object], ...] = (
        lambda: deduper.judge([STORY]),
        lambda: deduper.judge([html]),
        lambda: deduper.judge([]),
        lambda: list(deduper.stream([record])),
        lambda: deduper.match(STORY),
        lambda: deduper.explain(STORY),
        lambda: deduper.explain(html),
    )
    for ask in asked:
        with pytest.raises(UsageError, match="this Deduper is closed"):
            ask()


def test_a_deduper_that_is_closed_while_html_is_read_says_so(cache: Path) -> None:
    deduper = Deduper(cache=cache, workers=0)

    def pages() -> Iterator[dict[str, str]]:
        yield {"html": f"<p>{STORY}"}
        deduper.close()

    with pytest.raises(UsageError, match="this Deduper is closed"):
        deduper.judge(pages())


def test_a_stream_without_a_thread_is_refused(cache: Path) -> None:
    with (
        Deduper(cache=cache, workers=0) as deduper,
        pytest.raises(UsageError, match="threads is 0: give 1 or more"),
    ):
        list(deduper.stream([], threads=0))
