"""Fixtures for tests over a log: a real broker for the session, a fresh place per test, both logs by turns.

Without Java or Maven the tests that need the broker are skipped and say what to install; with CI=true they fail.
"""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from deploy.kafka.broker import KafkaBroker
from deploy.kafka.jars import missing_packages
from deploy.registry.registry import SchemaRegistry, missing
from simstream.log import open_log
from simstream.log.base import Log
from simstream.log.options import LogOptions
from tests.missing import skip_or_fail
from tests.waiting import until

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

PARTITIONS = 4


@dataclass(frozen=True)
class TopicPlace:
    """Where one test's topics live; `open` gives a log over them, as another process would open it."""

    address: str
    prefix: str

    @property
    def is_local(self) -> bool:
        return "://" not in self.address

    @property
    def servers(self) -> str:
        """The broker's address as Kafka's clients take it."""
        return self.address.removeprefix("kafka://")

    @property
    def where(self) -> tuple[str, ...]:
        """The options that name this place to a command."""
        return "--log", self.address, "--prefix", self.prefix

    def open(self, **options: object) -> Log:
        chosen: dict[str, object] = {"patience": 60.0} | options
        return open_log(self.address, LogOptions(prefix=self.prefix, **chosen))  # type: ignore[arg-type]

    def admin(self) -> AdminClient:
        """Return an operator's client."""
        from confluent_kafka.admin import AdminClient

        return AdminClient({"bootstrap.servers": self.servers, "log_level": 0})

    def alter(self, topic: str, settings: Mapping[str, object]) -> None:
        """Change a topic's settings, as an operator would."""
        from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

        entries = [
            ConfigEntry(name, str(value), incremental_operation=AlterConfigOpType.SET)
            for name, value in settings.items()
        ]
        resource = ConfigResource(ResourceType.TOPIC, f"{self.prefix}.{topic}", incremental_configs=entries)
        admin = self.admin()
        for future in admin.incremental_alter_configs([resource]).values():
            future.result()

    def delete(self, topic: str) -> None:
        """Take a topic away, as an operator would."""
        name = f"{self.prefix}.{topic}"
        if self.is_local:
            catalog = Path(self.address) / "topics.json"
            found = json.loads(catalog.read_text())
            del found["topics"][name]
            new = catalog.with_name("topics.json.new")
            new.write_text(json.dumps(found))
            os.replace(new, catalog)
            (Path(self.address) / f"{name}.log").unlink(missing_ok=True)
            return
        admin = self.admin()
        admin.delete_topics([name])[name].result()
        until(lambda: name not in admin.list_topics(timeout=30).topics, f"the topic {name} is gone", every=0.05)

    def expire(self, topic: str, offset: int = -1, partitions: int = 1) -> None:
        """Remove the records of the first partitions below an offset, as retention does; -1: all."""
        from confluent_kafka import TopicPartition

        admin = self.admin()
        wanted = [TopicPartition(f"{self.prefix}.{topic}", number, offset) for number in range(partitions)]
        for future in admin.delete_records(wanted).values():
            assert offset in (-1, future.result().low_watermark)


def need_broker(what: str = "a broker", missing: Sequence[str] | None = None) -> None:
    """Skip where no broker can run; in CI, fail."""
    missing = missing_packages() if missing is None else missing
    if missing:
        skip_or_fail(f"{what} needs: apt-get install {' '.join(missing)}")


@pytest.fixture(scope="session")
def broker() -> Iterator[KafkaBroker]:
    """A real broker for the whole session; a test that kills it starts it again."""
    need_broker()
    with KafkaBroker() as running:
        yield running


@pytest.fixture(scope="session")
def registry() -> Iterator[SchemaRegistry]:
    """A real schema registry for the whole session. A test uses subjects of its own."""
    need_broker("a schema registry", missing())
    with SchemaRegistry() as running:
        yield running


@pytest.fixture
def own_broker(broker: KafkaBroker, tmp_path: Path) -> Iterator[KafkaBroker]:
    """A broker of this test alone, which may be stopped; the other one says whether there can be one."""
    with KafkaBroker(data=tmp_path / "broker", quick=True) as own:
        yield own


@pytest.fixture(scope="module")
def module_broker(broker: KafkaBroker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBroker]:
    """A broker of this module alone; the other one says whether there can be one."""
    with KafkaBroker(data=tmp_path_factory.mktemp("broker"), quick=True) as own:
        yield own


@pytest.fixture
def kafka_place(broker: KafkaBroker) -> TopicPlace:
    """A fresh prefix on the broker; no topics yet."""
    return TopicPlace(broker.address, f"t{secrets.token_hex(4)}")


@pytest.fixture
def local_place(tmp_path: Path) -> TopicPlace:
    """A fresh folder; no topics yet."""
    return TopicPlace(str(tmp_path / "log"), "simstream")


@pytest.fixture
def kafka_log(kafka_place: TopicPlace) -> Iterator[Log]:
    """A log on the broker, with topics of 4 partitions."""
    with kafka_place.open() as log:
        log.create_topics(PARTITIONS)
        yield log


@pytest.fixture
def local_log(local_place: TopicPlace) -> Iterator[Log]:
    """A log in a folder, with topics of 4 partitions."""
    with local_place.open() as log:
        log.create_topics(PARTITIONS)
        yield log


@pytest.fixture(params=["local", pytest.param("kafka", marks=pytest.mark.kafka)])
def place(request: pytest.FixtureRequest) -> TopicPlace:
    """Both places by turns, without topics."""
    found: TopicPlace = request.getfixturevalue(f"{request.param}_place")
    return found


@pytest.fixture
def log(place: TopicPlace) -> Iterator[Log]:
    """Both logs by turns, with topics of 4 partitions."""
    with place.open() as opened:
        opened.create_topics(PARTITIONS)
        yield opened
