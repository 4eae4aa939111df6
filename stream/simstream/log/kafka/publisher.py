"""Publishes verdicts and position in one Kafka transaction, and recovers if a transaction fails."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Producer

from simstream.errors import BrokerUnreachable, LogError, TransactionOutlived
from simstream.log.base import POSITION_KEY, OutgoingVerdict, Publisher, position_missing
from simstream.log.kafka.access_errors import LASTING, MISSING
from simstream.log.kafka.claim import PublisherClaim, taken_over
from simstream.log.kafka.client_end import drop_producer
from simstream.log.kafka.client_log import note_error
from simstream.log.kafka.cluster import AWAY, SOCKET_MS, KafkaCluster, make
from simstream.log.kafka.reader import had_records, last_record
from simstream.log.kafka.topics import admitted_bytes, producer_bytes
from simstream.log.options import POSITIONS, VERDICTS

DEFAULTS: Mapping[str, Any] = {
    # every transaction that follows closely waits this long; it doubles while a broker is away
    "retry.backoff.ms": 2,
    "linger.ms": 0,
    "queue.buffering.max.messages": 100_000,
    "queue.buffering.max.kbytes": 64 << 10,
}
TRANSACTION_MS = 10_000
"""Milliseconds that a dead publisher's open transaction holds back readers of committed records."""
CALL_S = 5.0
"""Seconds that one call of the client may take before it is repeated."""
PAUSE_S = 0.02
PARTITION_BY_KEY = -1
"""In place of a partition: the client chooses it by the record's key."""
FENCED = frozenset({KafkaError._FENCED, KafkaError.INVALID_PRODUCER_EPOCH, KafkaError.PRODUCER_FENCED})
MAX_SETTLE_S = 3.0
"""Seconds after which this publisher aborts a transaction that the broker should have ended."""


class _FencedError(Exception):
    """This producer can publish nothing more.

    A newer producer has its transactional id, or the transaction outlived its time, or a killed broker or the
    producer itself has forgotten the other. These look alike here; the claim and the committed position tell them
    apart.
    """


def has_ended(error: KafkaError) -> bool:
    """Return whether an error ends a transactional producer: nothing that it does can succeed any more."""
    return error.code() in FENCED or error.code() == KafkaError._FATAL or bool(error.fatal())


class _AgainError(Exception):
    """The transaction was aborted and may be tried again."""


class KafkaPublisher(Publisher):
    """See Publisher. The newer publisher takes over at once.

    A fenced publisher fences another one only if its claim is still the newest: then its transaction only outlived
    its time.

    After BrokerUnreachable from `publish` the transaction may or may not be committed. Call `publish` again with
    the same arguments: it looks at the committed position, and sends only what is not there.
    """

    def __init__(self, cluster: KafkaCluster, transaction_ms: int = TRANSACTION_MS) -> None:
        self._cluster = cluster
        self._verdicts = cluster.name(VERDICTS)
        self._positions = cluster.name(POSITIONS)
        self._claim = PublisherClaim(cluster)
        self._transaction_ms = transaction_ms
        self._id = f"{cluster.options.judged_prefix}.judge"
        self._producer: Any = None
        self._last: bytes | None = None
        """The committed position, as far as this publisher knows."""
        self._unsure = False
        self._results: Counter[str] = Counter()

    @property
    def results(self) -> Mapping[str, int]:
        return self._results

    def start(self) -> bytes | None:
        """See Publisher. Raises BrokerUnreachable."""
        self._drop()
        self._cluster.describe([VERDICTS, POSITIONS])
        self._claim.make()  # before the fencing, so that the fenced publisher finds it
        self._last = self._begin()
        self._unsure = False
        return self._last

    def committed(self) -> bytes | None:
        """See Publisher. Raises BrokerUnreachable."""
        self._cluster.describe([VERDICTS, POSITIONS])
        record = last_record(self._cluster, POSITIONS)
        return record.value if record else None

    def check(self) -> None:
        """See Publisher. Takes a few ms, CALL_S at most."""
        self._claim.look(CALL_S)

    def close(self) -> None:
        """See Closing. The next start or the timeout aborts an open transaction."""
        self._drop()
        self._unsure = False

    def _begin(self) -> bytes | None:
        """Fence all other producers of the judge, and return the position that is committed then."""
        self._drop()
        self._producer = make(Producer, self._config())
        try:
            self._end_open_transaction()
            self._wait_until_settled()
        except (_FencedError, _AgainError) as error:
            self._claim.check()
            raise LogError("another judge starts at the same moment", "start this judge again") from error
        record = last_record(self._cluster, POSITIONS)
        if record is None and had_records(self._cluster, VERDICTS):
            raise position_missing(self._verdicts, self._positions)
        return record.value if record else None

    def _end_open_transaction(self) -> None:
        """Have the broker end what the producer before left open. Raises LogError if it answers and does not."""
        try:
            self._call(self._producer.init_transactions)
        except BrokerUnreachable as error:
            self._cluster.offsets_of(POSITIONS, [0], "end", CALL_S)  # is any broker there?
            waited = f"{self._cluster.options.patience:g} s"
            raise LogError(
                f"the brokers did not end the last transaction of {self._id} in {waited}",
                "look at it with Kafka's kafka-transactions.sh (describe), and at the brokers' log files",
            ) from error

    def publish(self, verdicts: Sequence[OutgoingVerdict], position: bytes) -> None:
        """See Publisher. Raises BrokerUnreachable, TakenOver, LogError. It publishes all or nothing, so call it
        again.

        Before it counts the broker as away, one attempt fails that began after the log's patience.
        """
        if self._producer is None and not self._unsure:
            raise LogError("publish was called before start", "call start first")
        end = time.monotonic() + max(self._cluster.options.patience, 1.0)
        while True:
            if self._unsure and self._is_done(position):
                self._results["found"] += 1
                break
            began = time.monotonic()
            try:
                self._transact(verdicts, position)
                self._results["committed"] += 1
                break
            except (_FencedError, _AgainError) as error:
                self._unsure = isinstance(error, _FencedError)
                self._results["fenced" if self._unsure else "aborted"] += 1
                if began > end:
                    self._look_for_topics()
                    raise self._cluster.unreachable() from error
                if time.monotonic() > end:
                    continue  # the time may have passed while this process was stopped: one attempt begins after it
                if time.monotonic() - began > self._transaction_ms / 2000:
                    if self._unsure and self._is_done(position):
                        self._results["found"] += 1
                        break
                    self._look_for_topics()
                    raise self._outlived(verdicts) from error
                if not self._unsure:
                    time.sleep(PAUSE_S)
            except LogError:
                self._unsure = True
                raise
        self._last = position

    def _look_for_topics(self) -> None:
        """Raise TopicMissing or NotPermitted if that is why nothing is committed. Waits up to CALL_S for each."""
        with suppress(BrokerUnreachable):
            self._cluster.describe([VERDICTS, POSITIONS], CALL_S)

    def _outlived(self, verdicts: Sequence[OutgoingVerdict]) -> TransactionOutlived:
        size = sum(len(verdict.value) + len(verdict.key) for verdict in verdicts)
        return TransactionOutlived(
            f"{len(verdicts)} verdicts ({size} bytes) were not committed within {self._transaction_ms / 1000:g} s, "
            "the time of a transaction",
            "bring the broker back if it is away; else give this client more bandwidth or a larger quota, or lower "
            "frame.max_pages",
        )

    def _wait_until_settled(self) -> None:
        """Wait until no transaction is open in the judge's topics; an open one could hide the last position.

        `init_transactions` should have ended it. But a lone broker that was killed within some 50 ms of a commit
        was seen to call it complete and never end it in the topics. No reader of committed records sees such a
        transaction. So it is aborted here, and its verdicts are published again from the position before it.
        """
        began = time.monotonic()
        aborted = False
        while open_in := self._unsettled():
            waited = time.monotonic() - began
            if waited > self._cluster.options.patience:
                raise LogError(
                    f"{open_in[0][0]} has an open transaction that the broker does not end",
                    "abort it with Kafka's kafka-transactions.sh (find-hanging, abort), then start again",
                )
            if waited > MAX_SETTLE_S and not aborted:
                self._abort_by_hand(open_in)
                aborted = True
            time.sleep(PAUSE_S)

    def _unsettled(self) -> list[tuple[str, int]]:
        """Return the partitions (topic's full name, number) in which a transaction is open."""
        return [
            (self._cluster.name(topic), partition)
            for topic in (VERDICTS, POSITIONS)
            for partition in self._cluster.uncommitted(topic)
        ]

    def _abort_by_hand(self, partitions: Sequence[tuple[str, int]]) -> None:
        """End this transactional id's open transactions there, through the abort marker of another transaction."""
        self._call(self._producer.begin_transaction, timed=False)
        for topic, partition in partitions:
            self._producer.produce(topic, value=b"", partition=partition)
        self._producer.flush(self._cluster.options.patience)
        self._call(self._producer.abort_transaction)

    def _config(self) -> dict[str, Any]:
        patience = min(SOCKET_MS, self._transaction_ms - 100)  # the client admits no more
        return self._cluster.config(
            "judge",
            {**DEFAULTS, "socket.timeout.ms": patience},
            {
                "transactional.id": self._id,
                "transaction.timeout.ms": self._transaction_ms,
                "acks": "all",
                "partitioner": "murmur2_random",
                "error_cb": note_error,
                "message.max.bytes": producer_bytes(admitted_bytes(self._cluster, VERDICTS)),
            },
        )

    def _is_done(self, position: bytes) -> bool:
        """Start again, and return True if `position` is committed, False if the one before it is.

        Raises TakenOver. Reads the claim twice: a rival may come between the first read and the fencing.
        """
        self._drop()
        self._claim.check()
        found = self._begin()
        self._claim.check()
        if found not in (position, self._last):
            self._drop()
            raise taken_over(self._cluster)
        self._unsure = False
        return found == position

    def _transact(self, verdicts: Sequence[OutgoingVerdict], position: bytes) -> None:
        """Publish everything in one transaction. Raises _FencedError, _AgainError, LogError."""
        self._call(self._producer.begin_transaction, timed=False)
        for verdict in verdicts:
            self._produce(VERDICTS, verdict.value, verdict.key, list(verdict.headers))
        self._produce(POSITIONS, position, POSITION_KEY, [], 0)  # `last_record` reads this one
        self._call(self._producer.commit_transaction, self._transaction_ms / 1000)

    def _produce(
        self,
        topic: str,
        value: bytes,
        key: bytes,
        headers: list[tuple[str, bytes]],
        partition: int = PARTITION_BY_KEY,
    ) -> None:
        end = time.monotonic() + self._cluster.options.patience
        name = self._positions if topic == POSITIONS else self._verdicts
        while True:
            began = time.monotonic()
            try:
                self._producer.produce(name, value=value, key=key, headers=headers, partition=partition)
                return
            except BufferError:
                self._producer.poll(0.05)
                if began > end:
                    raise self._cluster.unreachable() from None
            except KafkaException as error:
                if error.args[0].code() == KafkaError._STATE:  # what was sent before has failed: this call says why
                    self._call(self._producer.begin_transaction, timed=False)
                self._judge(error, topic)

    def _call(self, call: Callable[..., Any], replace_after_s: float | None = None, timed: bool = True) -> None:
        """Repeat the call until it succeeds, as long as the client says that it may be repeated.

        After `replace_after_s` it raises _FencedError, so that a new producer takes over: the broker has ended the
        transaction by then, and this producer may have forgotten all brokers (see ClientWatch).
        """
        first = time.monotonic()
        end = first + self._cluster.options.patience
        while True:
            began = time.monotonic()
            try:
                if timed:
                    call(min(CALL_S, max(0.5, end - began)))
                else:
                    call()
                return
            except KafkaException as error:
                self._judge(error)
                if replace_after_s is not None and time.monotonic() - first > replace_after_s:
                    raise _FencedError from error
            if began > end:
                raise self._cluster.unreachable()
            time.sleep(PAUSE_S)

    def _judge(self, caught: KafkaException, topic: str = VERDICTS) -> None:
        """Return if the same call may be repeated; else raise the error that says what to do. It is about `topic`,
        unless its text names `positions`."""
        error: KafkaError = caught.args[0]
        if f"{self._positions} [" in error.str():
            topic = POSITIONS
        if error.code() in MISSING:
            if error.txn_requires_abort():
                self._abort()
            raise self._cluster.make_error(caught, topic, "Write", self._id) from None
        if error.code() == KafkaError.INVALID_TRANSACTION_TIMEOUT:
            raise LogError(
                f"the brokers allow no transaction of {self._transaction_ms / 1000:g} s",
                f"set transaction.max.timeout.ms of the brokers to at least {self._transaction_ms}",
            ) from caught
        if has_ended(error):
            raise _FencedError from caught
        if error.txn_requires_abort():
            self._abort()
            if error.code() in LASTING:
                raise self._cluster.make_error(caught, topic) from None
            raise _AgainError from caught
        if not error.retriable() and error.code() not in AWAY:
            raise self._cluster.make_error(caught, topic) from None

    def _abort(self) -> None:
        """End the open transaction; the verdicts in it are sent again by `publish`."""
        end = time.monotonic() + self._cluster.options.patience
        while True:
            began = time.monotonic()
            try:
                self._producer.abort_transaction(CALL_S)
                return
            except KafkaException as caught:
                error: KafkaError = caught.args[0]
                if has_ended(error):
                    raise _FencedError from caught
                if not error.retriable() and error.code() not in AWAY:
                    raise LogError(
                        f"a transaction cannot be aborted: {error.str()}", "start this judge again"
                    ) from caught
            if began > end:
                raise self._cluster.unreachable()
            time.sleep(PAUSE_S)

    def _drop(self) -> None:
        held, self._producer = [self._producer], None
        drop_producer(held)
