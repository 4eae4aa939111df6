"""Metrics and health of a running service."""

from __future__ import annotations

import json
import socket
from collections import Counter
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.e2e import pages
from tests.e2e.harness import Program, by_ordinal, watching

HOSTILE = (b"", b"GET /metrics HT", b"GET / HTTP/1.1\r\nX: ", b"\x16\x03\x01\x02", b"POST / HTTP/1.1\r\nA: b\r\n")
"""Beginnings of requests."""


def test_the_counters_agree_with_what_was_fed(program: Program, tmp_path: Path) -> None:
    program.good("topics", "create", "--partitions", 2)
    program.good("feed", pages.write(tmp_path / "pages.jsonl", 400))
    with program.place.open() as log, watching(log) as watcher, program.serve() as service:
        watcher.wait(400, service)
        service.until(lambda: service.metric("simstream_source_lag_pages") == 0, "no lag is left")
        kinds = Counter(json.loads(value)["verdict"] for value in by_ordinal(watcher.rest()))
        assert service.metric("simstream_pages_consumed_total") == 400
        for kind in ("new", "near_duplicate", "unchanged", "too_short", "unreadable", "withdrawn"):
            assert service.metric(f'simstream_verdicts_total{{verdict="{kind}"}}') == kinds[kind]
        text = service.get("/metrics")[1]
        dead = sum(
            float(line.split()[-1])
            for line in text.splitlines()
            if line.startswith("simstream_dead_letters_total{")
        )
        assert dead == kinds["unreadable"] > 0
        assert f'simstream_frames_ignored_total{{prefix="{program.place.prefix}",reason="damaged"}} 0.0' in text
        assert service.metric('simstream_batch_seconds_count{stage="judge"}') > 0
        for latency in ("frame", "verdict", "end_to_end"):
            name = f"simstream_{latency}_latency_seconds_count"
            service.until(lambda name=name: service.metric(name) == 400, "every page's latency is measured")
        assert service.metric("simstream_hamming_distance_count") == kinds["near_duplicate"] > 0
        assert service.metric("simstream_similarity_ratio_count") == kinds["near_duplicate"]
        assert service.metric("simstream_next_ordinal") == 400
        service.until(
            lambda: service.metric("simstream_published_position") == service.metric("simstream_log_position") > 0,
            "it says that all is published",
        )
        service.until(lambda: service.metric("simstream_index_entries") > 0, "what is held was looked at")
        assert service.metric('simstream_transactions_total{result="committed"}') > 0
        assert service.metric("simstream_ready") == 1


def test_a_spike_of_error_pages_is_named_in_the_log_and_measured_without_its_id(
    on_folder: Program, tmp_path: Path
) -> None:
    error = "Sorry, the page that you asked for cannot be shown now. Please try again later or call our service."
    spike = [json.dumps({"id": f"error{i}", "text": error}) for i in range(45)]
    ordinary = pages.write(tmp_path / "pages.jsonl", 100).read_text(encoding="utf-8").splitlines()
    mixed = tmp_path / "mixed.jsonl"
    mixed.write_text("\n".join([*ordinary[:50], *spike, *ordinary[50:]]), encoding="utf-8")
    alert = {"SIMSTREAM_CLUSTER_ALERT_PAGES": "20", "SIMSTREAM_FRAME_MAX_PAGES": "5"}
    on_folder.good("topics", "create", "--partitions", 1)
    on_folder.good("feed", mixed)
    with on_folder.place.open() as log, watching(log) as watcher:
        with on_folder.serve(**alert) as service:
            watcher.wait(145, service)
            service.until(lambda: service.metric("simstream_largest_cluster_pages") == 45, "the spike is measured")
            share = 45 / service.metric("simstream_live_pages")
            assert abs(service.metric("simstream_largest_cluster_ratio") - share) < 1e-9
            assert "error0" not in service.get("/metrics")[1]
            lines = [line for line in service.output.splitlines() if "has grown to" in line]
            assert 1 <= len(lines) <= 2, "at 20 and at 40 pages, or once where both came in one poll"
            assert all("its oldest is 'error0'" in line for line in lines)
            assert service.end() == 0
        with on_folder.serve(**alert) as service:
            service.until(lambda: "replayed" in service.output, "it goes on")
            service.ready()
            [line] = [line for line in service.output.splitlines() if "has grown to" in line]
            assert "45 pages" in line


def test_health_says_when_it_is_ready_and_pages_stay_out_of_it(program: Program) -> None:
    program.good("topics", "create", "--partitions", 1)
    with program.serve() as service:
        assert service.get("/health/live")[0] == 200
        service.ready()
        assert service.get("/health/ready") == (200, "ready\n")
        assert service.get("/")[0] == 404


def test_a_port_that_is_taken_is_a_usage_error_in_one_line(on_folder: Program) -> None:
    on_folder.good("topics", "create")
    with on_folder.serve() as service:
        done = on_folder.on_log("serve", "--http-port", service.port)
    assert done.returncode == 2
    assert done.stderr.decode().splitlines()[-1].startswith(f"simstream: port {service.port} on 127.0.0.1")


def test_hostile_clients_cost_neither_probes_nor_verdicts(on_folder: Program, tmp_path: Path) -> None:
    on_folder.good("topics", "create", "--partitions", 1)
    on_folder.good("feed", pages.write(tmp_path / "pages.jsonl", 60))
    with on_folder.place.open() as log, watching(log) as watcher, on_folder.serve() as service:
        with ExitStack() as held:
            for number in range(150):  # more than it serves at once: none of them ever ends its request
                wire = held.enter_context(socket.create_connection(("127.0.0.1", service.port), timeout=30))
                wire.sendall(HOSTILE[number % len(HOSTILE)])
            assert service.get("/health/live")[0] == 200
            watcher.wait(60, service)
            service.ready()
            known = json.loads(watcher.records[0].value or b"")
            for path in ("/metrics", "/health", "/", f"/{known['id']}", "/health/../metrics"):
                text = service.get(path)[1]
                assert known["id"] not in text
                assert str(known["fingerprint"]) not in text
        with pytest.raises(ConnectionRefusedError):  # who listens everywhere would listen here, too
            socket.create_connection(("127.0.0.2", service.port), timeout=30)
        assert service.end() == 0
        assert "Traceback" not in service.output
