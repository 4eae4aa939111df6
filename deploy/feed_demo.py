"""Shows the news page over replayed pages, with all services that it needs.

    python -m deploy.feed_demo [--speed 5] [--http-port 8300] [--corpora DIR]

Replays the news of DIR/zh_news_xwlb if they exist, else the bundled pages. Ctrl-C ends all.
"""

from __future__ import annotations

import argparse
import json
import lzma
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import NoReturn

from deploy.cluster import PATIENCE_S, Cluster, create_topics
from deploy.kafka.broker import KafkaBroker
from deploy.kafka.jars import BrokerError, missing_packages, say_on_stderr
from deploy.server_process import is_taken
from simstream.interrupts import keep_interrupts
from simstream.log import open_log
from simstream.log.options import PAGES, LogOptions
from simstream.model import Record
from simstream.sources.demo import demo_records

TURN_S = 0.3
NEWS = "zh_news_xwlb/docs.jsonl.xz"

_say = partial(say_on_stderr, program="feed-demo")


def main() -> int:
    """Run it until Ctrl-C, SIGTERM, or the end of one of its parts. Returns the exit code."""
    parser = argparse.ArgumentParser(description="Show the news page over replayed pages, until Ctrl-C.")
    parser.add_argument("--speed", type=float, default=5.0, help="pages a second")
    parser.add_argument("--http-port", type=int, default=8300)
    parser.add_argument("--corpora", type=Path, help="a folder that may have the news corpus")
    options = parser.parse_args()
    missing = missing_packages()
    if missing:
        _say(f"no broker can run here: run apt-get install {' '.join(missing)}")
        return 1
    if options.speed <= 0 or is_taken(options.http_port):
        _say("give --speed above 0, and a free --http-port")
        return 2
    keep_interrupts()
    try:
        run(options.speed, options.http_port, options.corpora)
    except KeyboardInterrupt:
        _say("ended")
        return 0
    except BrokerError as error:
        _say(str(error))
    return 1


def run(speed: float, port: int, corpora: Path | None) -> NoReturn:
    """Start everything, replay, and wait until a part ends by itself. Raises BrokerError then."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="simstream-feed-")))
        broker = stack.enter_context(KafkaBroker())
        cluster = stack.enter_context(Cluster(folder, broker.address, _say))
        create_topics(broker.address, "--partitions", "1")
        cluster.add("service")
        cluster.add("news page", "--http-port", str(port), command="news")
        url = f"http://127.0.0.1:{port}/"
        _say("waiting for the page: a few seconds, or two minutes if kernels must be compiled")
        cluster.until(cluster.ready, "the page is ready", lambda: time.sleep(TURN_S))
        name, pages = replayed_pages(corpora)
        _say(f"the news page: {url}   ({name}, {speed:g} pages a second; Ctrl-C ends it)")
        _say(f"its broker: {broker.address}   (for any command: --log {broker.address})")
        sent = _replay(broker.address, pages(), speed, cluster)
        _say(f"all {sent} pages are sent; the page stays until Ctrl-C: {url}")
        while True:
            cluster.supervise()
            time.sleep(TURN_S)


def replayed_pages(corpora: Path | None) -> tuple[str, Callable[[], Iterable[Record]]]:
    """Return what the pages are, and a function that yields them: those of the corpus if it is there."""
    path = corpora / NEWS if corpora else None
    if path is not None and path.is_file():
        return "television news since 2022", partial(_news, path)
    return "bundled pages", demo_records


def _news(path: Path) -> Iterator[Record]:
    """Yield the corpus's items as pages of their day."""
    with lzma.open(path, "rt", encoding="utf-8") as lines:
        for number, line in enumerate(lines):
            item = json.loads(line)
            day = item["date"]
            page = {"title": item["title"], "text": item["text"], "time": f"{day[:4]}-{day[4:6]}-{day[6:]}"}
            if item.get("url"):
                page["url"] = item["url"]
            yield Record(path.name, 0, number, item["id"].encode(), json.dumps(page).encode())


def _replay(address: str, records: Iterable[Record], speed: float, cluster: Cluster) -> int:
    """Send the pages at this speed, and wait until they are acknowledged. Returns their number."""
    sent = 0
    with open_log(address, LogOptions()) as log, log.open_appender(PAGES) as appender:
        begin = time.monotonic()
        for record in records:
            appender.append(record.value, record.key, record.headers)
            sent += 1
            time.sleep(max(0.0, begin + sent / speed - time.monotonic()))
            if sent % 100 == 0:
                appender.flush(PATIENCE_S)
                cluster.supervise()
        appender.flush(PATIENCE_S)
    return sent


if __name__ == "__main__":
    os.environ.setdefault("PYTHONUNBUFFERED", "1")
    sys.exit(main())
