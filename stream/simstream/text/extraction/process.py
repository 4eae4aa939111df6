"""Starts, asks and stops one extraction process. This is the owner's side."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from socket import socketpair
from typing import Final

from simstream.errors import ExtractionNotStarted
from simstream.text.extraction.extract import ExtractedText
from simstream.text.extraction.worker import (
    OTHER_VERSION,
    READY,
    ExtractionRequest,
    receive_answer,
    send_requests,
)

PATIENCE: Final = 5
"""A process without an answer for this many times a page's CPU time counts as dead."""
START_PATIENCE_S: Final = 30.0
"""The growing pauses, in seconds, after which a failed start is tried again."""
_FIRST_PAUSE_S, _MAX_PAUSE_S = 0.1, 5.0
_START_S = 60.0
_BOOT = (
    "import json,sys;sys.path[:]=json.loads(sys.argv.pop());"
    "from simstream.text.extraction.worker import main;main()"
)
_KEPT = dict.fromkeys(("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_"), str(32 << 20))
"""Settings of glibc's malloc. Without them a process returns its memory after each page and takes it again for the
next: a third of the time of a small page."""


class ExtractionProcess:
    """One process and the socket to it. Only `stop` and `end` are thread-safe."""

    def __init__(self, timeout: float, memory_bytes: int, versions: str) -> None:
        self._timeout = timeout
        self._memory_bytes = memory_bytes
        self._versions = versions
        self._process: subprocess.Popen[bytes] | None = None
        self._is_ready = False
        self._changing = threading.Lock()
        self._ended = threading.Event()

    @property
    def pid(self) -> int:
        """The process's pid; 0 if none is running."""
        process = self._process
        return process.pid if process is not None and self._is_ready else 0

    def start(self) -> None:
        """Start the process unless it runs. Raises ExtractionNotStarted, and OSError for a closed pool."""
        if self._process is not None:
            return
        if getattr(sys, "frozen", False):
            raise ExtractionNotStarted(
                f"{sys.executable} is a frozen program: it would start itself to extract HTML",
                'set workers (extract.workers) to 0, or use a recipe with extract = "fast"',
            )
        patience, pause = START_PATIENCE_S, _FIRST_PAUSE_S
        while True:
            try:
                self._start()
                return
            except OSError as error:
                code = self.stop()
                if self._ended.wait(pause):
                    raise
                if patience <= 0:
                    raise _not_started(error, code) from error
                patience -= START_PATIENCE_S if isinstance(error, TimeoutError) else pause
            pause = min(2 * pause, _MAX_PAUSE_S)

    def ask(self, pages: Sequence[ExtractionRequest]) -> Iterator[ExtractedText]:
        """Yield the pages' answers as they come. Raises TimeoutError if one is late, and another OSError if the
        process dies."""
        send_requests(self._socket, pages)
        for _ in pages:
            yield receive_answer(self._answers)

    def _start(self) -> None:
        """Start the process and wait until it is ready, so that the first page does not pay for the start. Raises
        OSError."""
        with self._changing:
            if self._ended.is_set():
                raise ConnectionAbortedError("the pool is closed")
            ours, theirs = socketpair()
            with theirs:
                try:
                    self._process = self._open(theirs.fileno())
                except OSError:
                    ours.close()
                    raise
            self._socket, self._answers = ours, ours.makefile("rb")
        self._socket.settimeout(_START_S)
        begins = self._answers.read(1)
        if begins == OTHER_VERSION:
            self.stop()
            raise ExtractionNotStarted(
                f"another version was installed while this process ran ({self._versions})",
                "start it again: only then all of it works by one version",
            )
        if begins != READY:
            raise ConnectionResetError("the process ended before it was asked")
        self._socket.settimeout(PATIENCE * self._timeout)
        self._is_ready = True

    def _open(self, descriptor: int) -> subprocess.Popen[bytes]:
        arguments = [str(descriptor), str(self._memory_bytes), str(self._timeout), self._versions]
        return subprocess.Popen(
            [sys.executable, "-P", "-c", _BOOT, *arguments, json.dumps(sys.path)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**os.environ, **_KEPT},
            pass_fds=[descriptor],
            process_group=0,  # the owner handles Ctrl-C
        )

    def stop(self) -> int | None:
        """Kill the process if there is one, and return its exit code."""
        with self._changing:
            process, self._process = self._process, None
            self._is_ready = False
            if process is None:
                return None
            process.kill()
            self._answers.close()
            self._socket.close()
            return process.wait()

    def end(self) -> None:
        """Kill the process, and never start another."""
        self._ended.set()
        self.stop()


def _not_started(error: OSError, code: int | None) -> ExtractionNotStarted:
    ended = "" if code is None else f", exit code {code}"
    return ExtractionNotStarted(
        f"no process that extracts HTML can be started ({error.strerror or error}{ended})",
        "raise the limit that is reached (file descriptors: `ulimit -n`; processes: `ulimit -u`; memory: "
        "`extract.memory_bytes`, for a Deduper `memory_bytes`), then start again",
    )
