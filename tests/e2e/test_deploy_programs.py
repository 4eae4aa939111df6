"""What `deploy` runs beside the service: the news page to look at, and the warming of kernels."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from deploy.server_process import free_port
from simstream.sources.demo import demo_records
from tests.e2e.harness import PATIENCE_S, ROOT, environment
from tests.kafka_fixtures import need_broker
from tests.waiting import until


def stories(port: int) -> dict[str, Any]:
    """What the page asks for; nothing while nobody answers."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/api/stories", timeout=10) as answer:
            found: dict[str, Any] = json.load(answer)
            return found
    except (urllib.error.URLError, OSError):
        return {}


@pytest.mark.kafka
@pytest.mark.long
def test_the_feed_demo_shows_replayed_pages_and_ends_on_request(cache: Path, tmp_path: Path) -> None:
    need_broker()
    port = free_port()
    command = [sys.executable, "-m", "deploy.feed_demo", "--speed", "500", "--http-port", str(port)]
    with (tmp_path / "said").open("wb") as said:
        process = subprocess.Popen(command, cwd=ROOT, env=environment(cache), stderr=said)
    try:
        least = len(list(demo_records())) // 4
        until(
            lambda: stories(port).get("total", 0) >= least,
            lambda: f"stories are shown: {(tmp_path / 'said').read_text()}",
            2 * PATIENCE_S,
            every=0.2,
            process=process,
        )
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
    finally:
        process.kill()
        process.wait()
    text = (tmp_path / "said").read_text()
    assert f"the news page: http://127.0.0.1:{port}/   (bundled pages, 500 pages a second" in text
    assert re.search(r"^\S.*its broker: kafka://127\.0\.0\.1:\d+ ", text, re.MULTILINE)
    assert text.endswith("ended\n")


def test_kernels_are_warmed_by_a_program_that_needs_no_service(cache: Path) -> None:
    command = [sys.executable, "deploy/warm.py", "--pages", "600"]
    alone = environment(cache, PYTHONPATH=str(ROOT / "stream"))  # an image has no `deploy`
    done = subprocess.run(command, cwd=ROOT, env=alone, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "near_duplicate" in done.stdout
