"""Ends clients of librdkafka in threads of their own, as one may never end.

A client that is closed or freed waits for its own threads. While a broker goes away or comes back, these may wait
for each other for ever (confluentinc/librdkafka, issues 1640 and 5476). Such a client is left behind with them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import wait
from contextlib import suppress
from typing import Any

from confluent_kafka import KafkaException, Producer

from simstream.processors import call_in_daemon

MAX_END_S = 10.0
"""Seconds that `end_client` waits for one client. Most end within a few ms."""
_unfreed: list[list[Any]] = []
"""Clients for which no thread could be started. They are kept, so that no other thread frees them."""


def free_clients(clients: list[Any]) -> None:
    """Empty the list in a thread, so that clients which only the list holds are freed there. Does not wait.

    If the system starts no thread, as Python 3.12 while it ends, keep the clients.
    """
    if clients:
        try:
            threading.Thread(target=clients.clear, name="free", daemon=True).start()
        except RuntimeError:
            _unfreed.append(clients)


def drop_producer(held: list[Producer | None]) -> None:
    """Let the producer in this list, if any, forget what it has, and free it.

    Only the list may hold it. The next producer of its transactional id ends an open transaction.
    """
    producer = held[0]
    if producer is None:
        return
    with suppress(KafkaException):  # a fenced producer raises its fencing here again
        producer.purge()
        producer.flush(0)
    del producer  # the last reference goes in a thread
    free_clients(held)


def end_client(end: Callable[[], object]) -> None:
    """Call `end` in a thread, and wait for it, up to MAX_END_S. Raises what it raises."""
    outcome = call_in_daemon(end, "end")
    if wait([outcome], MAX_END_S).done:
        outcome.result()
