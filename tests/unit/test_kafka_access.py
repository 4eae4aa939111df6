"""Who is not let in is told at once; who was let in before waits, as for any broker that is away."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError

from simstream.errors import NotAdmitted
from simstream.log.kafka.access_errors import Admission, not_permitted

PASSWORD = KafkaError(KafkaError._AUTHENTICATION, "sasl_ssl://h:1/bootstrap: SASL error: no (after 3ms in state X)")
UNTRUSTED = KafkaError(KafkaError._SSL, "ssl://h:1/1: SSL handshake failed: certificate verify failed: (after 1ms)")
ALERT = KafkaError(KafkaError._TRANSPORT, "ssl://h:1/1: Receive failed: SSL alert number 42 (after 1ms in state X)")
AWAY = KafkaError(KafkaError._TRANSPORT, "h:1/1: Connect to ipv4#127.0.0.1:1 failed: Connection refused")


@pytest.mark.parametrize(
    ("error", "said"),
    [(PASSWORD, "does not accept this user"), (UNTRUSTED, "not trusted"), (ALERT, "agree on TLS")],
)
def test_a_client_that_was_never_admitted_fails_and_an_admitted_one_knows_why(error: KafkaError, said: str) -> None:
    admission = Admission("h:1")
    admission.note(error)
    with pytest.raises(NotAdmitted, match=said):
        admission.check()
    admission.admitted()
    assert admission.why == ""
    admission.note(error)
    admission.check()
    assert said in admission.why
    assert "after" not in admission.why


def test_a_broker_that_is_only_away_refuses_nobody() -> None:
    admission = Admission("h:1")
    admission.note(AWAY)
    admission.check()
    assert admission.why == ""


@pytest.mark.parametrize(
    ("code", "command"),
    [
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, "--operation Read --topic p.x"),
        (KafkaError.GROUP_AUTHORIZATION_FAILED, "--operation Read --group p.x"),
        (KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, "--operation Read --transactional-id p.x"),
        (KafkaError.CLUSTER_AUTHORIZATION_FAILED, "--operation Write --topic p.x"),
    ],
)
def test_a_missing_permission_comes_with_the_command_that_grants_it(code: int, command: str) -> None:
    error = not_permitted(KafkaError(code), {"sasl.username": "judge", "sasl.password": "hush"}, "p.x", "Read")
    assert error.todo == f"grant it: kafka-acls --add --allow-principal User:judge {command}"
    assert "hush" not in str(error)
