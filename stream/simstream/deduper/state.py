"""Holds the state of a Deduper: the judge's state in memory, and the folder that saves it, if there is one."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

from simstream.closing import Closing
from simstream.deduper.fingerprinting import FingerprintedPages
from simstream.errors import StateUnwritable, UsageError
from simstream.files.folder import StateFolder
from simstream.files.save_pace import SavePace
from simstream.interrupts import interrupts_held
from simstream.judge.pages.store import PageStore
from simstream.judge.policy import Policy
from simstream.judge.resolver import Resolver
from simstream.judge.state import JudgeState
from simstream.model import PYTHON, Verdict


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
        self._state = JudgeState(policy)
        self._has_files = path is not None or scratch is not None
        if scratch is not None:
            self._state.resolver.use_folder(scratch, records=path is None)
        self._pace = pace
        self._say = say
        self._whole = True
        """Whether no batch was left in the middle: such a state is never saved."""
        self.told = True
        """Whether the caller has the verdicts of all that was judged. Else only a state with a journal is saved: it
        has the verdicts."""
        self._closed = False
        self._process = os.getpid()
        self._turn = threading.Lock()
        """Held by the thread that judges."""
        self._folder = None if path is None else StateFolder(path)
        if self._folder is not None:
            self._load(self._folder)
            if self.judged:
                self._say(f"{path} goes on after {self.judged:,} pages")

    @property
    def judged(self) -> int:
        """The number of pages that were judged, those in the folder included."""
        return self._state.acceptor.ordinal

    @property
    def resolver(self) -> Resolver:
        """The judge of the pages, for questions. Raises UsageError after `close`."""
        if self._closed:
            raise UsageError("this Deduper is closed", "make another one, with the same path to go on")
        return self._state.resolver

    @property
    def is_inherited(self) -> bool:
        """Whether this process got the state by a fork: its files are those of the process that made it."""
        return os.getpid() != self._process

    def judge(self, batch: FingerprintedPages, threads: int = 1, first: int | None = None) -> list[Verdict]:
        """Return one verdict for each page, in order. Ctrl-C waits until the batch is judged.

        So many threads look the pages up if batch and index are large; no verdict depends on it. If the pages are
        named after their numbers in this state, `first` is the number of the first one.
        Set `told` once the caller has the verdicts. Raises UsageError after `close`, after an error that left a
        batch in the middle, while another thread judges, and in a forked process if the state has files.
        """
        if not self._turn.acquire(blocking=False):
            raise _two_threads()
        try:
            if first not in (None, self.judged):  # while these pages were fingerprinted
                raise _two_threads()
            return self._judge(batch, threads)
        finally:
            self._turn.release()

    def _judge(self, batch: FingerprintedPages, threads: int) -> list[Verdict]:
        resolver, columns, ordinal = self.resolver, batch.columns, self.judged
        self._refuse_inherited()
        if not self._whole:
            raise UsageError("an error left a batch half judged", "close this Deduper, and make another one")
        with interrupts_held():
            self._state.acceptor.ordinal += len(columns)
            self._whole = self.told = False
            self._state.index.look_up_by(threads)
            verdicts = resolver.judge(columns, columns.time, ordinal, batch.sources)
            if self.journal is not None:
                self.journal.append(batch, verdicts)
            self._whole = True
        return verdicts

    def _refuse_inherited(self) -> None:
        """Raise UsageError in a forked process that would write files of the process before it."""
        if self._has_files and self.is_inherited:
            raise UsageError(
                "this Deduper with its files belongs to another process",
                "make one in this process, with another path",
            )

    def save(self) -> None:
        """Save what was judged so far, if there is a folder. Raises StateUnwritable; the folder is as it was.

        Ctrl-C waits until it is saved. Raises UsageError in a forked process.
        """
        self._refuse_inherited()
        if self._folder is None or not self.judged or not self._whole:
            return
        if not self.told and self.journal is None:
            return
        with interrupts_held():
            self._save(self._folder)

    def _save(self, folder: StateFolder) -> None:
        began = time.monotonic()
        if self.journal is not None:
            if not self.journal.is_open:
                return
            self.journal.sync()
        prepared = folder.prepare(self._state.parts(), self._state.facts(PYTHON))
        prepared.write()
        prepared.commit()
        self._state.read_from_disk(folder.files, prepared.sealed)
        self._pace.note_save(self.judged, time.monotonic() - began)

    def save_if_due(self) -> None:
        """Save if a save is due. If the disk refuses it, judging goes on, and `close` tries once more."""
        if self._folder is None or not self._pace.is_due(self.judged):
            return
        try:
            self.save()
        except StateUnwritable as error:
            self._pace.note_failure()
            self._say(str(error))

    def close(self) -> None:
        """Save, and let go of the folder; in a forked process, do nothing. May be called twice."""
        self._closed = True
        if self.is_inherited:
            return
        try:
            self.save()
        finally:
            if self._folder is not None:
                self._folder.close()
                self._folder = None
            self._state.close()

    def _load(self, folder: StateFolder) -> None:
        try:
            if loaded := folder.load(trusted=PageStore.KINDS):
                self._state.restore(loaded.parts, loaded.facts, PYTHON)
                self._state.read_from_disk(folder.files, loaded.sealed.values())
                self._pace.note_save(self.judged)
        except BaseException:
            folder.close()
            raise


def _two_threads() -> UsageError:
    return UsageError("another thread is judging with this Deduper", "let one thread at a time use it")
