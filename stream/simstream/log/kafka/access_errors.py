"""Explains Kafka's errors about TLS, SASL and access control lists.

The client reports that a broker does not let it in only on the side, and asks again until time is over, as if the
broker were away. So what it reports is noted here. A client that was never let in has wrong settings, which no
waiting mends; one that was let in before waits, as for any broker that is away.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

from confluent_kafka import KafkaError

from simstream.errors import NotAdmitted, NotPermitted

MISSING = {
    KafkaError.TOPIC_AUTHORIZATION_FAILED: "topic",
    KafkaError.GROUP_AUTHORIZATION_FAILED: "group",
    KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "transactional-id",
    KafkaError.CLUSTER_AUTHORIZATION_FAILED: "cluster",
}
"""The kind of thing that a permission is missing for, as `kafka-acls` names it."""

LASTING = frozenset(
    {
        KafkaError.INVALID_TIMESTAMP,
        KafkaError.MSG_SIZE_TOO_LARGE,
        KafkaError.RECORD_LIST_TOO_LARGE,
        KafkaError.POLICY_VIOLATION,
        KafkaError.INVALID_RECORD,
    }
)
"""Errors for a record that a broker will always refuse: sending it again does not help."""


class Admission:
    """Whether brokers let a client in, as far as it has noticed. Safe between threads."""

    def __init__(self, servers: str) -> None:
        self._servers = servers
        self._lock = threading.Lock()
        self._refused: NotAdmitted | None = None
        self._admitted = False

    def note(self, error: KafkaError) -> None:
        """A client's error callback: keep what it says about being let in."""
        refused = self._refusal(error)
        if refused is not None:
            with self._lock:
                self._refused = refused

    def admitted(self) -> None:
        """A broker has answered."""
        with self._lock:
            self._admitted, self._refused = True, None

    def check(self) -> None:
        """Raise NotAdmitted where brokers refuse a client that none has ever let in."""
        with self._lock:
            if self._refused is not None and not self._admitted:
                raise self._refused

    @property
    def why(self) -> str:
        """What the last broker that did not let us in said; empty where none did since one answered."""
        with self._lock:
            return self._refused.what if self._refused is not None else ""

    def _refusal(self, error: KafkaError) -> NotAdmitted | None:
        said = error.str()
        if error.code() == KafkaError._AUTHENTICATION:
            return NotAdmitted(
                f"{self._servers} does not accept this user ({_short(said)})",
                "look at sasl.mechanism, sasl.username and sasl.password in [kafka]",
            )
        if error.code() == KafkaError._SSL and "certificate verify failed" in said:
            return NotAdmitted(
                f"the certificate of {self._servers} is not trusted",
                "it has to be for that very host name, and signed by whom ssl.ca.location in [kafka] names",
            )
        if error.code() == KafkaError._SSL or "SSL alert" in said:
            certificate = "ssl.certificate.location and ssl.key.location"
            return NotAdmitted(
                f"{self._servers} and this client do not agree on TLS ({_short(said)})",
                f"look at security.protocol in [kafka] and, where brokers ask for a certificate, at {certificate}",
            )
        return None


def _short(said: str) -> str:
    """What the client says, without the address before it and the state behind it."""
    return said.split(": ", 1)[-1].rsplit(" (after ", 1)[0][:200]


def not_permitted(error: KafkaError, client: Mapping[str, Any], name: str, operation: str) -> NotPermitted:
    """The error for a permission that is missing.

    `client` has the user's settings, `name` is that of the topic, group or transactional id, `operation` what was
    tried, as `kafka-acls` calls it: brokers say neither.
    """
    kind = MISSING[error.code()]
    user = f"User:{client.get('sasl.username') or 'NAME'}"
    if kind == "cluster":  # asked of a producer that may write nothing at all
        kind, operation = "topic", "Write"
    return NotPermitted(
        f"Kafka does not permit {operation} on the {kind} {name}",
        f"grant it: kafka-acls --add --allow-principal {user} --operation {operation} --{kind} {name}",
    )
