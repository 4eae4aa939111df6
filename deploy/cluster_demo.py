"""Shows one stream on many processes, and kills one of each kind.

    python -m deploy.cluster_demo [--speed 100] [--corpora DIR]

Starts a broker, two fingerprinters, four matchers over eight shards, and two judges. Feeds them the news of
DIR/zh_news_xwlb if they exist, else the bundled pages, again and again. Ends with a check of every verdict. Takes
about a minute.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path

from deploy.cluster import Cluster, PageFeed, VerdictCount, create_topics, endless, judged_alone, wrong_sources
from deploy.feed_demo import replayed_pages
from deploy.kafka.broker import KafkaBroker
from deploy.kafka.jars import BrokerError, missing_packages
from simstream.interrupts import keep_interrupts
from simstream.log import open_log
from simstream.log.base import Log
from simstream.log.options import LogOptions
from simstream.model import Record
from simstream.wire import verdict as wire

SHARDS, MATCHERS, PARTITIONS = 8, 4, 4
AWAY_S, CALM_S = 2.0, 2.0
"""Seconds from a kill to the start of the next process, and from the end of one fault to the next kill."""
LINE_EVERY_S = 2.0
WAITS = "waits for the answer of shard"
SETTINGS = """snapshot_every = "5s"
[frame]
linger_ms = 200
"""
"""Snapshots every few seconds, so that a killed process has little to read again; and few frames, as all processes
share the cores of one machine."""


def main() -> int:
    """Run it to its end. Returns the exit code: 1 if a verdict is missing, double or wrong."""
    parser = argparse.ArgumentParser(description="Show one stream on many processes, and kill one of each kind.")
    parser.add_argument("--speed", type=float, default=100.0, help="pages a second (default: 100)")
    parser.add_argument("--corpora", type=Path, help="a folder that may have the news corpus")
    options = parser.parse_args()
    missing = missing_packages()
    if missing:
        say(f"no broker can run here: run apt-get install {' '.join(missing)}")
        return 1
    if options.speed <= 0:
        say("give --speed above 0")
        return 2
    keep_interrupts()
    try:
        return run(options.speed, *replayed_pages(options.corpora))
    except KeyboardInterrupt:
        say("ended")
        return 0
    except BrokerError as error:
        say(str(error))
        return 1


def say(text: str) -> None:
    """Print a line at once."""
    print(text, flush=True)  # noqa: T201  # a demo's account


def run(speed: float, name: str, pages: Callable[[], Iterable[Record]]) -> int:
    """Start everything, feed it, kill one of each kind, and check. Returns the exit code."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="simstream-cluster-")))
        broker = stack.enter_context(KafkaBroker(say=lambda text: say(f"broker: {text}")))
        log = stack.enter_context(open_log(broker.address, LogOptions(patience=60.0)))
        cluster = stack.enter_context(Cluster(folder, broker.address))
        (folder / "simstream.toml").write_text(SETTINGS, encoding="utf-8")
        start(cluster, log, broker.address)
        verdicts = stack.enter_context(VerdictCount(log))
        say(f"\n{name}, again and again with other ids: {speed:g} pages a second\n")
        feed = PageFeed(log, endless(pages()), speed)
        account = ClusterAccount(cluster, feed, verdicts)
        feed.start()
        account.stay(CALM_S)
        kill_one_of_each(account, broker, log)
        sent = feed.close()
        account.until(lambda: verdicts.look(0.1) >= sent, "all verdicts are there")
        account.line()
        cluster.supervise()
        return check(cluster, log, verdicts, sent)


def start(cluster: Cluster, log: Log, address: str) -> None:
    """Create the topics, start all parts, and wait until each is ready and has its shards."""
    create_topics(address, "--partitions", str(PARTITIONS), "--shards", str(SHARDS))
    for number in (1, 2):
        cluster.add(f"fingerprinter {number}", "--roles", "fingerprint")
    for number in range(1, MATCHERS + 1):
        name = f"matcher-{number}"
        cluster.add(f"matcher {number}", "--roles", "match", "--instance", name, "--state", name)
    for number in (1, 2):
        cluster.add(f"judge {number}", "--roles", "judge", "--state", f"judge-{number}")
    say(f"one stream, a broker and {len(cluster.parts)} processes: 2 fingerprinters, {MATCHERS} matchers, 2 judges")
    say(f"the broker: {address}   (for any command: --log {address})")
    say("waiting until all are ready: about twenty seconds, or two minutes if kernels must be compiled")

    def ready() -> bool:
        shared = sorted(len(member.shards) for member in log.running().matchers)
        return shared == [SHARDS // MATCHERS] * MATCHERS and cluster.ready()

    cluster.until(ready, "all are ready", lambda: time.sleep(0.2))
    for member in log.running().matchers:
        part = cluster.of_process(member.name)
        say(f"  {part.name if part else member.name} holds the shards {listed(member.shards)} of {SHARDS}")


class ClusterAccount:
    """Says line by line what happens, with the seconds since the first page."""

    def __init__(self, cluster: Cluster, feed: PageFeed, verdicts: VerdictCount) -> None:
        self.cluster, self._feed, self._verdicts = cluster, feed, verdicts
        self._began = self._next_line = time.monotonic()
        cluster.say = self.event

    def event(self, text: str) -> None:
        """Say what happens now."""
        say(f"{time.monotonic() - self._began:>5.1f} s  {text}")

    def line(self) -> None:
        """Say how far the verdicts are, and what a judge waits for."""
        self._next_line = time.monotonic() + LINE_EVERY_S
        judged, kinds, sent = len(self._verdicts.values), self._verdicts.kinds, self._feed.sent
        told = [part.ready()[1] for name, part in self.cluster.parts.items() if name.startswith("judge")]
        waits = [text.partition("judge: ")[2] for text in told if WAITS in text]
        counts = f"{kinds['new']:>6,} new  {kinds['near_duplicate']:>6,} near-duplicates"
        self.event(
            f"  {sent:>6,} pages  {judged:>6,} verdicts  {counts}" + "".join(f"   {text}" for text in waits[:1])
        )

    def stay(self, seconds: float) -> None:
        """Go on for so long."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self._turn()

    def until(self, condition: Callable[[], bool], what: str) -> None:
        """Go on until it is so. Raises BrokerError; see Cluster."""
        self.cluster.until(condition, what, self._turn)

    def fault(self, name: str, kill: Callable[[], object], start: Callable[[], object], effect: str) -> None:
        """Kill a process, start it again a little later, and wait until no page is behind."""
        self.event(f"kill -9  {name}: {effect}")
        killed_at = time.monotonic()
        kill()
        self.stay(AWAY_S)
        start()
        self.event(f"start    {name}")
        fed = self._feed.sent
        self.until(lambda: len(self._verdicts.values) >= fed, f"the pages before the start of {name} are judged")
        self.until(self.cluster.ready, "all are ready")
        seconds = time.monotonic() - killed_at
        self.event(f"ready    all of them, and no page is behind, {seconds:.0f} s after the kill")
        self.stay(CALM_S)

    def _turn(self) -> None:
        self._feed.check()
        self._verdicts.look(0.1)
        if time.monotonic() >= self._next_line:
            self.line()


def kill_one_of_each(account: ClusterAccount, broker: KafkaBroker, log: Log) -> None:
    """Kill a fingerprinter, a matcher, the elected judge and the broker, one after the other."""
    cluster = account.cluster
    fingerprinter, matcher = cluster.parts["fingerprinter 1"], cluster.parts["matcher 2"]
    effect = "the other one takes its partitions once its session is over"
    account.fault(fingerprinter.name, fingerprinter.kill, fingerprinter.start, effect)
    owned = {cluster.of_process(member.name): member.shards for member in log.running().matchers}
    effect = f"its shards {listed(owned.get(matcher, ()))} wait for it, and so do all pages"
    account.fault(matcher.name, matcher.kill, matcher.start, effect)
    judge = next((cluster.of_process(one.name) for one in log.running().judges if one.elected), None)
    if judge is None:
        raise BrokerError("no judge is elected")
    effect = "it publishes, and the other one takes over once its session is over"
    account.fault(judge.name, judge.kill, judge.start, effect)
    account.fault("the broker", broker.kill, broker.launch, "all of them wait for it")


def check(cluster: Cluster, log: Log, verdicts: VerdictCount, sent: int) -> int:
    """End all processes, and check all verdicts. Returns the exit code."""
    wrong = [f"{name} ended with {code}, not with 0" for name, code in cluster.end().items() if code != 0]
    values = verdicts.rest()
    missing = wrong_sources(log, values)
    if not missing:
        say(f"\nright  each of {sent:,} pages has exactly one verdict")
    if sorted(values, key=lambda value: wire.decode(value).ordinal) == judged_alone(log):
        say("right  all are, byte for byte, the verdicts of one judge with an index of its own, over the same log")
    else:
        missing.append("one judge with an index of its own, over the same log, gives other verdicts")
    wrong += missing
    for text in wrong:
        say(f"WRONG  {text}")
    return 1 if wrong else 0


def listed(numbers: Sequence[int]) -> str:
    """Return numbers as people write them."""
    words = [str(number) for number in numbers]
    return " and ".join([", ".join(words[:-1]), words[-1]]) if len(words) > 1 else "".join(words)


if __name__ == "__main__":
    os.environ.setdefault("PYTHONUNBUFFERED", "1")
    code = main()
    sys.stdout.flush()
    os._exit(code)  # all is closed by now; a Kafka client has waited for ever when Python freed it at its end
