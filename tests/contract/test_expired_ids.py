"""A broker that forgets the transactional id of a judge that was idle: the verdicts are sent again."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from deploy.kafka.broker import KafkaBroker
from simstream.errors import LogError
from simstream.log import open_log
from simstream.log.base import Log, OutgoingVerdict
from simstream.log.kafka.publisher import KafkaPublisher
from simstream.log.options import VERDICTS, LogOptions
from tests.contract.helpers import read_all

pytestmark = pytest.mark.kafka
EXPIRES_MS = 1_500
MANY = 20_000
"""So many verdicts are still being produced when the broker's refusal of the first ones comes."""


class ForgetfulBroker(KafkaBroker):
    """Forgets each idle producer within two seconds, and allows transactions of 12 s."""

    def _more_config(self) -> str:
        return (
            f"\ntransactional.id.expiration.ms={EXPIRES_MS}\nproducer.id.expiration.ms={EXPIRES_MS}\n"
            "transaction.remove.expired.transaction.cleanup.interval.ms=500\n"
            "producer.id.expiration.check.interval.ms=500\ntransaction.max.timeout.ms=12000\n"
        )


@pytest.fixture(scope="module")
def forgetful() -> Iterator[Log]:
    with ForgetfulBroker(quick=True) as broker, open_log(broker.address, LogOptions(patience=20.0)) as log:
        log.create_topics(2)
        yield log


@pytest.mark.parametrize("number", [1, MANY])
def test_verdicts_behind_a_forgotten_id_are_published_once(forgetful: Log, number: int) -> None:
    before = sum(forgetful.end_offsets(VERDICTS).values())
    first = len(read_all(forgetful, VERDICTS, least=1)) if before else 0
    with forgetful.open_publisher() as publisher:
        publisher.start()
        publisher.publish([OutgoingVerdict(b"k", b"v" * 300, ())], b"first")
        time.sleep(3 * EXPIRES_MS / 1000)
        made = [OutgoingVerdict(b"%d" % i, b"v" * 300, ()) for i in range(number)]
        publisher.publish(made, b"second")
        assert publisher.results["aborted"] in (1, 2)
        assert publisher.committed() == b"second"
    assert len(read_all(forgetful, VERDICTS, least=first + 1 + number)) == first + 1 + number


def test_a_broker_that_allows_only_shorter_transactions_is_no_rival(forgetful: Log) -> None:
    with forgetful.open_publisher() as publisher:
        assert isinstance(publisher, KafkaPublisher)
        publisher._transaction_ms = 13_000
        with pytest.raises(LogError, match=r"allow no transaction of 13 s: set transaction\.max\.timeout\.ms"):
            publisher.start()
