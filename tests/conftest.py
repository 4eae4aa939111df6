"""What all tests share: options, what is skipped and why, the cache folder, jieba as the oracle."""

from __future__ import annotations

import logging
import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import jieba
import pytest
from hypothesis import HealthCheck, settings

from simstream.text.dictionary import Dictionary, load
from tests import corpora
from tests.e2e import nursery

# The broker's fixtures know themselves what they need and when to skip.
pytest_plugins = ["tests.short", "tests.kafka_fixtures"]

# How long an example takes says nothing on a machine that others use, too.
settings.register_profile("shared", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("shared")


def pytest_configure(config: pytest.Config) -> None:
    # A shell's `&` starts the tests with Ctrl-C ignored, and so would be every program that a test interrupts.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if not config.getoption("--real-starts"):
        nursery.share()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--slow", action="store_true", help="run the tests marked slow, too")
    parser.addoption("--short", action="store_true", help="leave out what is marked long: see tests/short.py")
    parser.addoption(
        "--real-starts", action="store_true", help="a new interpreter for each command: see tests/e2e/nursery.py"
    )
    parser.addoption(
        "--all-pages", action="store_true", help="compare all 48,000 pages of the corpora (minutes), no sample"
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    no_corpora = pytest.mark.skip(reason="SIMSTREAM_CORPORA does not name the folder of the evaluation corpora")
    not_asked = pytest.mark.skip(reason="runs only with --slow")
    for item in items:
        if item.get_closest_marker("corpora") and corpora.folder() is None:
            item.add_marker(no_corpora)
        if item.get_closest_marker("slow") and not config.getoption("--slow"):
            item.add_marker(not_asked)


@pytest.fixture
def deaf_port() -> Iterator[int]:
    """A port that is kept from all others, and where nobody listens."""
    with socket.socket() as kept:
        kept.bind(("127.0.0.1", 0))
        yield kept.getsockname()[1]


@pytest.fixture(autouse=True)
def signals() -> Iterator[None]:
    """Take back the handlers that a test sets, so that Ctrl-C raises KeyboardInterrupt in each test."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGALRM)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture(scope="session")
def cache() -> Path:
    """The cache folder that tests share, so that dictionaries and tables are built once."""
    named = os.environ.get("SIMSTREAM_CACHE")
    folder = Path(named) if named else Path(__file__).parents[1] / ".cache" / "tests"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@pytest.fixture(scope="session")
def dictionary(cache: Path) -> Dictionary:
    return load(cache)


@pytest.fixture(scope="session")
def oracle(tmp_path_factory: pytest.TempPathFactory) -> jieba.Tokenizer:
    """jieba itself, reading its dictionary and never the cache in the shared temporary folder."""
    jieba.setLogLevel(logging.ERROR)
    tokenizer = jieba.Tokenizer()
    tokenizer.tmp_dir = str(tmp_path_factory.mktemp("jieba"))
    tokenizer.initialize()
    return tokenizer
