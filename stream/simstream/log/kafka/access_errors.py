"""Explains Kafka's errors about TLS, SASL and access control lists.

The client reports a refused login only through a callback. It then asks again until its time is over, as if the
broker were away. So this module notes what the callback says. A client that no broker ever let in has wrong
settings, and waiting does not help. A client that was let in before waits, as for any broker that is away.
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

REFUSED = frozenset(
    {
        *MISSING,
        KafkaError.INCONSISTENT_GROUP_PROTOCOL,
        KafkaError.INVALID_SESSION_TIMEOUT,
        KafkaError.INVALID_GROUP_ID,
        KafkaError._FATAL,  # a poll returns a fatal error under this code, and it does not call itself fatal
    }
)
"""Errors of a group's member that do not go away by waiting."""
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
    """Whether brokers let a client in, as far as the client has noticed. Safe between threads."""

    def __init__(self, servers: str) -> None:
        self._servers = servers
        self._lock = threading.Lock()
        self._refused: NotAdmitted | None = None
        self._admitted = False

    def note(self, error: KafkaError) -> None:
        """Keep what the client says about admission. This is the client's error callback."""
        refused = self._refusal(error)
        if refused is not None:
            with self._lock:
                self._refused = refused

    def admitted(self) -> None:
        """Note that a broker has answered."""
        with self._lock:
            self._admitted, self._refused = True, None

    def check(self) -> None:
        """Raise NotAdmitted if brokers refuse this client and none has ever let it in."""
        with self._lock:
            if self._refused is not None and not self._admitted:
                raise self._refused

    @property
    def why(self) -> str:
        """Why the last broker refused this client; empty if none has refused since the last answer."""
        with self._lock:
            return self._refused.what if self._refused is not None else ""

    def _refusal(self, error: KafkaError) -> NotAdmitted | None:
        said = error.str()
        if error.code() == KafkaError._AUTHENTICATION:
            return NotAdmitted(
                f"{self._servers} does not accept this user ({_short(said)})",
                "check sasl.mechanism, and sasl.username and sasl.password or oauth_cb, in [kafka]",
            )
        if error.code() == KafkaError._SSL and "certificate verify failed" in said:
            return NotAdmitted(
                f"the certificate of {self._servers} is not trusted",
                "check that the certificate names the broker's host, and that the authority in ssl.ca.location "
                "of [kafka] has signed it",
            )
        if error.code() == KafkaError._SSL or "SSL alert" in said:
            certificate = "ssl.certificate.location and ssl.key.location"
            return NotAdmitted(
                f"{self._servers} and this client do not agree on TLS ({_short(said)})",
                f"check security.protocol in [kafka], and {certificate} if the brokers ask for a certificate",
            )
        return None


def _short(said: str) -> str:
    """Return the client's message without the address before it and the state behind it."""
    return said.split(": ", 1)[-1].rsplit(" (after ", 1)[0][:200]


def not_permitted(error: KafkaError, client: Mapping[str, Any], name: str, operation: str) -> NotPermitted:
    """Return the error for a missing permission.

    `client` has the user's settings. `name` is the name of the topic, group or transactional id, and `operation` is
    the name of the attempt in `kafka-acls`. Brokers report neither.
    """
    kind = MISSING[error.code()]
    user = f"User:{client.get('sasl.username') or 'NAME'}"
    if kind == "cluster":  # the error of a producer that may write to no topic
        kind, operation = "topic", "Write"
    return NotPermitted(
        f"Kafka does not permit {operation} on the {kind} {name}",
        f"grant it: kafka-acls --add --allow-principal {user} --operation {operation} --{kind} {name}",
    )
