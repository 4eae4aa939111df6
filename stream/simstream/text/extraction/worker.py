"""Runs in an extraction process: its program, and its protocol over a socket.

It is a new interpreter, never a fork, because its owner has threads and Kafka clients. A request has some pages,
and each page gets an answer as soon as it is done. Neither side executes anything from the other: a page that takes
over this process gains no more. `extraction/process` starts it, with the socket's descriptor, the limit of its
memory in bytes, the seconds of CPU for a page, and the owner's versions. It imports what lies on the disk now. If
that was upgraded under the owner, it says so and ends: other code must not work under the owner's recipe id.
"""

from __future__ import annotations

import os
import resource
import signal
import socket
import struct
import sys
from collections.abc import Sequence
from typing import BinaryIO, NamedTuple

from simstream.text.extraction.extract import ExtractedText, extract_one
from simstream.version import __version__

READY = b"\x01"
"""The bytes that the process sends once it is ready."""
OTHER_VERSION = b"\x02"
"""The bytes that the process sends instead if its versions are not those of the owner."""
_COUNT = struct.Struct("<I")
_PAGE = struct.Struct("<IIB")
_ANSWER = struct.Struct("<iII")
_OUT_OF_MEMORY = 3


class ExtractionRequest(NamedTuple):
    """One page on its way: its bytes as fetched, or with `is_text` UTF-8 that may have lone surrogates."""

    body: bytes
    is_text: bool
    content_type: str


def send_requests(to: socket.socket, pages: Sequence[ExtractionRequest]) -> None:
    """Send some pages at once."""
    parts = [_COUNT.pack(len(pages))]
    for page in pages:
        kind = page.content_type.encode()
        parts += _PAGE.pack(len(kind), len(page.body), page.is_text), kind, page.body
    to.sendall(b"".join(parts))


def receive_answer(source: BinaryIO) -> ExtractedText:
    """Wait for the next page's answer, and return it. Raises OSError if the other side is gone or late."""
    text_size, reason_size, detail_size = _ANSWER.unpack(_exactly(source, _ANSWER.size))
    text = _exactly(source, text_size).decode() if text_size >= 0 else None
    if not reason_size:
        return ExtractedText(text)
    return ExtractedText(text, _exactly(source, reason_size).decode(), _exactly(source, detail_size).decode())


def versions() -> str:
    """Return the versions of what a text depends on, as they are installed now."""
    from importlib import metadata  # an import of 20 ms

    try:
        return f"simstream {__version__}, resiliparse {metadata.version('resiliparse')}"
    except metadata.PackageNotFoundError:
        return f"simstream {__version__}"


def main() -> None:
    """Answer requests until the owner closes its end or dies."""
    descriptor, memory_bytes, timeout = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with socket.socket(fileno=descriptor) as owner, owner.makefile("rb") as source:
        if versions() != sys.argv[4]:
            owner.sendall(OTHER_VERSION)
            return
        owner.sendall(READY)
        try:
            while True:
                for raw, content_type in _receive_requests(source):
                    # Ends the process, even if the owner is dead. Only this process's CPU time counts.
                    signal.setitimer(signal.ITIMER_PROF, timeout)
                    answer = _answer(extract_one(raw, content_type))
                    signal.setitimer(signal.ITIMER_PROF, 0)
                    owner.sendall(answer)
        except OSError:
            return
        except MemoryError:
            os._exit(_OUT_OF_MEMORY)  # after this error the heap cannot be trusted


def _receive_requests(source: BinaryIO) -> list[tuple[bytes | str, str]]:
    """Return all requests before work on the first: an owner that still sends would not read the answer."""
    (count,) = _COUNT.unpack(_exactly(source, _COUNT.size))
    pages: list[tuple[bytes | str, str]] = []
    for _ in range(count):
        kind_size, body_size, is_text = _PAGE.unpack(_exactly(source, _PAGE.size))
        content_type = _exactly(source, kind_size).decode()
        body = _exactly(source, body_size)
        pages.append((body.decode("utf-8", "surrogatepass") if is_text else body, content_type))
    return pages


def _answer(extracted: ExtractedText) -> bytes:
    text = None if extracted.text is None else extracted.text.encode("utf-8", "replace")
    reason, detail = extracted.reason.encode(), extracted.detail.encode("utf-8", "replace")
    head = _ANSWER.pack(-1 if text is None else len(text), len(reason), len(detail))
    return head + (text or b"") + reason + detail


def _exactly(source: BinaryIO, size: int) -> bytes:
    data = source.read(size)
    if len(data) < size:
        raise ConnectionResetError("the other side closed the socket")
    return data
