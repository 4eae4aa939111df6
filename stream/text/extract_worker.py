"""The process that takes HTML apart, and the few bytes that it and its owner speak over a socket.

It is a fresh interpreter, never a fork: its owner has threads and Kafka clients. A request is one page, an answer
one result; nothing in either is ever executed, so a page that gets hold of this process gains nothing beyond it.
Started by `stream.text.extract.ExtractionPool`, with the socket's descriptor, the limit of its memory in bytes
and the seconds that a page may take.
"""

from __future__ import annotations

import os
import resource
import signal
import socket
import struct
import sys

from stream.text.extract import Extracted, extract_one

_REQUEST = struct.Struct("<IIB")
_ANSWER = struct.Struct("<iII")
_OUT_OF_MEMORY = 3


def send_request(to: socket.socket, raw: bytes | str, content_type: str) -> None:
    """Send one page; lone surrogates of a str arrive as they are."""
    body = raw if isinstance(raw, bytes) else raw.encode("utf-8", "surrogatepass")
    kind = content_type.encode()
    to.sendall(_REQUEST.pack(len(kind), len(body), isinstance(raw, str)) + kind + body)


def receive_answer(source: socket.socket) -> Extracted:
    """Wait for the answer; raises OSError where the other side is gone or late."""
    text_size, reason_size, detail_size = _ANSWER.unpack(_exactly(source, _ANSWER.size))
    text = _exactly(source, text_size).decode() if text_size >= 0 else None
    return Extracted(text, _exactly(source, reason_size).decode(), _exactly(source, detail_size).decode())


def main() -> None:
    """Answer requests until the owner closes its end or dies."""
    descriptor, memory_bytes, timeout = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with socket.socket(fileno=descriptor) as owner:
        while True:
            try:
                raw, content_type = _receive_request(owner)
            except OSError:
                return
            # The owner kills a worker that hangs; the alarm does where the owner itself is dead.
            signal.setitimer(signal.ITIMER_REAL, timeout + 10)
            try:
                answer = extract_one(raw, content_type)
            except MemoryError:
                os._exit(_OUT_OF_MEMORY)  # what is left of this heap is nobody's to judge
            signal.setitimer(signal.ITIMER_REAL, 0)
            _send_answer(owner, answer)


def _receive_request(owner: socket.socket) -> tuple[bytes | str, str]:
    kind_size, body_size, is_text = _REQUEST.unpack(_exactly(owner, _REQUEST.size))
    content_type = _exactly(owner, kind_size).decode()
    body = _exactly(owner, body_size)
    return (body.decode("utf-8", "surrogatepass") if is_text else body), content_type


def _send_answer(owner: socket.socket, answer: Extracted) -> None:
    text = None if answer.text is None else answer.text.encode("utf-8", "replace")
    reason, detail = answer.reason.encode(), answer.detail.encode("utf-8", "replace")
    head = _ANSWER.pack(-1 if text is None else len(text), len(reason), len(detail))
    owner.sendall(head + (text or b"") + reason + detail)


def _exactly(source: socket.socket, size: int) -> bytes:
    buffer = bytearray(size)
    view, filled = memoryview(buffer), 0
    while filled < size:
        got = source.recv_into(view[filled:])
        if got == 0:
            raise ConnectionResetError("the other side closed the socket")
        filled += got
    return bytes(buffer)
