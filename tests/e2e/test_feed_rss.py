"""`simstream feed --rss` as a command: once and every second, over a local log and a real server."""

from __future__ import annotations

import json
import signal
import subprocess
import threading
import time

from simstream.log import open_log
from simstream.log.options import PAGES
from tests import waiting
from tests.e2e.harness import Program, command_line, environment, read_topic
from tests.unit.test_feed_rss import FeedServer, giving, item, rss


def sent(alone: Program) -> list[str]:
    """The last characters of the URLs of all pages in the log."""
    with open_log(str(alone.folder / "log")) as log:
        return [json.loads(record.value or b"")["url"][-1] for record in read_topic(log, PAGES)]


def test_entries_of_feeds_are_sent_and_a_feed_that_is_missing_is_named(alone: Program) -> None:
    (alone.folder / "a.xml").write_bytes(rss(item(2), item(1)))
    alone.good("topics", "create", "--log", "log")
    done = alone.run("feed", "--rss", "a.xml", "missing.xml", "--log", "log")
    assert done.returncode == 1
    first, second = done.stderr.decode().splitlines()
    assert first == "simstream: missing.xml: it cannot be read (No such file or directory): check the path"
    assert second == "simstream: 2 pages sent to simstream.pages"
    assert sent(alone) == ["1", "2"]
    for wrong in (["--rss", "--resume", "f"], ["--every", "1s"], ["--rss", "--every", "soon"]):
        assert alone.run("feed", "a.xml", *wrong, "--log", "log").returncode == 2


def test_a_feed_that_is_asked_every_second_gives_its_new_entries_until_it_is_interrupted(alone: Program) -> None:
    alone.good("topics", "create", "--log", "log")
    with FeedServer() as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        server.answers["/rss"] = giving(rss(item(1)))
        line = command_line("feed", "--rss", server.address("/rss"), "--every", "1s", "--log", "log")
        with subprocess.Popen(line, cwd=alone.folder, env=environment(alone.folder)) as process:
            until(alone, ["1"])
            server.answers["/rss"] = giving(b"", 503)
            time.sleep(1.5)
            server.answers["/rss"] = giving(rss(item(2), item(1)))
            until(alone, ["1", "2"])
            process.send_signal(signal.SIGINT)
            assert process.wait(20) == 130
        server.shutdown()


def until(alone: Program, wanted: list[str]) -> None:
    """Wait until these pages are in the log."""
    waiting.until(lambda: sent(alone) == wanted, lambda: f"these pages are in the log: {sent(alone)}", every=0.1)
