"""The public Python API: `Deduper` judges pages in one process without a log, `fingerprint` makes fingerprints."""

from __future__ import annotations

import re
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import Any, Literal, NamedTuple

import msgspec

from simstream.closing import Closing
from simstream.errors import InputError, StateUnwritable, UsageError
from simstream.files.folder import StateFolder
from simstream.files.save_pace import SavePace
from simstream.judge.candidates import Candidate
from simstream.judge.lookups import Match
from simstream.judge.pages.store import PageStore
from simstream.judge.policy import make_policy
from simstream.judge.state import JudgeState
from simstream.model import U64, FingerprintColumns, Page, PageKind, PageSource, Record, Verdict
from simstream.settings import default_cache, duration_ms
from simstream.sources.batches import record_batches
from simstream.text.extraction.pool import MEMORY_BYTES, TIMEOUT_S
from simstream.text.fingerprinter import Fingerprinter
from simstream.text.recipe import Recipe
from simstream.text.recipe_file import load_recipe
from simstream.wire.page import NO_TIME, PageLimits, decode

_MAX_RECORD_BYTES = 64 << 20
PYTHON = "python"
"""What stands as `source.topic` for pages that were handed over by a program."""
_NUMBERED = re.compile(f"{PYTHON}/0/[0-9]+")
"""Names of pages that were handed over without id and URL."""


class FingerprintedPages(NamedTuple):
    """One batch between fingerprinting and judging."""

    pages: Sequence[Page]
    columns: FingerprintColumns
    sources: Sequence[PageSource]


class ExplainedPage(NamedTuple):
    """One page before it is judged, and the state that it would meet."""

    page: Page
    """With its text, and why it is not readable where it is not."""
    columns: FingerprintColumns
    """Of one row: fingerprint, sketch, number of distinct words."""
    candidates: list[Candidate]
    """Closest first; see `judge/candidates`."""
    live_pages: int
    stream_time: int | None


class Deduper(Closing):
    """Judges pages as the service does; state is in memory, or in the folder `path`.

    A Deduper with a folder goes on where the folder was last saved; `judged` counts the pages until then. `save`
    and `close` save the folder, and so does leaving a `with` block. `judge` and `stream` save it, too, once
    `save_pages` pages or `save_s` seconds have passed; that takes at most a twentieth of the time. Pages that were
    judged after the last save are unknown to the next Deduper. One object at a time may have a folder.

    `recipe` is a preset's name, a recipe file or a Recipe; `distance` and `similarity` override its own; `window`
    is a duration such as "72h" or None; `link` is "any" or "canonical". `cache` is the folder for tables made once,
    `workers` the number of processes for HTML (which get `timeout_s` seconds a page, and `memory_bytes` each), and
    `say` hears a sentence before work that takes seconds. Pages are mappings with the fields of the record (`id`,
    `url`, `text` or `html`, `time`, `status`) or plain texts. Not safe to use from several threads at once.

        with Deduper() as deduper:
            for verdict in deduper.judge([{"id": "a", "text": "…"}, {"id": "b", "text": "…"}]):
                print(verdict.id, verdict.verdict, verdict.near_duplicate_of)

    Raises SettingsError for a wrong recipe, distance, similarity, window or link, and where there is a `path`:
    StateLocked, StateDamaged, StateFormat, StateUnwritable, WrongRecipe, WrongPolicy, and WrongLog for the folder
    of a service.
    """

    def __init__(
        self,
        path: str | Path | None = None,
        recipe: str | Path | Recipe = "default",
        distance: int | None = None,
        similarity: str | float | None = None,
        window: str | None = None,
        link: Literal["any", "canonical"] = "any",
        *,
        cache: Path | None = None,
        workers: int = 1,
        timeout_s: float = TIMEOUT_S,
        memory_bytes: int = MEMORY_BYTES,
        max_record_bytes: int = _MAX_RECORD_BYTES,
        say: Callable[[str], None] | None = None,
        save_pages: int = 500,
        save_s: float = 10.0,
    ) -> None:
        self._say = say or (lambda sentence: None)
        self._pace = SavePace(save_pages, save_s, time.monotonic)
        window_ms = None if window is None else duration_ms("window", window)
        self._fingerprinter = Fingerprinter(
            _recipe(recipe),
            cache or default_cache(),
            workers=workers,
            timeout_s=timeout_s,
            memory_bytes=memory_bytes,
            say=say,
        )
        self._limits = PageLimits(max_record_bytes=max_record_bytes)
        self.policy = make_policy(
            self._fingerprinter.recipe,
            self._fingerprinter.recipe_id,
            distance=distance,
            similarity=None if similarity is None else str(similarity),
            window_ms=window_ms,
            link=link,
        )
        self._state = JudgeState(self.policy)
        self._whole = True
        """Whether no batch was left in the middle: such a state is never saved."""
        self._resolver = self._state.resolver
        self._folder = None if path is None else StateFolder(Path(path))
        if self._folder is not None:
            self._load(self._folder)
            if self.judged:
                self._say(f"{path} goes on behind {self.judged:,} pages")

    @property
    def judged(self) -> int:
        """How many pages were judged, the pages in the folder included: go on with the next page."""
        return self._state.acceptor.ordinal

    def judge(self, pages: Iterable[Mapping[str, Any] | str]) -> list[Verdict]:
        """One verdict for each page, in order. Texts and pages without id and URL are named by their number.

        Such a name is `python/0/NUMBER`. Raises UsageError for a page that brings another page's number as its id.
        """
        _refuse_single("judge", "pages or texts", pages)
        first = self.judged
        records = (_record(page, first + number) for number, page in enumerate(pages))
        verdicts = list(chain.from_iterable(self._batches(records, 1, None)))
        self._save_if_due()
        return verdicts

    def stream(
        self,
        records: Iterable[Record],
        threads: int = 1,
        seen: Callable[[FingerprintedPages], None] | None = None,
    ) -> Iterator[Verdict]:
        """Yield one verdict for each record, in order, as soon as its batch is judged.

        `seen` is called with each batch and its pages' texts before the batch's verdicts come. `threads` threads
        fingerprint batches while earlier batches are judged; at most `threads` + 1 batches of 4 MB are held. Raises
        UsageError where a window is set and a readable page has no time of its own. An error of `records` comes
        after the verdicts of all records before it.
        """
        for verdicts in self._batches(records, threads, seen):
            yield from verdicts
            self._save_if_due()  # the caller has these verdicts

    def _batches(
        self, records: Iterable[Record], threads: int, seen: Callable[[FingerprintedPages], None] | None
    ) -> Iterator[list[Verdict]]:
        for batch in self.fingerprinted(records, threads):
            if seen is not None:
                seen(batch)
            columns, ordinal = batch.columns, self.judged
            self._state.acceptor.ordinal += len(columns)
            self._whole = False
            verdicts = self._resolver.judge(columns, columns.time, ordinal, batch.sources)
            self._whole = True
            yield verdicts

    def match(self, text: str) -> list[Match]:
        """The live pages that a page with this text would match, the closest first. Nothing is stored."""
        if not isinstance(text, str):
            raise TypeError(f"match takes one text, not {type(text).__name__}")
        fingerprints, sketches, words = self._fingerprinter.texts([text])
        if words[0] < self._fingerprinter.recipe.min_words:
            return []
        return self._resolver.match(fingerprints, sketches, words)

    def explain(self, page: Mapping[str, Any] | str | Record) -> ExplainedPage:
        """The page as it would be judged now, and all that it would be compared with. Nothing is stored.

        Read it before `judge` or `stream` is given the page: from then on it is its own earlier version.
        """
        record = page if isinstance(page, Record) else _record(page, self._state.acceptor.ordinal)
        [own], columns, _ = self._fingerprint([record])
        met = self._resolver.meets(columns, columns.time)
        return ExplainedPage(own, columns, met.candidates, met.live_pages, met.stream_time)

    def save(self) -> None:
        """Make what was judged so far survive, where there is a `path`. Costs what has changed since the last time.

        Raises StateUnwritable: the folder is as it was then, and it can be tried again."""
        if self._folder is None or not self._whole:
            return
        began = time.monotonic()
        prepared = self._folder.prepare(self._state.parts(), self._state.facts(PYTHON))
        prepared.write()
        prepared.commit()
        self._state.on_disk(self._folder.files, prepared.sealed)
        self._pace.saved(self.judged, time.monotonic() - began)

    def _save_if_due(self) -> None:
        """Save if a save is due. If the disk does not take it, judging goes on, and `close` tries once more."""
        if self._folder is None or not self._pace.due(self.judged):
            return
        try:
            self.save()
        except StateUnwritable as error:
            self._pace.failed()
            self._say(str(error))

    def close(self) -> None:
        """Save, and end the extraction processes; may be called again."""
        try:
            self.save()
        finally:
            if self._folder is not None:
                self._folder.close()
                self._folder = None
            self._state.close()
            self._fingerprinter.close()

    def _load(self, folder: StateFolder) -> None:
        try:
            if loaded := folder.load(trusted=PageStore.KINDS):
                self._state.restore(loaded.parts, loaded.facts, PYTHON)
                self._state.on_disk(folder.files, loaded.sealed.values())
                self._pace.saved(self.judged)
        except BaseException:
            folder.close()
            self._fingerprinter.close()
            raise

    @property
    def fingerprinter(self) -> Fingerprinter:
        """What fingerprints its pages."""
        return self._fingerprinter

    def fingerprinted(self, records: Iterable[Record], threads: int) -> Iterator[FingerprintedPages]:
        """The batches that `stream` judges, in order; see there for what is held and raised."""
        waiting: deque[Future[FingerprintedPages]] = deque()
        with ThreadPoolExecutor(threads, thread_name_prefix="fingerprint") as pool:
            try:
                for batch in record_batches(records):
                    waiting.append(pool.submit(self._fingerprint, batch))
                    if len(waiting) > threads:
                        yield waiting.popleft().result()
            except InputError:
                yield from (future.result() for future in waiting)  # what was read before the damage counts
                raise
            while waiting:
                yield waiting.popleft().result()

    def _fingerprint(self, records: Sequence[Record]) -> FingerprintedPages:
        pages = [decode(record, self._limits) for record in records]
        for page, record in zip(pages, records, strict=True):
            _refuse_foreign_number(page, record)
            if page.time == NO_TIME:
                if self.policy.window_ms is not None and page.kind == PageKind.READABLE:
                    raise UsageError(
                        f"{record.topic}:{record.offset + 1} has no `time`",
                        "a window needs the time of every page: add it, or leave --window out",
                    )
                page.time = 0
        sources = [PageSource(record.topic, record.partition, record.offset) for record in records]
        return FingerprintedPages(pages, self._fingerprinter.columns(pages), sources)


def fingerprint(texts: Sequence[str], recipe: str | Path | Recipe = "default", cache: Path | None = None) -> U64:
    """The 64-bit fingerprints (n,) of texts under a recipe; 0 for a text of fewer words than its `min_words`."""
    _refuse_single("fingerprint", "texts", texts)
    return _shared_fingerprinter(_recipe(recipe), cache).texts(texts)[0]


def _record(page: Mapping[str, Any] | str, number: int) -> Record:
    content: Mapping[str, Any] = {"text": page} if isinstance(page, str) else page
    if not isinstance(content, Mapping):
        raise TypeError(f"a page is a mapping of its fields, or a text, not {type(page).__name__}")
    try:
        value = msgspec.json.encode(content)
    except UnicodeEncodeError:
        import json

        value = json.dumps(dict(content)).encode()  # lone surrogates, which only this encoder escapes
    return Record(topic=PYTHON, partition=0, offset=number, key=None, value=value, timestamp=NO_TIME)


def _refuse_foreign_number(page: Page, record: Record) -> None:
    """Raise UsageError if a page's id or URL is the name of another page, which came without id and URL."""
    if record.topic != PYTHON or not _NUMBERED.fullmatch(page.id) or page.id == f"{PYTHON}/0/{record.offset}":
        return
    raise UsageError(
        f"the page with the number {record.offset} has the id {page.id!r}, the name of a page without an id",
        "give it another id",
    )


def _refuse_single(function: str, wanted: str, given: object) -> None:
    """Raise TypeError, which says what to pass, for a value that iterates by characters, keys or columns."""
    if isinstance(given, str | bytes | Mapping):
        raise TypeError(f"{function} takes {wanted}, not one {type(given).__name__}: put it into a list")
    if hasattr(given, "columns") or hasattr(given, "column_names"):
        kind = type(given).__name__
        advice = "pass its rows: to_dict('records') of pandas, to_dicts() of polars, to_pylist() of pyarrow"
        raise TypeError(f"{function} takes {wanted}, not a {kind}: {advice}, or one column of texts as a list")


@lru_cache(maxsize=4)
def _shared_fingerprinter(recipe: Recipe, cache: Path | None) -> Fingerprinter:
    return Fingerprinter(recipe, cache or default_cache())


def _recipe(named: str | Path | Recipe) -> Recipe:
    return named if isinstance(named, Recipe) else load_recipe(named)
