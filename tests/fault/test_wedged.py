"""A loop that no longer turns fails liveness, and so can be started again by whoever looks after the process."""

from __future__ import annotations

import os
from pathlib import Path

from tests.e2e.harness import Program
from tests.kafka_fixtures import Place


def test_a_wedged_loop_fails_liveness_and_started_again_it_is_live(tmp_path: Path, cache: Path) -> None:
    """Both roles of a real process are caught in a file that gives no answer: a pipe that nobody writes into
    has taken the place of the log's catalogue, as a file system that hangs would."""
    place = Place(str(tmp_path / "log"), "simstream")
    program = Program(tmp_path, cache, place)
    program.good("topics", "create")
    catalog = tmp_path / "log" / "topics.json"
    content = catalog.read_bytes()
    with program.serve(SIMSTREAM_STUCK_AFTER="2s") as service:
        assert service.get("/health/started")[0] in (200, 503)
        service.ready()
        assert service.get("/health/started") == (200, "started\n")
        assert service.get("/health/live") == (200, "live\n")

        pipe = tmp_path / "pipe"
        os.mkfifo(pipe)
        pipe.replace(catalog)
        both = (503, "stuck: fingerprint, judge\n")
        service.until(lambda: service.get("/health/live") == both, "the wedged loops are noticed")
        assert service.get("/health/ready")[0] == 503
        assert service.get("/health/started")[0] == 200, "it did start"

        whole = tmp_path / "whole"
        whole.write_bytes(content)
        whole.replace(catalog)
        service.kill()  # as a supervisor of processes does that has asked for liveness
    with program.serve() as service:
        service.ready()
        assert service.get("/health/live") == (200, "live\n")
