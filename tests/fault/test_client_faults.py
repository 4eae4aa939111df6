"""The client when things go wrong: a broker goes and comes back, a disk is full, a program forgets to close."""

from __future__ import annotations

import subprocess
import sys

import pytest

from deploy.kafka.broker import KafkaBroker
from simstream.client import Client
from simstream.errors import ClientFull, TopicMissing, TopicRecreated, UsageError, VerdictLate
from simstream.log.base import OutgoingVerdict
from simstream.log.options import PAGES, VERDICTS
from simstream.model import PageSource, Record, Verdict
from simstream.wire import verdict as wire
from tests.contract.helpers import add_partitions, take
from tests.disks import run_limited
from tests.e2e.harness import PATIENCE_S, ROOT
from tests.kafka_fixtures import TopicPlace


@pytest.mark.kafka
@pytest.mark.long
def test_what_is_submitted_while_the_broker_is_away_is_bounded_and_written_when_it_is_back(
    own_broker: KafkaBroker,
) -> None:
    place = TopicPlace(own_broker.address, "away")
    with place.open() as log:
        log.create_topics(1)
    with Client(place.address, place.prefix, in_flight=3) as client:
        own_broker.kill()
        futures = [client.submit({"id": name, "text": "…"}, timeout=0.5) for name in "abc"]
        for future in futures:
            with pytest.raises(VerdictLate):
                future.result()
        # no caller waits for them any more, but the client still holds their records
        with pytest.raises(ClientFull):
            client.submit({"id": "d", "text": "…"}, wait=0.2)
        own_broker.start()
        client.submit({"id": "d", "text": "…"}, wait=PATIENCE_S)
    with place.open() as log:
        assert log.end_offsets(PAGES) == {0: 4}


@pytest.mark.kafka
def test_verdicts_in_partitions_that_are_added_are_heard(kafka_place: TopicPlace) -> None:
    log = kafka_place.open()
    log.create_topics(1)
    with (
        Client(kafka_place.address, kafka_place.prefix, timeout=PATIENCE_S) as client,
        log.open_reader(PAGES) as reader,
    ):
        add_partitions(kafka_place, VERDICTS, 8)
        futures = [client.submit({"id": str(number), "text": "…"}) for number in range(20)]
        pages = take(reader, len(futures))
        with kafka_place.open().open_publisher() as publisher:  # in the place of a judge
            publisher.start()
            publisher.publish([judged(page) for page in pages], b"one")
        assert [future.result().id for future in futures] == [str(number) for number in range(20)]
    assert sum(end > 0 for end in log.end_offsets(VERDICTS).values()) > 1


def judged(page: Record) -> OutgoingVerdict:
    """Any verdict of this page."""
    assert page.key is not None
    source = PageSource(page.topic, page.partition, page.offset)
    verdict = Verdict(
        page.key.decode(), None, "withdrawn", None, None, None, None, None, None, (), None, "", 0, 0, source
    )
    return OutgoingVerdict(page.key, wire.encode(verdict), ())


FULL_DISK = """
import sys
from simstream.client import Client
from simstream.errors import DeliveryFailed
with Client(sys.argv[1]) as client:
    room(20_000)
    for number in range(4):
        try:
            client.submit({"id": str(number), "text": "x" * 7_000}, timeout=0.1 if number < 2 else 60).result()
        except Exception as error:
            print(type(error).__name__)
    room(-1)
    client.submit({"id": "after", "text": "…"})
"""


def test_a_page_that_was_not_written_fails_and_later_ones_are_sent_anew(local_place: TopicPlace) -> None:
    with local_place.open() as log:
        log.create_topics(1)
    said = run_limited(FULL_DISK, local_place.address)
    assert said == ["VerdictLate", "VerdictLate", "DeliveryFailed", "DeliveryFailed"]
    with local_place.open() as log, log.open_reader(PAGES) as reader:
        assert [record.key for record in reader.poll(10, 1)] == [b"0", b"1", b"after"]


def test_a_topic_made_anew_ends_the_client_by_name(local_place: TopicPlace) -> None:
    with local_place.open() as log:
        log.create_topics(1)
        with Client(local_place.address) as client:
            future = client.submit({"id": "a", "text": "…"}, timeout=PATIENCE_S)
            assert not client.ended
            local_place.delete(VERDICTS)
            log.create_topics(1)
            with pytest.raises((TopicRecreated, TopicMissing)):
                future.result()
            with pytest.raises((TopicRecreated, TopicMissing)):
                client.submit({"id": "b", "text": "…"})
            assert client.ended


FORGETS = """
import sys
from simstream.client import Client
client = Client(sys.argv[1], sys.argv[2])
client.submit({"id": "a", "text": "…"})
"""


def test_a_program_that_forgets_to_close_ends_and_its_pages_are_written(place: TopicPlace) -> None:
    with place.open() as log:
        log.create_topics(1)
    command = [sys.executable, "-c", FORGETS, place.address, place.prefix]
    done = subprocess.run(command, capture_output=True, cwd=ROOT, timeout=PATIENCE_S, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    with place.open() as log:
        assert log.end_offsets(PAGES) == {0: 1}


def test_a_client_without_topics_or_room_is_refused_by_name(place: TopicPlace) -> None:
    with pytest.raises(TopicMissing, match="simstream topics create"):
        Client(place.address, place.prefix)
    with place.open() as log:
        log.create_topics(1)
    with pytest.raises(UsageError, match="in_flight"):
        Client(place.address, place.prefix, in_flight=0)


def test_without_scrapy_its_part_says_what_to_install() -> None:
    code = "import sys; sys.modules['scrapy'] = None; import simstream.crawlers"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, cwd=ROOT, check=False)
    assert b"pip install 'simstream[scrapy]'" in done.stderr
