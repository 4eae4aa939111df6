"""Appends to one Kafka topic: idempotent, acknowledged by all replicas, a bounded number in flight."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Producer

from simstream.errors import DeliveryFailed, LogError, RecordTooLarge
from simstream.log.base import Appender, Placed
from simstream.log.kafka.access_errors import LASTING, MISSING
from simstream.log.kafka.client_end import drop_producer
from simstream.log.kafka.client_log import logger
from simstream.log.kafka.client_watch import ClientWatch
from simstream.log.kafka.cluster import AWAY, KafkaCluster, make
from simstream.log.kafka.topics import admitted_bytes, producer_bytes
from simstream.log.options import FINGERPRINTS, MATCHES, PAGES

POLL_EVERY = 64
"""Appends between two checks of the acknowledgements."""
TOO_LARGE = frozenset({KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.RECORD_LIST_TOO_LARGE})
"""Larger than `max.message.bytes`, or than a segment of the topic."""
DEFAULTS = {"linger.ms": 2, "queue.buffering.max.messages": 100_000, "queue.buffering.max.kbytes": 64 << 10}


class KafkaAppender(Appender):
    """See Appender.

    Frames and dead letters never time out: a frame that "timed out" may still arrive, behind its successor. Pages
    time out after at least 2 minutes, so that `feed` ends on a broken cluster.
    """

    def __init__(self, cluster: KafkaCluster, topic: str) -> None:
        cluster.describe([topic])
        self._cluster = cluster
        self._topic = topic
        self._name = cluster.name(topic)
        self._limit = admitted_bytes(cluster, topic)
        self._watch = ClientWatch()
        self._producer: Any = make(Producer, self._config())
        self._count = 0
        self._run = 0
        self._beyond: set[int] = set()
        self._refused: deque[RecordTooLarge] = deque()
        self._error: LogError | None = None

    def append(
        self,
        value: bytes | None,
        key: bytes | None = None,
        headers: Sequence[tuple[str, bytes]] = (),
        *,
        partition: int | None = None,
        timestamp: int | None = None,
        placed: Placed | None = None,
    ) -> int:
        """See Appender. Raises BrokerUnreachable if the queue stays full for the log's patience; then nothing is
        queued, and the appender stays usable."""
        self._raise_failed()
        number = self._count + 1
        more: dict[str, Any] = {"on_delivery": partial(self._delivered, number, placed)}
        if partition is not None:
            more["partition"] = partition
        if timestamp is not None:
            more["timestamp"] = timestamp
        if headers:
            more["headers"] = list(headers)
        self._produce(value, key, more)
        self._count = number
        if number % POLL_EVERY == 0:
            self._serve(self._producer.poll, 0)
        return number

    def acknowledged(self) -> int:
        """See Appender. The count goes on behind a record that only the broker found too large."""
        if self._producer is not None:
            self._serve(self._producer.poll, 0)
        self._raise_failed()
        if self._refused:
            raise self._refused.popleft()
        return self._run

    def flush(self, timeout: float) -> int:
        """See Appender. Raises what `acknowledged` raises."""
        end = time.monotonic() + timeout
        while self._run < self._count and self._error is None and not self._watch.has_lost_brokers:
            left = end - time.monotonic()
            if left <= 0:
                break
            self._serve(self._producer.flush, min(left, 0.2))  # in steps, so that Ctrl-C is heard
        return self.acknowledged()

    def discard(self) -> None:
        """See Appender. Frees the client in a thread of its own.

        Client and appender hold each other. The garbage collector could free the client in one of the client's own
        threads, which ends the process.
        """
        if self._error is None:
            self._error = DeliveryFailed(f"the appender of {self._name} was closed", "open another one")
        held, self._producer = [self._producer], None
        drop_producer(held)

    def close(self) -> None:
        """See Closing. Raises BrokerUnreachable if a record is still not acknowledged after the patience."""
        if self._error is not None:
            self.discard()
            return
        try:
            if self.flush(self._cluster.options.patience) < self._count:
                raise self._cluster.unreachable()
        finally:
            self.discard()

    def _config(self) -> dict[str, Any]:
        finite = max(120_000, int(self._cluster.options.patience * 1000))
        room: dict[str, Any] = {"queue.buffering.max.kbytes": max(64 << 10, self._limit // 1024 + 1)}
        if self._topic in (FINGERPRINTS, MATCHES):
            room["linger.ms"] = 0.5  # each is already a batch, and the frames of one batch of pages go together
        if self._topic == PAGES:  # not polled while there is nothing to send
            watched: dict[str, Any] = {"message.timeout.ms": finite}
        else:
            watched = {"message.timeout.ms": 0, **self._watch.settings}
        return self._cluster.config(
            f"append-{self._topic}",
            DEFAULTS | room,
            {
                "error_cb": self._on_error,
                "enable.idempotence": True,
                "acks": "all",
                "partitioner": "murmur2_random",
                "message.max.bytes": producer_bytes(self._limit),
                **watched,
            },
        )

    def _produce(self, value: bytes | None, key: bytes | None, more: dict[str, Any]) -> None:
        waiting_since, run = time.monotonic(), self._run
        while True:
            try:
                self._producer.produce(self._name, value=value, key=key, **more)
                return
            except BufferError:
                self._serve(self._producer.poll, 0.1)
                self._raise_failed()
                self.waiting()
                if self._run > run:
                    waiting_since, run = time.monotonic(), self._run
                elif time.monotonic() - waiting_since > self._cluster.options.patience:
                    raise self._cluster.unreachable() from None
            except KafkaException as error:
                if error.args[0].code() == KafkaError.MSG_SIZE_TOO_LARGE:
                    raise self._too_large(value) from None
                self._fail(error.args[0])
                self._raise_failed()

    def _delivered(self, number: int, placed: Placed | None, error: KafkaError | None, message: Any) -> None:
        """Take the delivery report of one record. Reports of one partition come in order."""
        if error is not None:
            if error.code() not in TOO_LARGE or self._topic == FINGERPRINTS:
                self._fail(error)
                return
            refused = self._too_large(None)
            refused.number = number
            self._refused.append(refused)
        elif placed is not None:
            offset = message.offset()  # a record that was sent twice and written once has no known offset
            placed(message.partition(), -1 if offset is None else offset)
        if number != self._run + 1:
            self._beyond.add(number)
            return
        self._run = number
        while self._beyond and self._run + 1 in self._beyond:
            self._run += 1
            self._beyond.remove(self._run)

    def _serve(self, call: Callable[..., Any], *arguments: float) -> None:
        """Call the client. Any call may raise the fatal error that ended the client."""
        try:
            call(*arguments)
        except KafkaException as error:
            self._fail(error.args[0])

    def _on_error(self, error: KafkaError) -> None:
        logger.debug("appending to %s: %s", self._name, error.str())
        if error.fatal():
            self._fail(error)

    def _too_large(self, value: bytes | None) -> RecordTooLarge:
        size = "a record" if value is None else f"a record with a value of {len(value)} bytes"
        todo = "raise max_record_bytes and the topic's max.message.bytes, or leave the page out"
        if self._topic == MATCHES:
            todo = "raise the topic's max.message.bytes"
        if self._topic == FINGERPRINTS:
            todo = "raise the topic's max.message.bytes, or lower frame.max_bytes"
        return RecordTooLarge(f"{size} is more than {self._name} admits ({self._limit})", todo)

    def _fail(self, error: KafkaError) -> None:
        if self._error is not None:
            return
        if error.code() in AWAY and self._topic == PAGES:
            self._error = self._cluster.unreachable()
        elif error.code() in MISSING or error.code() in LASTING - TOO_LARGE:
            self._error = self._cluster.make_error(KafkaException(error), self._topic, "Write")
        else:
            self._error = DeliveryFailed(
                f"Kafka did not take a record of {self._name}: {error.str()}",
                "send this record and all later ones again, by a new client or appender",
            )

    def _raise_failed(self) -> None:
        if self._watch.has_lost_brokers:
            self._fail(KafkaError(KafkaError._ALL_BROKERS_DOWN, "the client has forgotten all brokers"))
        if self._error is not None:
            raise self._error
