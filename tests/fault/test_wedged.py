"""A loop that no longer turns fails liveness, and so can be started again by whoever looks after the process.

What is started again here writes its log as JSON: every line of it is an event.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

from tests.e2e.harness import Program
from tests.kafka_fixtures import TopicPlace


def test_a_wedged_loop_fails_liveness_and_started_again_it_is_live(tmp_path: Path, cache: Path) -> None:
    """Both roles of a real process wait for a file that never answers. A pipe without a writer takes the place of
    the log's catalogue, as on a file system that hangs."""
    place = TopicPlace(str(tmp_path / "log"), "simstream")
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
    with program.serve(SIMSTREAM_LOG_FORMAT="json") as service:
        service.until(lambda: service.get("/health/ready")[0] == 200, "it is ready")
        assert service.get("/health/live") == (200, "live\n")
        busy = program.on_log("serve", "--roles", "fingerprint", "--http-port", 0, SIMSTREAM_LOG_FORMAT="json")
        assert busy.returncode == 1
        assert service.end() == 0
    for said in (service.output, busy.stderr.decode()):
        events = [json.loads(line) for line in said.splitlines()]
        assert all({"time", "level", "logger", "message"} <= event.keys() for event in events)
    assert events[-1]["level"] == "error", "an error that ends the command is an event, too"
