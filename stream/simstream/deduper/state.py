"""Holds the state of a Deduper: the judge's state in memory, and the folder that saves it, if there is one."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Protocol

from simstream.closing import Closing
from simstream.deduper.fingerprinting import FingerprintedPages
from simstream.errors import StateUnwritable, UsageError
from simstream.files.folder import StateFolder
from simstream.files.save_pace import SavePace
from simstream.interrupts import BEAT_S, interrupts_held
from simstream.judge.pages.store import PageStore
from simstream.judge.policy import Policy
from simstream.judge.resolver import Resolver
from simstream.judge.state import JudgeState
from simstream.model import PYTHON, Verdict

MAX_KEPT_PAGES: Final = 1 << 17
"""The most pages that are kept since the last save, some 43 MB, so that `close` can judge them again."""


class BatchJournal(Protocol):
    """Hears of each judged batch before the folder can be saved with it. It may raise SimstreamError."""

    @property
    def is_open(self) -> bool:
        """Whether the folder is still to be saved."""

    def append(self, batch: FingerprintedPages, verdicts: Sequence[Verdict]) -> None:
        """Take a batch and its verdicts."""

    def sync(self) -> None:
        """Make all that was taken survive a power cut. Raises StateUnwritable."""


class SavedState(Closing):
    """Judges batches and saves the outcome. Raises as `Deduper` does for its folder."""

    journal: BatchJournal | None = None

    def __init__(
        self, policy: Policy, path: Path | None, scratch: Path | None, pace: SavePace, say: Callable[[str], None]
    ) -> None:
        self._policy = policy
        self._scratch = scratch
        self._has_files = path is not None or scratch is not None
        self._pace = pace
        self._say = say
        self._whole = True
        """Whether no batch was left in the middle: such a state is never saved."""
        self._told = self._saved = 0
        """How many pages the caller has the verdicts of, and how many the folder has. Pages that the caller was not
        told of are saved only with a journal: it has their verdicts."""
        self._unsaved: list[FingerprintedPages] | None = []
        """The batches since the last save, the one that is judged now included; None if they are not kept."""
        self._asked = self._saving = self._closed = self._ended = False
        self._process = os.getpid()
        self._turn = threading.Lock()
        self._busy_thread: int | None = None
        """The thread that changes or writes the state just now; it has the turn."""
        self._folder = None if path is None else StateFolder(path)
        try:
            self._state = self._empty()
            if self._folder is not None:
                self._load(self._folder)
            self._told = self._saved = self.judged
            if self.judged:
                self._say(f"{path} goes on after {self.judged:,} pages")
        except BaseException:
            if self._folder is not None:
                self._folder.close()
            raise

    @property
    def judged(self) -> int:
        """The number of pages that were judged, those in the folder included."""
        return self._state.acceptor.ordinal

    @property
    def resolver(self) -> Resolver:
        """The judge of the pages, for questions. Raises UsageError after `close`."""
        self.refuse_closed()
        return self._state.resolver

    def refuse_closed(self) -> None:
        """Raise UsageError after `close`."""
        if self._closed:
            raise UsageError("this Deduper is closed", "make another one, with the same path to go on")

    @property
    def is_inherited(self) -> bool:
        """Whether this process got the state by a fork: its files are those of the process that made it."""
        return os.getpid() != self._process

    def turn(self) -> threading.Lock:
        """Return the lock of the thread that judges or saves. Raises UsageError if it is taken: nobody waits."""
        self.refuse_closed()  # also if another thread closes it just now
        if not self._turn.locked():
            return self._turn
        if self.is_inherited:
            raise UsageError("this process was forked while a batch was judged", "make another Deduper in it")
        if self._busy_thread == threading.get_ident():
            raise UsageError("this Deduper is in the middle of a batch", "use it outside of the signal's handler")
        raise _two_threads("saving" if self._saving else "judging with")

    @contextmanager
    def _busy(self, *, saving: bool) -> Iterator[None]:
        """Hold Ctrl-C, SIGTERM and SIGALRM back while the state is changed or written."""
        with interrupts_held(every=True):
            self._busy_thread, self._saving = threading.get_ident(), saving
            try:
                yield
            finally:
                self._busy_thread, self._saving = None, False

    def judge(self, batch: FingerprintedPages, threads: int = 1, first: int | None = None) -> list[Verdict]:
        """Return one verdict for each page, in order. Ctrl-C waits until the batch is judged.

        So many threads look the pages up if batch and index are large; no verdict depends on it. If the pages are
        named after their numbers in this state, `first` is the number of the first one.
        Take the `turn` before, and call `note_told` once the caller has the verdicts. Raises UsageError after
        `close`, after an error that left a batch in the middle, if another thread has judged in the meantime, and
        in a forked process if the state has files.
        """
        with self._busy(saving=False):
            self.refuse_closed()
            if first not in (None, self.judged):  # while these pages were fingerprinted
                raise _two_threads()
            self._refuse_inherited()
            if not self._whole:
                raise _half_judged()
            self._keep(batch)
            self._whole = False
            self._state.index.look_up_by(threads)
            verdicts = self._take_in(batch)
            if self.journal is not None:
                self.journal.append(batch, verdicts)
            self._whole = True
        return verdicts

    def _take_in(self, batch: FingerprintedPages) -> list[Verdict]:
        ordinal = self.judged
        self._state.acceptor.ordinal += len(batch.columns)
        return self._state.resolver.judge(batch.columns, batch.columns.time, ordinal, batch.sources)

    def _keep(self, batch: FingerprintedPages) -> None:
        """Keep a batch until it is saved, unless the folder can be saved without."""
        if self._folder is None or self.journal is not None or self.judged - self._saved > MAX_KEPT_PAGES:
            self._unsaved = None
        if self._unsaved is not None:
            self._unsaved.append(batch._replace(pages=()))  # without their texts

    def note_told(self) -> None:
        """Note that the caller gets the verdicts of all that was judged. Raises UsageError if the folder was closed
        without these pages."""
        if self._ended:
            raise UsageError("this Deduper was closed while it judged", "make another one, and judge these pages")
        self._told = self.judged

    def _refuse_inherited(self) -> None:
        """Raise UsageError in a forked process that would write files of the process before it."""
        if self._has_files and self.is_inherited:
            raise UsageError(
                "this Deduper with its files belongs to another process",
                "make one in this process, with another path",
            )

    def save(self) -> None:
        """Save what was judged so far, if there is a folder. Raises StateUnwritable; the folder is as it was.

        Ctrl-C waits until it is saved. Raises UsageError in a forked process, while another thread judges, after an
        error that left a batch in the middle, and if the caller lacks verdicts of what was judged.
        """
        self._refuse_inherited()
        if self._folder is None:
            return
        with self.turn(), self._busy(saving=True):
            if not self._whole:
                raise _half_judged()
            if not self._may_save():
                raise UsageError(
                    f"judging was broken off: of {self.judged:,} pages, only the first {self._told:,} have "
                    "verdicts that were returned",
                    "judge further pages before you save; or close this Deduper, which saves those first pages",
                )
            self._write(self._folder)

    def save_soon(self) -> None:
        """Let the next `save_if_due` save."""
        self._asked = True

    def save_if_due(self) -> None:
        """Save if a save is due, within a `turn`. If the disk refuses it, judging goes on, and `close` tries once
        more."""
        if self._folder is None or not (self._asked or self._pace.is_due(self.judged)) or not self._may_save():
            return
        try:
            with self._busy(saving=True):
                self._write(self._folder)
        except StateUnwritable as error:
            self._pace.note_failure()
            self._say(str(error))

    def _may_save(self) -> bool:
        """Whether the state may be saved as it is."""
        return self._whole and (self.journal is not None or self._told == self.judged)

    def _write(self, folder: StateFolder) -> None:
        """Write the folder. Raises StateUnwritable; the folder is as it was."""
        if not self.judged or (self.journal is not None and not self.journal.is_open):
            return
        began = time.monotonic()
        if self.journal is not None:
            self.journal.sync()
        prepared = folder.prepare(self._state.parts(), self._state.facts(PYTHON))
        prepared.write()
        prepared.commit()
        self._state.read_from_disk(folder.files, prepared.sealed)
        self._pace.note_save(self.judged, time.monotonic() - began)
        self._saved, self._unsaved, self._asked = self.judged, [], False

    def close(self) -> None:
        """Save, and let go of the folder; in a forked process, do nothing. May be called twice.

        Waits until another thread has judged its batch. If the caller lacks verdicts, or a batch was left in the
        middle, save only the pages before. Raises UsageError if that cannot be done, and in the handler of a signal
        that comes while the folder is saved.
        """
        if self.is_inherited:
            self._closed = True
            return
        if self._saving and self._busy_thread == threading.get_ident():
            raise UsageError("this Deduper is being saved", "close it outside of the signal's handler")
        self._closed = True
        is_free = self._wait_for_turn()
        try:
            if self._folder is not None:
                self._ended = True
                with self._busy(saving=True):
                    self._save_told(self._folder, is_free)
        finally:
            if self._folder is not None:
                self._folder.close()
                self._folder = None
            if is_free:
                self._state.close()
                self._turn.release()

    def _wait_for_turn(self) -> bool:
        """Take the turn once no other thread is in the middle of a batch.

        Return False if this thread is, below a signal's handler; or if the turn is taken between two batches: none
        follows after `close`.
        """
        while not self._turn.acquire(timeout=0 if self._busy_thread == threading.get_ident() else BEAT_S):
            if self._busy_thread in (None, threading.get_ident()):
                return False
        return True

    def _save_told(self, folder: StateFolder, is_free: bool) -> None:
        """Save the pages whose verdicts the caller has; if `is_free`, no frame below uses the state."""
        if self._may_save():
            self._write(folder)
        elif self.journal is None and self._told > self._saved:
            batches, wanted = self._unsaved, self._told
            if is_free:
                self._state.close()
            self._state, self._whole = self._empty(), True
            self._load(folder)
            if batches is None or self.judged != self._saved:
                raise UsageError(
                    f"judging was broken off: the verdicts of {wanted:,} pages were returned, and the folder has "
                    f"{self._saved:,} pages",
                    "go on after the number of pages that `judged` of another Deduper says",
                )
            for batch in batches:
                if self.judged == wanted:
                    break
                self._take_in(batch)
            self._write(folder)

    def _empty(self) -> JudgeState:
        state = JudgeState(self._policy)
        if self._scratch is not None:
            state.resolver.use_folder(self._scratch, records=self._folder is None)
        return state

    def _load(self, folder: StateFolder) -> None:
        if loaded := folder.load(trusted=PageStore.KINDS):
            self._state.restore(loaded.parts, loaded.facts, PYTHON)
            self._state.read_from_disk(folder.files, loaded.sealed.values())
            self._pace.note_save(self.judged)


def _half_judged() -> UsageError:
    return UsageError("an error left a batch half judged", "close this Deduper, and make another one")


def _two_threads(doing: str = "judging with") -> UsageError:
    return UsageError(f"another thread is {doing} this Deduper", "let one thread at a time use it")
