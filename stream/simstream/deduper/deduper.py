"""Judges pages in one process, without a log: `Deduper`."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, Literal, Never

import numpy as np

from simstream.closing import Closing
from simstream.deduper.fingerprinting import FingerprintedPages, RecordFingerprinter, recipe_of
from simstream.deduper.pages import (
    ExplainedPage,
    folder_of,
    page_record,
    refuse_no_record,
    refuse_single,
    refuse_unnamed,
)
from simstream.deduper.state import BatchJournal, SavedState
from simstream.deduper.tables import table_records, verdict_table
from simstream.errors import UsageError
from simstream.files.save_pace import SavePace
from simstream.judge.lookups import Match
from simstream.judge.policy import make_policy
from simstream.model import Record, Verdict
from simstream.settings import check_value, default_cache, duration_ms
from simstream.sources.fields import FieldNames
from simstream.text.extraction.pool import MEMORY_BYTES, TIMEOUT_S
from simstream.text.fingerprinter import Fingerprinter
from simstream.text.recipe import Recipe

MAX_RECORD_BYTES: Final = 64 << 20


class Deduper(Closing):
    """A judge of pages in this process. It gives the verdicts that a service gives for the same pages.

    The state is in memory, or in the folder `path`. With a folder, a Deduper continues where the folder was last
    saved. `close`, `save` and the end of a `with` block save it. `judge` and `stream` save it, too, as soon as
    `save_pages` pages or `save_s` seconds have passed. Saving takes at most a twentieth of the time.

    Ctrl-C takes effect between two batches, and so do the program's handlers of SIGTERM and SIGALRM: `judged` then
    says how many pages were judged. A folder is not saved with pages whose verdicts nobody got, unless judging goes
    on: `close` saves the pages before them. So it does after an error, and in the handler of a signal.

    Pages are texts, or mappings with the fields of a record: `id`, `url`, `text` or `html`, `time`, `status`.
    A Deduper must not be used by several threads at once; `close` waits until another thread has judged its batch.
    One Deduper at a time can use a folder. One that is dropped without `close` leaves it as it was last saved.

    Cost: about 0.1 ms for a page of 2 KB on one core, and about 300 bytes of memory for each live page, or 35 with
    `scratch`; with `path` also about 330 for each page since the last save, up to 131,072 pages. The first Deduper
    on a machine compiles kernels and builds tables for ten seconds or more.

    Args:
        path: The folder of the state, or None for memory. A relative one stays where it is when the program changes
            its working directory.
        scratch: A folder for files without names, which end with the process: of the tables of pages, and of their
            records unless `path` has these. Some 80 bytes a page of them are mapped into memory, which the system
            takes back when it needs it. None: all is in memory.
        recipe: A preset's name ("default", "google2007", "fnv1-tf", "shingles"), a recipe file, or a Recipe.
        distance: The greatest Hamming distance of a match, in bits from 0 to 16; by default the recipe's.
        similarity: The least similarity of a match, from 0 to 1; by default the recipe's.
        window: How long a page stays live, such as "72h" or "30m", by the pages' own times; None for ever.
        link: Which pages a page is compared with: "any" live page, or only the "canonical" page of each cluster.
        cache: The folder for tables that are built once; by default the one of the setting `cache`.
        workers: The number of processes that parse HTML for a recipe with `extract` "main" or "prose"; 0 parses it
            in this process.
        timeout_s: Seconds of processor time for the extraction of one page.
        memory_bytes: Memory of each extraction process.
        max_record_bytes: Greater pages are `unreadable`.
        say: Called with a sentence before work that takes seconds, and once if a `time` is likely in seconds.
        save_pages: Save the folder after so many pages.
        save_s: Save the folder after so many seconds.

    Raises:
        TypeError: An argument has no name: write `Deduper(path=...)` or `Deduper(recipe=...)`.
        SettingsError: A recipe, distance, similarity, window, link or limit is out of its range.
        InputMissing: The recipe's file, or one that it names, cannot be read.
        UsageError: `path` holds other files than a state, or `path` or `scratch` names no folder.
        WrongRecipe: The folder was made with another recipe.
        WrongPolicy: The folder was made with another distance, similarity, window, link or `sketch_lookups`.
        WrongLog: The folder belongs to a service.
        StateLocked: Another Deduper or service uses the folder.
        StateDamaged: A file of the folder is damaged.
        StateFormat: Another version of simstream wrote the folder, in another format.
        StateUnwritable: The disk refuses the folder.

    Examples:
        >>> from simstream import Deduper
        >>> story = "The night train stops at the mill village again after forty years, before dawn."
        >>> with Deduper() as deduper:
        ...     for verdict in deduper.judge([{"id": "a", "text": story}, {"id": "b", "text": story.upper()}]):
        ...         print(verdict.id, verdict.verdict, verdict.near_duplicate_of)
        a new None
        b near_duplicate a
    """

    def __init__(
        self,
        *unnamed: Never,
        path: str | Path | None = None,
        scratch: str | Path | None = None,
        recipe: str | Path | Recipe = "default",
        distance: int | None = None,
        similarity: str | float | None = None,
        window: str | None = None,
        link: Literal["any", "canonical"] = "any",
        cache: str | Path | None = None,
        workers: int = 1,
        timeout_s: float = TIMEOUT_S,
        memory_bytes: int = MEMORY_BYTES,
        max_record_bytes: int = MAX_RECORD_BYTES,
        say: Callable[[str], None] | None = None,
        save_pages: int = 500,
        save_s: float = 10.0,
    ) -> None:
        refuse_unnamed(unnamed)
        for name, setting, value in (
            ("workers", "extract.workers", workers),
            ("timeout_s", "extract.timeout_s", timeout_s),
            ("memory_bytes", "extract.memory_bytes", memory_bytes),
            ("max_record_bytes", "max_record_bytes", max_record_bytes),
        ):
            check_value(name, setting, value.item() if isinstance(value, np.generic) else value)
        pace = SavePace(save_pages, save_s, time.monotonic)
        self._fingerprinter = Fingerprinter(
            recipe_of(recipe),
            Path(cache) if cache else default_cache(),
            workers=workers,
            timeout_s=timeout_s,
            memory_bytes=memory_bytes,
            say=say,
        )
        self.policy = make_policy(
            self._fingerprinter.recipe,
            self._fingerprinter.recipe_id,
            distance=distance,
            similarity=None if similarity is None else str(similarity),
            window_ms=None if window is None else duration_ms("window", window),
            link=link,
        )
        self._max_record_bytes = max_record_bytes
        said = say or (lambda _: None)
        timed = window is not None
        self._pages = RecordFingerprinter(self._fingerprinter, max_record_bytes, timed=timed, say=said)
        try:
            self._streaming = False
            """Whether the caller of a stream lacks verdicts of what was judged."""
            self._state = SavedState(
                self.policy,
                folder_of("path", path),
                folder_of("scratch", scratch),
                pace,
                said,
            )
        except BaseException:
            self._fingerprinter.close()
            raise

    @property
    def fingerprinter(self) -> Fingerprinter:
        """The fingerprinter of the pages."""
        return self._fingerprinter

    @property
    def judged(self) -> int:
        """The number of pages that were judged, those in the folder included. Continue with the next page.

        Examples:
            >>> with Deduper() as deduper:
            ...     verdicts = deduper.judge(["one text", "another text"])
            ...     deduper.judged
            2
        """
        return self._state.judged

    def judge(self, pages: Iterable[Mapping[str, Any] | str]) -> list[Verdict]:
        """Return one verdict for each page, in order.

        All pages are checked and fingerprinted before the first one is judged: if a page is refused, none of the
        call is judged. A page without `id` and `url` is named `python/0/NUMBER` by its number in this Deduper.

        Args:
            pages: Texts, or mappings with the fields of a record. Of a table pass the rows:
                `df.to_dict("records")` of pandas, `to_dicts()` of polars; or use `judge_table`.

        Returns:
            A list of verdicts, as long as `pages`.

        Raises:
            TypeError: `pages` is a single text, a mapping or a table, or a page is neither mapping nor text.
            UsageError: A page's id is `python/0/N` with another page's number, or a `window` is set and a page
                has no `time`, or the Deduper is closed, or another thread is judging with it, or a forked process
                would write the files of the process before it.
            ExtractionNotStarted: No process that extracts HTML can be started.

        Examples:
            >>> with Deduper() as deduper:
            ...     [verdict] = deduper.judge([{"id": "a", "text": "Too short to compare."}])
            >>> verdict.verdict, verdict.reason
            ('too_short', 'few_words')
        """
        refuse_single("judge", "pages or texts", pages)
        first = self.judged
        return self._judge((page_record(page, first + number) for number, page in enumerate(pages)), first)

    def judge_table(self, table: Any, text_field: str | None = None, id_field: str | None = None) -> Any:
        """Return a table of verdicts, one for each row of a table of pages, in order. Needs the extra `parquet`.

        The verdicts are those that `judge` gives for the rows. As with `judge`, all pages are checked before the
        first one is judged. A number as `id` counts in decimal, a whole float as an integer. Binary `html` or
        `text` is raw bytes as fetched.

        Cost: that of `judge`; a row takes about 5 us in all on its way from the table and back.

        Args:
            table: A table of pyarrow, polars or pandas (2.2 and later), or another object with
                `__arrow_c_stream__`. Columns other than a page's fields (`id`, `url`, `text`, `html`, `time`,
                `status`) are not read.
            text_field: The column with the text, or a field of a struct such as `body.content`, if it is not called
                `text`; then `html` does not count.
            id_field: The column with the id, or a field of a struct, if it is not called `id`.

        Returns:
            A `pyarrow.Table` with the fields of a verdict as columns. Cluster ids are int64, `time` is a timestamp.

        Raises:
            TypeError: `table` is no such table.
            UsageError: The table has neither `text` nor `html`, or a field has two columns, or a column has no
                type of Arrow or values that cannot be ids; or `judge` would raise it.
            Unavailable: pyarrow is not installed.
            ExtractionNotStarted: No process that extracts HTML can be started.

        Examples:
            >>> import pyarrow
            >>> with Deduper() as deduper:
            ...     verdicts = deduper.judge_table(pyarrow.table({"id": ["a"], "text": ["Too short to compare."]}))
            >>> verdicts.select(["id", "verdict", "reason"]).to_pylist()
            [{'id': 'a', 'verdict': 'too_short', 'reason': 'few_words'}]
        """
        fields = FieldNames(text_field, id_field)
        first = self.judged
        return verdict_table(self._judge(table_records(table, first, self._max_record_bytes, fields), first))

    def _judge(self, records: Iterable[Record], first: int) -> list[Verdict]:
        """Judge records that are named after their numbers in this Deduper, from `first` on."""
        self._state.refuse_closed()
        try:
            batches = [batch._replace(pages=()) for batch in self._pages.batches(records, 1)]  # without their texts
        except ValueError:
            self._state.refuse_closed()  # another thread has closed it, and its extractor, in the meantime
            raise
        verdicts: list[Verdict] = []
        with self._state.turn():
            for batch in batches:
                verdicts += self._state.judge(batch, first=first + len(verdicts))
            if not self._streaming:  # else the caller of the stream may lack verdicts
                self._state.note_told()
            self._state.save_if_due()
        return verdicts

    def stream(
        self,
        records: Iterable[Record],
        threads: int = 1,
        seen: Callable[[FingerprintedPages], None] | None = None,
        journal: BatchJournal | None = None,
    ) -> Iterator[Verdict]:
        """Yield one verdict for each record, in order, as soon as its batch is judged.

        Args:
            records: Records of pages: objects `Record`. For texts and mappings use `judge`.
            threads: Threads that fingerprint while earlier batches are judged. As many, but at most 16, look pages
                up once the index has a million entries. At most `threads` + 1 batches of 4 MB are held.
            seen: Called with each batch and its pages' texts before the batch's verdicts come.
            journal: Takes each batch and its verdicts before `path` can be saved with them.

        Raises:
            TypeError: One of `records` is no Record.
            UsageError: A `window` is set and a readable page has no time of its own, or `threads` is below 1, or
                `judge` would raise it.
            InputError: `records` raised it; it comes after the verdicts of all records before it.
            ExtractionNotStarted: No process that extracts HTML can be started.

        Examples:
            >>> from simstream import Record
            >>> records = [Record("pages", 0, n, b"a", b'{"text": "Too short."}') for n in range(2)]
            >>> with Deduper() as deduper:
            ...     [verdict.verdict for verdict in deduper.stream(records)]
            ['too_short', 'too_short']
        """
        self._state.refuse_closed()
        if threads < 1:
            raise UsageError(f"threads is {threads}", "give 1 or more")
        self._state.journal = journal
        try:
            for batch in self._pages.batches(map(refuse_no_record, records), threads):
                if seen is not None:
                    seen(batch)
                with self._state.turn():
                    verdicts = self._state.judge(batch, threads)
                self._streaming = True
                yield from verdicts[:-1]
                with self._state.turn():
                    self._state.note_told()  # with the last one, the caller has all
                self._streaming = False
                yield from verdicts[-1:]
                with self._state.turn():
                    self._state.save_if_due()
        finally:
            self._streaming = False

    def match(self, text: str) -> list[Match]:
        """Return the live pages that a page with this text would match, the closest first. Nothing is stored.

        Args:
            text: One text. A text of too few words matches nothing.

        Raises:
            TypeError: `text` is no text.
            UsageError: The Deduper is closed.

        Examples:
            >>> story = "The night train stops at the mill village again after forty years, before dawn."
            >>> with Deduper() as deduper:
            ...     verdicts = deduper.judge([{"id": "a", "text": story}])
            ...     deduper.match(story.upper())
            [Match(id='a', distance=0, similarity=1.0, cluster_id='0')]
        """
        if not isinstance(text, str):
            raise TypeError(f"match takes one text, not {type(text).__name__}")
        fingerprints, sketches, words = self._fingerprinter.texts([text])
        if words[0] < self._fingerprinter.recipe.min_words:
            return []
        return self._state.resolver.match(fingerprints, sketches, words)

    def explain(self, page: Mapping[str, Any] | str | Record) -> ExplainedPage:
        """Return the page as it would be judged now, and all that it would be compared with. Nothing is stored.

        Call it before `judge`: afterwards the page is its own earlier version. Any id is allowed, that of a page
        without id, `python/0/N`, too. Cost: a few ns for each live page.

        Args:
            page: A text, a mapping with the fields of a record, or a Record.

        Raises:
            TypeError: `page` is none of these.
            UsageError: A `window` is set and the page has no `time`, or the Deduper is closed.

        Examples:
            >>> story = "The night train stops at the mill village again after forty years, before dawn."
            >>> with Deduper() as deduper:
            ...     verdicts = deduper.judge([story])
            ...     [candidate] = deduper.explain(story.replace("mill village again", "port once more")).candidates
            >>> candidate.id, candidate.distance, str(candidate.rejected_by)
            ('python/0/0', 15, 'distance')
        """
        self._state.refuse_closed()
        record = page if isinstance(page, Record) else page_record(page, self.judged)
        [own], columns, _ = self._pages.one(record)
        near = self._state.resolver.meets(columns, columns.time)
        return ExplainedPage(own, columns, near.candidates, near.live_pages, near.stream_time)

    def save(self) -> None:
        """Save the folder `path`: what was judged so far survives a kill. In memory it does nothing.

        In a loop over a `stream` it takes effect behind the batch. Cost: what has changed since the last time.

        Raises:
            StateUnwritable: The disk refuses the files. The folder is as it was; call `save` again later.
            UsageError: Another thread is judging, or Ctrl-C or an error came before verdicts were returned, or a
                forked process would write the folder. The folder is as it was.

        Examples:
            >>> import tempfile
            >>> with tempfile.TemporaryDirectory() as folder, Deduper(path=folder) as deduper:
            ...     verdicts = deduper.judge(["one text", "another text"])
            ...     deduper.save()
        """
        if self._streaming:
            self._state.save_soon()
        else:
            self._state.save()

    def close(self) -> None:
        """Save the folder and end the extraction processes. It may be called twice. In a forked process it ends
        only its own extraction processes: the folder is that of the process that made this Deduper.

        It saves the pages whose verdicts were returned, and no others; a stream's batch counts with its last one.
        If another thread is in the middle of a batch, it waits for the batch.

        Raises:
            StateUnwritable: The disk refuses the files. The folder is as it was last saved.
            UsageError: Judging was broken off more than 131,072 pages after the last save: the folder is as it was
                last saved. Or the handler of another signal calls `close` while the folder is saved.

        Examples:
            >>> deduper = Deduper()
            >>> deduper.close()
        """
        try:
            self._state.close()
        finally:
            self._fingerprinter.close()

    def fingerprinted(self, records: Iterable[Record], threads: int) -> Iterator[FingerprintedPages]:
        """Yield the batches that `stream` would judge, in order; arguments and errors are those of `stream`.

        Examples:
            >>> with Deduper() as deduper:
            ...     [len(batch.pages) for batch in deduper.fingerprinted([Record("pages", 0, 0, b"a", b"{}")], 1)]
            [1]
        """
        return self._pages.batches(records, threads)
