"""Two publishers on a real broker: the newer takes over, the older says so, an own slow transaction goes on."""

from __future__ import annotations

import time
from typing import Any

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition

from simstream.errors import BrokerUnreachable, TakenOver, TransactionOutlived, WrongLog
from simstream.log.base import Log
from simstream.log.kafka import claim
from simstream.log.kafka.claim import PublisherClaim
from simstream.log.kafka.publisher import KafkaPublisher
from simstream.log.options import POSITIONS, VERDICTS
from tests.contract.helpers import add_partitions, batch, cluster_of, read_all
from tests.kafka_fixtures import TopicPlace

pytestmark = pytest.mark.kafka


class SlowPublisher(KafkaPublisher):
    """Sleeps once before it commits, longer than the broker lets a transaction be open; a rival may come then."""

    naps = 1
    rival: KafkaPublisher | None = None

    def _produce(self, topic: str, *given: Any) -> None:
        super()._produce(topic, *given)
        if topic == POSITIONS and self.naps:
            self.naps -= 1
            self._producer.flush(5)
            time.sleep(3)
            if self.rival is not None:
                self.rival.start()


def check_published(log: Log, *positions: bytes) -> None:
    """These positions, with ten verdicts each, and nothing else."""
    assert [r.value for r in read_all(log, POSITIONS, least=len(positions))] == list(positions)
    assert len(read_all(log, VERDICTS, least=10 * len(positions))) == 10 * len(positions)


def test_a_transaction_that_outlives_its_time_publishes_nothing_and_may_be_sent_in_parts(
    kafka_place: TopicPlace, kafka_log: Log
) -> None:
    with SlowPublisher(cluster_of(kafka_place), transaction_ms=1000) as publisher:
        publisher.start()
        with pytest.raises(TransactionOutlived, match="within 1 s"):
            publisher.publish([*batch(1), *batch(2)], b"two")
        publisher.publish(batch(1), b"one")
        publisher.publish(batch(2), b"two")
        assert publisher.naps == 0
        assert publisher.results == {"fenced": 1, "committed": 2}
    check_published(kafka_log, b"one", b"two")


def test_the_older_stops_where_the_newer_has_published(kafka_place: TopicPlace, kafka_log: Log) -> None:
    older, newer = kafka_log.open_publisher(), kafka_place.open().open_publisher()
    older.start()
    older.publish(batch(1), b"one")
    assert newer.start() == b"one"
    newer.publish(batch(2), b"two")
    for _ in range(2):  # also when it is asked again
        with pytest.raises(TakenOver, match="if you want a standby"):
            older.publish(batch(2), b"two")
    newer.publish(batch(3), b"three")
    check_published(kafka_log, b"one", b"two", b"three")


@pytest.mark.parametrize("idle", [True, False], ids=["has not published either", "has published"])
def test_the_older_stops_where_the_newer_only_reads_yet(
    kafka_place: TopicPlace, kafka_log: Log, idle: bool
) -> None:
    older, newer = kafka_log.open_publisher(), kafka_place.open().open_publisher()
    older.start()
    if not idle:
        older.publish(batch(1), b"one")
    newer.start()
    for _ in range(2):
        with pytest.raises(TakenOver):
            older.publish(batch(2), b"two")
    older.close()
    newer._producer.begin_transaction()  # no judge has fenced it back
    newer._producer.abort_transaction(10)
    newer.publish(batch(2), b"two")
    check_published(kafka_log, *([b"two"] if idle else [b"one", b"two"]))


@pytest.mark.parametrize("options", [{}, {"patience": 2}], ids=["slow", "stopped for longer than its patience"])
def test_a_slow_transaction_does_not_excuse_the_older(
    kafka_place: TopicPlace, kafka_log: Log, options: dict[str, float]
) -> None:
    newer = KafkaPublisher(cluster_of(kafka_place))
    with SlowPublisher(cluster_of(kafka_place, **options), transaction_ms=1000) as older:
        older.start()
        older.rival = newer
        with pytest.raises(TakenOver):
            older.publish(batch(1), b"one")
    newer.publish(batch(1), b"one")
    check_published(kafka_log, b"one")


def test_a_publisher_that_was_stopped_for_longer_than_its_patience_goes_on(
    kafka_place: TopicPlace, kafka_log: Log
) -> None:
    with SlowPublisher(cluster_of(kafka_place, patience=2), transaction_ms=1000) as publisher:
        publisher.start()
        publisher.publish(batch(1), b"one")
        assert publisher.naps == 0
        assert publisher.results == {"fenced": 1, "committed": 1}
    check_published(kafka_log, b"one")


class SurprisedPublisher(SlowPublisher):
    """A rival starts just before it fences all others for the second time."""

    surprise: KafkaPublisher | None = None

    def _begin(self) -> bytes | None:
        if self.surprise is not None:
            self.surprise.start()
        return super()._begin()


def test_a_newer_that_was_fenced_back_in_the_same_moment_goes_on(kafka_place: TopicPlace, kafka_log: Log) -> None:
    newer = KafkaPublisher(cluster_of(kafka_place))
    with SurprisedPublisher(cluster_of(kafka_place), transaction_ms=1000) as older:
        older.start()
        older.surprise = newer
        with pytest.raises(TakenOver):
            older.publish(batch(1), b"one")
    newer.publish(batch(1), b"one")
    check_published(kafka_log, b"one")


def test_of_two_that_start_in_the_same_moment_the_last_to_claim_goes_on(
    kafka_place: TopicPlace, kafka_log: Log
) -> None:
    first, last = KafkaPublisher(cluster_of(kafka_place)), KafkaPublisher(cluster_of(kafka_place))
    first._claim.make()
    last.start()
    first._last = first._begin()  # it fences, though it claimed earlier
    last.publish(batch(1), b"one")
    with pytest.raises(TakenOver):
        first.publish(batch(1), b"one")
    check_published(kafka_log, b"one")


def test_where_the_broker_forgot_the_claim_the_position_decides(kafka_place: TopicPlace, kafka_log: Log) -> None:
    publisher = KafkaPublisher(cluster_of(kafka_place))
    publisher.start()
    admin = kafka_place.admin()
    group = f"{kafka_place.prefix}.judge-claim"
    admin.delete_consumer_groups([group])[group].result(10)
    publisher._unsure = True
    publisher.publish(batch(1), b"one")
    other = PublisherClaim(cluster_of(kafka_place))
    with pytest.raises(TakenOver):
        other.check()  # the claim was written again
    check_published(kafka_log, b"one")


def test_an_earlier_claim_in_the_place_of_its_own_is_an_older_copy_and_no_rival(
    kafka_place: TopicPlace, kafka_log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(claim, "SLACK_MS", 0)
    admin, group = kafka_place.admin(), f"{kafka_place.prefix}.judge-claim"
    where = ConsumerGroupTopicPartitions(group, [TopicPartition(f"{kafka_place.prefix}.positions", 0)])
    KafkaPublisher(cluster_of(kafka_place)).start()
    kept = admin.list_consumer_group_offsets([where])[group].result(10)
    with KafkaPublisher(cluster_of(kafka_place)) as publisher:
        publisher.start()
        publisher.publish(batch(1), b"one")
        admin.alter_consumer_group_offsets([kept])[group].result(10)
        with pytest.raises(WrongLog, match="restored from an older copy"):
            publisher.check()
        publisher._unsure = True
        with pytest.raises(WrongLog, match="restored from an older copy"):
            publisher.publish(batch(2), b"two")
    check_published(kafka_log, b"one")


@pytest.mark.usefixtures("kafka_log")
@pytest.mark.parametrize("version", ["this", "an earlier one"])
def test_a_rival_is_no_older_copy_where_the_broker_forgot_the_claim(kafka_place: TopicPlace, version: str) -> None:
    claims = [PublisherClaim(cluster_of(kafka_place)) for _ in range(3)]
    for one in claims[:2]:
        one.make()
    admin, group = kafka_place.admin(), f"{kafka_place.prefix}.judge-claim"
    admin.delete_consumer_groups([group])[group].result(10)
    if version == "this":
        claims[2].make()
    else:
        place = TopicPartition(f"{kafka_place.prefix}.positions", 0, 0, "a sign")
        wanted = ConsumerGroupTopicPartitions(group, [place])
        admin.alter_consumer_group_offsets([wanted])[group].result(10)
    with pytest.raises(TakenOver):
        claims[1].check()


@pytest.mark.usefixtures("kafka_log")
def test_a_claim_that_is_hardly_earlier_is_a_rival_that_started_at_once(kafka_place: TopicPlace) -> None:
    first, last = (PublisherClaim(cluster_of(kafka_place)) for _ in range(2))
    last.make()
    last._made_ms += 1000  # as if its clock were ahead
    first.make()
    with pytest.raises(TakenOver):
        last.check()


class ForgettingClaim(PublisherClaim):
    """Does not get the answer to the second look at the claim."""

    looks = 0

    def check(self) -> None:
        super().check()
        self.looks += 1
        if self.looks == 2:
            raise BrokerUnreachable("no answer")


def test_a_broker_that_goes_away_during_the_look_publishes_nothing_twice(
    kafka_place: TopicPlace, kafka_log: Log
) -> None:
    publisher = KafkaPublisher(cluster_of(kafka_place))
    publisher._claim = ForgettingClaim(cluster_of(kafka_place))
    publisher.start()
    publisher.publish(batch(1), b"one")
    publisher._last, publisher._unsure = None, True  # as if the answer to the commit had been lost
    with pytest.raises(BrokerUnreachable):
        publisher.publish(batch(1), b"one")
    publisher.publish(batch(1), b"one")
    check_published(kafka_log, b"one")


def test_the_claim_is_a_sign_that_kafkas_tools_show(kafka_place: TopicPlace, kafka_log: Log) -> None:
    publisher = KafkaPublisher(cluster_of(kafka_place))
    publisher.start()
    admin = kafka_place.admin()
    where = TopicPartition(f"{kafka_place.prefix}.positions", 0)
    group = ConsumerGroupTopicPartitions(f"{kafka_place.prefix}.judge-claim", [where])
    (found,) = admin.list_consumer_group_offsets([group]).values()
    assert found.result(10).topic_partitions[0].metadata == publisher._claim._sign


def test_a_partition_added_to_positions_hides_no_position(kafka_place: TopicPlace, kafka_log: Log) -> None:
    """By its key the position would go to the second of two partitions, and is looked for in the first."""
    with kafka_log.open_publisher() as publisher:
        publisher.start()
        publisher.publish(batch(1), b"one")
        add_partitions(kafka_place, POSITIONS, 2)
        publisher.start()  # by a client that knows of both
        publisher.publish(batch(2), b"two")
        assert publisher.committed() == b"two"
    assert {record.partition for record in read_all(kafka_place.open(), POSITIONS)} == {0}
