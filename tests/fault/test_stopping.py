"""SIGTERM, and what a restart makes of it."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from simstream.log.options import FINGERPRINTS
from simstream.wire import frame as frame_format
from tests.e2e.harness import Program, by_ordinal, environment, read_topic, watching

HANGING = """
import sys, threading
from simstream.cli import serve
from simstream.cli.main import invoke
from simstream.interrupts import keep_interrupts
from simstream.telemetry.http import HttpServer

keep_interrupts()
serve.CLOSING_S = 0.5
HttpServer.close = lambda _: threading.Event().wait()
invoke(["serve", "--log", sys.argv[1], "--http-port", "0"])
"""
LOSING = """
import sys, time
from simstream.cli import serve
from simstream.cli.main import invoke
from simstream.interrupts import keep_interrupts

def lose(*_):
    try:
        print("losing", file=sys.stderr, flush=True)
        time.sleep(600)
    except KeyboardInterrupt:
        pass

keep_interrupts()
serve._refuse_missing_topic = lose
invoke(["serve", "--log", sys.argv[1], "--http-port", "0"])
"""
HTTP_LINE = "metrics and health on"


def test_sigterm_ends_the_service_with_0_and_a_restart_goes_on_without_a_double(program: Program) -> None:
    stop_and_go_on(program, signal.SIGTERM)


@pytest.mark.long
def test_ctrl_c_ends_the_service_as_sigterm_does(on_folder: Program) -> None:
    stop_and_go_on(on_folder, signal.SIGINT)


def stop_and_go_on(program: Program, how: signal.Signals) -> None:
    program.good("topics", "create", "--partitions", 2)
    program.feed(20_000)
    small = {"SIMSTREAM_FRAME_MAX_PAGES": "25", "SIMSTREAM_STOP_TIMEOUT": "10s"}
    with program.place.open() as log, watching(log) as watcher:
        with program.serve(**small) as service:
            watcher.wait(50, service)
            began = time.monotonic()
            assert service.end(how) == 0
            assert time.monotonic() - began < 25
            assert "Traceback" not in service.output
        stopped_at = len(watcher.rest())
        frames = len(read_topic(log, FINGERPRINTS))
        # The fingerprinter may have been through all of it before the judge's first verdict was seen.
        program.feed(500)
        with program.serve(**small) as service:
            watcher.wait(20_500, service)
            assert service.end() == 0
        assert stopped_at < 20_000
        assert len(by_ordinal(watcher.rest())) == 20_500
        # What had been written was committed, so nothing was fingerprinted twice.
        written = [frame_format.decode(record.value or b"").header for record in read_topic(log, FINGERPRINTS)]
        ends = {0: 0, 1: 0}
        for header in written:
            assert header.start == ends[header.partition]
            ends[header.partition] = header.to
        assert len(written) > frames


def test_a_service_that_waits_for_pages_ends_at_once(program: Program) -> None:
    program.good("topics", "create", "--partitions", 1)
    with program.serve() as service:
        service.ready()
        began = time.monotonic()
        assert service.end() == 0
        assert time.monotonic() - began < 9.5


def test_a_service_that_is_still_starting_ends_with_0_too(program: Program) -> None:
    program.good("topics", "create", "--partitions", 1)
    with program.serve() as service:
        assert service.port
        assert service.end() == 0
        assert "Traceback" not in service.output


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_a_service_while_it_compiles_its_kernels(
    on_folder: Program, tmp_path: Path, number: signal.Signals
) -> None:
    on_folder.good("topics", "create")
    with on_folder.serve(NUMBA_CACHE_DIR=str(tmp_path / "kernels")) as service:
        assert service.port
        service.until(lambda: any((tmp_path / "kernels").rglob("*.nbi")), "a kernel is compiled")
        began = time.monotonic()
        assert service.end(number) == 0
        assert time.monotonic() - began < 10, "nothing is read yet, so there is nothing to wait for"
        assert service.output.splitlines()[-1].endswith("ended before any role began")
        assert "Traceback" not in service.output


@pytest.mark.parametrize("after", [HTTP_LINE, "simstream.judge: "])
def test_a_service_whose_libraries_hang_at_the_end_ends_all_the_same(
    on_folder: Program, cache: Path, after: str
) -> None:
    on_folder.good("topics", "create")
    assert "the service does not end within 0.5 s" in last_line_of(HANGING, on_folder, cache, after)


def test_a_service_ends_at_its_start_even_if_a_library_drops_the_interrupt(on_folder: Program, cache: Path) -> None:
    on_folder.good("topics", "create")
    assert last_line_of(LOSING, on_folder, cache, "losing").endswith("ended before any role began")


def last_line_of(code: str, program: Program, cache: Path, after: str) -> str:
    """Run a service until it says `after`, end it by SIGTERM, and return the last line that it says."""
    line = [sys.executable, "-c", code, program.place.address]
    with subprocess.Popen(line, env=environment(cache), stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        try:
            while after not in process.stderr.readline():
                assert process.poll() is None
            process.send_signal(signal.SIGTERM)
            assert process.wait(120) == 0
            return process.stderr.read().splitlines()[-1]
        finally:
            process.kill()
