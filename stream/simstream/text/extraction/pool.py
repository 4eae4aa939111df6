"""Extracts HTML in a pool of processes. A page that kills or hangs a process fails alone."""

from __future__ import annotations

import os
import queue
import signal
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError, ThreadPoolExecutor
from functools import partial
from typing import Final

from simstream.closing import Closing
from simstream.processors import takes_no_more
from simstream.text.extraction.extract import OUT_OF_MEMORY, ExtractedText, extract_one, is_plain, refused_binary
from simstream.text.extraction.process import PATIENCE, ExtractionProcess
from simstream.text.extraction.slow_hosts import REST_S, SlowHosts
from simstream.text.extraction.worker import ExtractionRequest, versions
from simstream.utf8_html import Utf8Html

TIMEOUT_S: Final = 2.0
"""Seconds of CPU that a page may cost by default."""
MEMORY_BYTES: Final = 512 << 20
"""Bytes of memory that one process may take by default: more than ten times the need of 4 MB of HTML."""
BATCH_PAGES: Final = 16
BATCH_BYTES: Final = 1 << 20
"""The most pages, and bytes, of one request to a process; one page always fits."""
Item = tuple[bytes | str, str]


class ExtractionPool(Closing):
    """Extracts batches of pages in up to `workers` processes; with 0 in this process, without protection.

    It refuses too costly HTML before it parses it (`extraction/refused_html`). The processes start at the first
    HTML, in about 0.1 s each. A page is `extract_failed` if it takes more than `timeout` seconds of CPU, or kills
    its process twice. A process has `memory_bytes` of address space. With a `clock`, pages of hosts with repeated
    failures are set aside for a while (`extraction/slow_hosts`). If no process can be started, no page fails: it
    tries again for half a minute. Holds one batch and its results for each worker, besides the caller's own.
    Thread-safe. A forked process has processes of its own.
    """

    def __init__(
        self,
        workers: int = 1,
        timeout: float = TIMEOUT_S,
        memory_bytes: int = MEMORY_BYTES,
        clock: Callable[[], float] | None = None,
    ) -> None:
        self._timeout = timeout
        self._late = f"the extraction took longer than {timeout:g} seconds"
        self._slow = SlowHosts(clock) if clock is not None else None
        self._count = workers
        self._new_process = partial(ExtractionProcess, timeout, memory_bytes, versions() if workers else "")
        self._closed = threading.Event()
        self._set_aside = 0
        self._begin()
        _pools.add(self)

    def _begin(self) -> None:
        """Begin with processes that have not started. Those before a fork, and their sockets, are the parent's."""
        self._idle: queue.SimpleQueue[ExtractionProcess] = queue.SimpleQueue()
        self._workers = [self._new_process() for _ in range(self._count)]
        for worker in self._workers:
            self._idle.put(worker)
        self._threads = ThreadPoolExecutor(self._count, "extract") if self._count > 1 else None
        self._counting = threading.Lock()

    @property
    def set_aside(self) -> int:
        """Return how many pages were not tried, because of their host."""
        return self._set_aside

    def extract(self, items: Sequence[Item], urls: Sequence[str | None] | None = None) -> list[ExtractedText]:
        """Return the text of each (raw, content_type), in order.

        `urls`, one for each item, name the hosts. Raises ExtractionNotStarted, and ValueError if the pool is closed
        before or during the call.
        """
        self._refuse_closed()
        urls = [None] * len(items) if urls is None else urls
        batches = [
            _ExtractionBatch(items[start:end], urls[start:end])
            for start, end in _batches(items, max(1, len(self._workers)))
        ]
        if self._threads is None or len(batches) < 2:
            done = [self._answer(batch) for batch in batches]
        else:
            try:
                done = list(self._threads.map(self._answer, batches))
            except (CancelledError, RuntimeError) as error:  # `close` has cancelled a batch, or ended the threads
                self._refuse_closed()
                if not takes_no_more(error):
                    raise
                done = [self._answer(batch) for batch in batches]
        return [found for some in done for found in some]

    def pids(self) -> list[int]:
        """Return the pids of the running processes."""
        return [pid for worker in self._workers if (pid := worker.pid)]

    def close(self) -> None:
        """End the processes. Pages in work get no answer. May be called twice."""
        self._closed.set()
        for worker in self._workers:
            worker.end()
        if self._threads is not None:
            self._threads.shutdown(wait=True, cancel_futures=True)

    def _refuse_closed(self) -> None:
        if self._closed.is_set():
            raise ValueError("the extraction pool is closed")

    def _answer(self, batch: _ExtractionBatch) -> list[ExtractedText]:
        """Answer the pages that need no process, and ask a process for the rest."""
        for i, (raw, content_type) in enumerate(batch.items):
            if is_plain(content_type):
                batch.done[i] = _guarded(raw, content_type)
            elif self._rests(batch.urls[i]):
                self._put_aside(batch, i)
            else:
                request = _request(raw, content_type)
                if isinstance(request, ExtractedText):
                    batch.done[i] = request
                elif self._workers:
                    batch.asked[i] = request
                else:
                    batch.done[i] = _guarded(raw, content_type)
        if batch.asked:
            worker = self._idle.get()
            try:
                self._ask(worker, batch)
            finally:
                self._idle.put(worker)
        return [found for found in batch.done if found is not None]

    def _ask(self, worker: ExtractionProcess, batch: _ExtractionBatch) -> None:
        """Ask until all pages are answered. After a failure only the page in work can be at fault.

        This page is tried once more, unless its CPU time is over: other programs may kill or freeze a process, but
        hardly twice.
        """
        suspect = -1
        while failure := self._exchange(worker, batch):
            self._refuse_closed()  # the pages are not at fault
            page = next(iter(batch.asked))
            if failure == self._late or page == suspect:
                self._fail(batch, page, failure)
                self._note_failure(batch, page)
            else:
                suspect = page

    def _exchange(self, worker: ExtractionProcess, batch: _ExtractionBatch) -> str:
        """Send the pages, and take the answers as they come. Return "" if all have come, else what is wrong."""
        if not batch.asked:
            return ""
        try:
            worker.start()
            for i, found in zip(list(batch.asked), worker.ask(list(batch.asked.values())), strict=True):
                batch.done[i] = found
                del batch.asked[i]
        except TimeoutError:
            worker.stop()
            return f"the extraction gave no answer for {PATIENCE * self._timeout:g} seconds"
        except (OSError, ValueError):  # ValueError: another thread closed it, or its answer is invalid
            code = worker.stop()
            return (
                self._late
                if code == -signal.SIGPROF
                else f"the extraction process died on this page (exit code {code})"
            )
        return ""

    def _fail(self, batch: _ExtractionBatch, page: int, detail: str) -> None:
        del batch.asked[page]
        batch.done[page] = ExtractedText(None, "extract_failed", detail)

    def _note_failure(self, batch: _ExtractionBatch, page: int) -> None:
        """Count the failure for the page's host. Other pages of the batch may then stay untried."""
        if self._slow is None:
            return
        self._slow.failed(batch.urls[page])
        for i in list(batch.asked):
            if self._rests(batch.urls[i]):
                del batch.asked[i]
                self._put_aside(batch, i)

    def _rests(self, url: str | None) -> bool:
        return self._slow is not None and self._slow.rests(url)

    def _put_aside(self, batch: _ExtractionBatch, page: int) -> None:
        what = f"pages of its host took too long again and again; they are tried again within {REST_S:g} seconds"
        batch.done[page] = ExtractedText(None, "extract_failed", what)
        with self._counting:
            self._set_aside += 1


_pools: weakref.WeakSet[ExtractionPool] = weakref.WeakSet()


def _begin_in_fork() -> None:
    for pool in list(_pools):
        pool._begin()


os.register_at_fork(after_in_child=_begin_in_fork)


class _ExtractionBatch:
    """Pages of one exchange. In the end `done` has an answer for each; `asked` has the pages without an answer."""

    def __init__(self, items: Sequence[Item], urls: Sequence[str | None]) -> None:
        self.items = items
        self.urls = urls
        self.done: list[ExtractedText | None] = [None] * len(items)
        self.asked: dict[int, ExtractionRequest] = {}


def _batches(items: Sequence[Item], workers: int) -> Iterator[tuple[int, int]]:
    """Yield where batches begin and end. They are small enough to give every process two."""
    most = max(1, min(BATCH_PAGES, -(-len(items) // (2 * workers))))
    start, size = 0, 0
    for i, (raw, _) in enumerate(items):
        if i > start and (i - start == most or size + len(raw) > BATCH_BYTES):
            yield start, i
            start, size = i, 0
        size += len(raw)
    if items:
        yield start, len(items)


def _request(raw: bytes | str, content_type: str) -> ExtractionRequest | ExtractedText:
    """Return the request to a process for this HTML, or why the HTML is refused."""
    from simstream.text.decode import charset_of, decode, is_ascii_based
    from simstream.text.extraction.refused_html import refusal

    if not isinstance(raw, str | Utf8Html) and not is_ascii_based(raw, charset_of(content_type)):
        if binary := refused_binary(raw):
            return binary
        raw, _ = decode(raw, charset_of(content_type), is_html=True)
    is_text = isinstance(raw, str | Utf8Html)
    body = raw.encode("utf-8", "surrogatepass") if isinstance(raw, str) else raw
    if refused := refusal(body):
        binary = None if is_text else refused_binary(body)
        return binary or ExtractedText(None, "extract_failed", refused)
    return ExtractionRequest(body, is_text, content_type)


def _guarded(raw: bytes | str, content_type: str) -> ExtractedText:
    try:
        return extract_one(raw, content_type)
    except MemoryError:
        return OUT_OF_MEMORY
