"""Which tests run where and when: the short run's choice, what it left out, and which tests keep together.

`--short` leaves out what is marked `long`, runs a test over both logs on one of them, chosen by its name, and
lets hypothesis try a quarter of the examples. With `-n 2 --dist loadfile` a file's tests stay in one process.
Files that break or measure what runs on a broker share a process: while one of them is under way, no other is.
"""

from __future__ import annotations

import re
import zlib
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

SHORT = 25
"""Hypothesis' examples in the short run, where a test does not say how many it wants."""
TURNS = ("tests/e2e/", "tests/fault/")
"""Where a test over both logs is about what is above them; the contract suite is about the logs."""
ORDER = ("e2e", "bench", "fault", "property", "unit")
"""The folders of long files first."""
FRAGILE = ("chaos", "fault", "contract")
FRAGILE_FILES = ("test_crawl_outage.py", "test_latency.py", "test_prometheus.py", "test_same_as_dedup.py")
"""What breaks or measures programs, which shows less beside another that does."""
BROKER = re.compile(
    r"mark\.kafka|\b(broker: KafkaBroker|program: Program|place: TopicPlace|on_kafka|kafka_place)\b"
)
LOGS = ("local", "kafka")
_left_out: Counter[str] = Counter()


def examples(count: int) -> int:
    """So many examples in the whole run, and a share of them in the short one."""
    return max(10, count * settings.default.max_examples // 100)


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--short"):
        settings.register_profile("short", settings.get_profile("shared"), max_examples=SHORT)
        settings.load_profile("short")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--short"):
        left_out = [item for item in items if is_left_out(item)]
        _left_out.update(item.nodeid.partition("::")[0] for item in left_out)
        items[:] = [item for item in items if item not in set(left_out)]
        config.hook.pytest_deselected(items=left_out)
    if hasattr(config, "workerinput"):
        items.sort(key=lambda item: rank(item.path))


def is_left_out(item: pytest.Item) -> bool:
    """Whether the short run does without this test."""
    if item.get_closest_marker("long"):
        return True
    if not hasattr(item, "callspec") or not item.nodeid.startswith(TURNS):
        return False
    params = item.callspec.params
    given = {value: name for name, value in params.items() if isinstance(value, str) and value in LOGS}
    for log, name in given.items():  # what a file makes once is made over one log
        key = item.nodeid.partition("[" if name == "place" else "::")[0]
        return log != LOGS[zlib.crc32(key.encode()) % len(LOGS)]
    return False


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """With `--dist loadfile`, a file at a time for each process, and all fragile files for one of them."""
    if config.getoption("dist") != "loadfile":
        return None
    from xdist.scheduler import LoadFileScheduling

    class FragileScheduling(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file = nodeid.partition("::")[0]
            return "fragile" if is_fragile(config.rootpath / file) else file

    return FragileScheduling(config, log)


@cache
def needs_broker(file: Path) -> bool:
    """Whether a test in this file takes a broker, or a log that is on one by turns."""
    return bool(BROKER.search(file.read_text(encoding="utf-8")))


def is_fragile(file: Path) -> bool:
    """Whether this file's tests break or measure programs on a broker."""
    return needs_broker(file) and (file.parent.name in FRAGILE or file.name in FRAGILE_FILES)


def rank(file: Path) -> int:
    """How early a file begins: what one process has to do alone, what needs no broker, then the rest for both."""
    if is_fragile(file):
        return -1
    if needs_broker(file):
        return len(ORDER) + 1
    return ORDER.index(file.parent.name) if file.parent.name in ORDER else len(ORDER)


def pytest_sessionfinish(session: pytest.Session) -> None:
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["left_out"] = dict(_left_out)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: object) -> None:
    """Hear from a process what it left out; each leaves out the same."""
    _left_out.update(Counter(getattr(node, "workeroutput", {}).get("left_out", {})) - _left_out)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if _left_out:
        terminalreporter.section("left out of the short run; make test-all runs them")
        for file, count in sorted(_left_out.items()):
            terminalreporter.write_line(f"{count:>5}  {file}")
