"""A Kafka consumer of verdicts: each verdict at least once, in a program of your own, without simstream's client.

    python examples/consume_verdicts.py 127.0.0.1:9092 simstream.verdicts

It reads plain JSON. For verdicts in Avro or Protobuf see docs/how-to/schema-registry.md.
It stops after the given number of verdicts, or reads on for ever.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator

import msgspec
from confluent_kafka import Consumer, KafkaException

from simstream import Verdict


def verdicts(servers: str, topic: str, group: str, most: int) -> Iterator[Verdict]:
    """Yield the topic's verdicts from the group's last place, or from the beginning."""
    settings = {
        "bootstrap.servers": servers,
        "group.id": group,
        "auto.offset.reset": "earliest",
        "enable.auto.offset.store": False,  # a verdict in work comes again after a kill
        "isolation.level": "read_committed",  # verdicts of broken transactions are never seen
    }
    consumer = Consumer(settings)
    consumer.subscribe([topic])
    try:
        while most:
            message = consumer.poll(1.0)
            if message is None:
                continue
            if error := message.error():
                raise KafkaException(error)
            yield msgspec.json.decode(message.value() or b"", type=Verdict)
            consumer.store_offsets(message)
            most -= 1
    finally:
        consumer.close()


def main(servers: str, topic: str = "simstream.verdicts", most: str = "") -> None:
    for verdict in verdicts(servers, topic, "example-reader", int(most or -1)):
        if verdict.verdict == "near_duplicate":
            print(f"{verdict.id} is like {verdict.near_duplicate_of}: similarity {verdict.similarity}")
        else:
            print(f"{verdict.id} is {verdict.verdict} {verdict.reason or ''}".rstrip())


if __name__ == "__main__":
    if not 2 <= len(sys.argv) <= 4:
        sys.exit(__doc__)
    try:
        main(*sys.argv[1:])
    except BrokenPipeError:  # `| head` has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
