"""Main content: from a page as fetched to the text that is compared.

HTML goes through resiliparse, whose parser holds the GIL and reads what strangers wrote: `ExtractionPool` does it
in processes of their own, so that a page which kills or hangs its process costs itself and nothing else.
"""

from __future__ import annotations

import json
import queue
import re
import subprocess
import sys
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from socket import socketpair
from typing import NamedTuple

from stream.closing import Closing

NEARLY_EMPTY = 64
"""Main content of fewer characters than this, spaces aside, gives way to the text of the whole page."""

_MAGIC = (
    (b"%PDF-", "PDF"),
    (b"\x89PNG", "PNG"),
    (b"PK\x03\x04", "ZIP"),
    (b"\xff\xd8\xff", "JPEG"),
    (b"GIF8", "GIF"),
    (b"\x1f\x8b", "gzip"),
    (b"\x28\xb5\x2f\xfd", "Zstandard"),
    (b"\xfd7zXZ\x00", "xz"),
    (b"\x7fELF", "ELF"),
    (b"Rar!\x1a", "RAR"),
    (b"7z\xbc\xaf", "7z"),
    (b"wOFF", "a font"),
    (b"wOF2", "a font"),
    (b"\x00\x00\x01\x00", "an icon"),
)
_CONTROLS = bytes(byte for byte in range(32) if byte not in b"\t\n\f\r\x1b") + b"\x7f"
_SPACES = re.compile(r"\s+")
_BOOT = "import json,sys;sys.path[:]=json.loads(sys.argv.pop());from stream.text.extract_worker import main;main()"


class Extracted(NamedTuple):
    """`text` is None where there is none to be had; `reason` (one of REASONS) and `detail` then say why."""

    text: str | None
    reason: str = ""
    detail: str = ""


def extract_one(raw: bytes | str, content_type: str) -> Extracted:
    """The text of one page, in this process; `content_type` may carry the HTTP charset.

    `text/plain` is only decoded. Raises MemoryError and nothing else. About 1 ms for 100 KB of HTML.
    """
    is_html = not content_type.lower().startswith("text/plain")
    if isinstance(raw, str):
        text = raw
    else:
        from stream.text.decode import charset_of, decode  # 10 ms of import that JSON text does not need

        what = _binary(raw)
        if what:
            return Extracted(None, "binary", f"the value is not text but {what}")
        text, _ = decode(raw, charset_of(content_type), is_html)
    return _main_content(text) if is_html else Extracted(text)


def _main_content(html: str) -> Extracted:
    from resiliparse.extract.html2text import extract_plain_text

    try:
        html = html.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace").replace("\x00", "\ufffd")
        text = extract_plain_text(html, main_content=True, comments=False, list_bullets=False, alt_texts=False)
        if len(_SPACES.sub("", text)) < NEARLY_EMPTY:
            whole = extract_plain_text(html, list_bullets=False, alt_texts=False)
            text = max(text, whole, key=len)
    except MemoryError:
        raise
    except Exception as error:  # noqa: BLE001 - whatever a foreign parser raises costs this page only
        return Extracted(None, "extract_failed", f"the HTML could not be read ({type(error).__name__}: {error})")
    return Extracted(text)


def _binary(raw: bytes) -> str:
    """What the bytes are if they are no text; empty if they are, in whatever character set."""
    for magic, name in _MAGIC:
        if raw.startswith(magic):
            return name
    if raw[:4] == b"RIFF" and raw[8:12] in (b"WEBP", b"WAVE", b"AVI "):
        return "RIFF media"
    head = raw[:4096]
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):
        return ""
    nuls = head.count(0)
    controls = len(head) - len(head.translate(None, _CONTROLS)) - nuls
    if controls * 10 > len(head) or (nuls * 10 > len(head) and not _like_utf16(head)):
        return "binary data"
    return ""


def _like_utf16(head: bytes) -> bool:
    """NULs in every other place only: the high halves of ASCII characters."""
    even, odd = head[0::2].count(0), head[1::2].count(0)
    return min(even, odd) * 20 <= max(even, odd)


class ExtractionPool(Closing):
    """Extracts batches of pages in up to `workers` processes; 0 means in this one, without any protection.

    Processes start when the first HTML comes (about 0.1 s each). One that takes longer than `timeout` seconds
    for a page, or dies twice over it (also for want of `memory_bytes` of address space), costs that page:
    `extract_failed`. Holds one page and one result a worker, beside the caller's own batch. Thread-safe.
    """

    def __init__(self, workers: int = 1, timeout: float = 20.0, memory_bytes: int = 2 << 30) -> None:
        self._timeout = timeout
        self._memory_bytes = memory_bytes
        self._idle: queue.SimpleQueue[_Worker] = queue.SimpleQueue()
        self._workers = [_Worker(timeout, memory_bytes) for _ in range(workers)]
        for worker in self._workers:
            self._idle.put(worker)
        self._threads = ThreadPoolExecutor(workers, "extract") if workers > 1 else None
        self._closed = threading.Event()

    def extract(self, items: Sequence[tuple[bytes | str, str]]) -> list[Extracted]:
        """The text of each (raw, content_type), in order. Raises ValueError once the pool is closed."""
        if self._closed.is_set():
            raise ValueError("the extraction pool is closed")
        if self._threads is None or len(items) < 2:
            return [self._one(raw, content_type) for raw, content_type in items]
        return list(self._threads.map(self._one, *zip(*items, strict=True)))

    def pids(self) -> list[int]:
        """The processes that run now."""
        return [pid for worker in self._workers if (pid := worker.pid)]

    def close(self) -> None:
        """End the processes; what is being extracted comes to `extract_failed`. May be called twice."""
        self._closed.set()
        for worker in self._workers:
            worker.stop()
        if self._threads is not None:
            self._threads.shutdown(wait=True, cancel_futures=True)
        for worker in self._workers:  # one may have been started between the two
            worker.stop()

    def _one(self, raw: bytes | str, content_type: str) -> Extracted:
        if not self._workers or content_type.lower().startswith("text/plain"):
            return _guarded(raw, content_type)
        worker = self._idle.get()
        try:
            return self._asked(worker, raw, content_type)
        finally:
            self._idle.put(worker)

    def _asked(self, worker: _Worker, raw: bytes | str, content_type: str) -> Extracted:
        """Ask twice: the first death may have been somebody else's doing, the second was the page's."""
        code = None
        for _ in range(2):
            if self._closed.is_set():
                return Extracted(None, "extract_failed", "the extraction was stopped")
            try:
                return worker.ask(raw, content_type)
            except TimeoutError:
                worker.stop()
                what = f"the extraction took longer than {self._timeout:g} seconds"
                return Extracted(None, "extract_failed", what)
            except OSError:
                code = worker.stop()
        return Extracted(None, "extract_failed", f"the extraction process died of it (exit code {code})")


def _guarded(raw: bytes | str, content_type: str) -> Extracted:
    try:
        return extract_one(raw, content_type)
    except MemoryError:
        return Extracted(None, "extract_failed", "there was not enough memory for the page")


class _Worker:
    """One process and the socket to it; started when it is first asked. One caller at a time, but `stop`."""

    def __init__(self, timeout: float, memory_bytes: int) -> None:
        self._timeout = timeout
        self._memory_bytes = memory_bytes
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """0 where no process runs."""
        process = self._process
        return process.pid if process is not None else 0

    def ask(self, raw: bytes | str, content_type: str) -> Extracted:
        """One page's answer. Raises TimeoutError where it is late, another OSError where the process died."""
        from stream.text.extract_worker import receive_answer, send_request

        if self._process is None:
            self._start()
        self._socket.settimeout(self._timeout)
        send_request(self._socket, raw, content_type)
        return receive_answer(self._socket)

    def _start(self) -> None:
        self._socket, theirs = socketpair()
        with theirs:
            numbers = [str(theirs.fileno()), str(self._memory_bytes), str(self._timeout)]
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-c", _BOOT, *numbers, json.dumps(sys.path)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                process_group=0,  # a Ctrl-C is the owner's affair
            )

    def stop(self) -> int | None:
        """Kill the process if there is one; returns its exit code."""
        process, self._process = self._process, None
        if process is None:
            return None
        process.kill()
        self._socket.close()
        return process.wait()
