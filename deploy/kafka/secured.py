"""A real one-node Kafka for tests: every client proves who it is, and may do only what was granted.

    with SecuredBroker(users={"judge": "a password"}) as broker:
        ...     # broker.address: SASL_SSL with SCRAM-SHA-512; broker.mutual_address: a client certificate

Its users' names are their principals (`User:judge`), with a password or a certificate. ADMIN may do everything,
other users what access control lists grant. Its certificate is only for `localhost`, so that 127.0.0.1 is a wrong
name.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path

from deploy.kafka.broker import KafkaBroker, answers_on
from deploy.kafka.certificates import CertificateAuthority, CertificatePair
from deploy.kafka.jars import Say, say_on_stderr
from deploy.server_process import free_port

ADMIN = "admin"
HOST = "localhost"
CONFIG = """
# Over what stands above: every listener is encrypted, and clients prove who they are.
listeners=SCRAM://127.0.0.1:{scram},MUTUAL://127.0.0.1:{mutual},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=SCRAM://localhost:{scram},MUTUAL://localhost:{mutual}
listener.security.protocol.map=SCRAM:SASL_SSL,MUTUAL:SSL,CONTROLLER:SSL
controller.quorum.voters=1@localhost:{controller}
inter.broker.listener.name=MUTUAL
listener.name.mutual.ssl.client.auth=required
listener.name.controller.ssl.client.auth=required
sasl.enabled.mechanisms=SCRAM-SHA-512
listener.name.scram.scram-sha-512.sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required;
ssl.keystore.type=PEM
ssl.keystore.location={keystore}
ssl.truststore.type=PEM
ssl.truststore.location={truststore}
ssl.principal.mapping.rules=RULE:^CN=([^,]+).*$/$1/
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
allow.everyone.if.no.acl.found=false
super.users=User:broker;User:admin
"""


class SecuredBroker(KafkaBroker):
    """See the module. `port` takes SASL_SSL, `mutual_port` TLS with a client certificate."""

    def __init__(self, users: Mapping[str, str], say: Say = say_on_stderr) -> None:
        """`users`: SCRAM names and passwords."""
        super().__init__(say=say)
        self.users = dict(users)
        self.mutual_port = free_port()
        self._pairs: dict[str, CertificatePair] = {}

    @property
    def servers(self) -> str:
        """See Broker."""
        return f"{HOST}:{self.port}"

    @property
    def mutual_address(self) -> str:
        """`kafka://HOST:PORT` of the listener that asks for a client certificate."""
        return f"kafka://{HOST}:{self.mutual_port}"

    @cached_property
    def authority(self) -> CertificateAuthority:
        """The authority that signs the certificates of the broker and its clients."""
        return CertificateAuthority(self.data / "certificates")

    def by_password(self, user: str) -> dict[str, str]:
        """Return the settings of this user's Kafka client, without its password."""
        return {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.username": user,
            "ssl.ca.location": str(self.authority.certificate),
        }

    def by_certificate(self, user: str) -> dict[str, str]:
        """Return the settings of this user's Kafka client with a certificate."""
        pair = self._pair(user)
        return {
            "security.protocol": "SSL",
            "ssl.ca.location": str(self.authority.certificate),
            "ssl.certificate.location": str(pair.certificate),
            "ssl.key.location": str(pair.key),
        }

    def admin(self) -> dict[str, str]:
        """Return the settings of a client that may do everything."""
        return {"bootstrap.servers": self.mutual_address.removeprefix("kafka://")} | self.by_certificate(ADMIN)

    def _pair(self, user: str) -> CertificatePair:
        if user not in self._pairs:
            self._pairs[user] = self.authority.sign(user)
        return self._pairs[user]

    def _more_config(self) -> str:
        return CONFIG.format(
            scram=self.port,
            mutual=self.mutual_port,
            controller=self._controller_port,
            keystore=self._broker_pair.both,
            truststore=self.authority.certificate,
        )

    @cached_property
    def _broker_pair(self) -> CertificatePair:
        return self.authority.sign("broker", names=(HOST,))

    def _format_options(self) -> list[str]:
        users = [f"SCRAM-SHA-512=[name={name},password={password}]" for name, password in self.users.items()]
        return [part for user in users for part in ("--add-scram", user)]

    def _answers(self) -> bool:
        pair = self._pair(ADMIN)
        context = ssl.create_default_context(cafile=str(self.authority.certificate))
        context.load_cert_chain(pair.certificate, pair.key)
        try:
            with (
                socket.create_connection(("127.0.0.1", self.mutual_port), timeout=1) as wire,
                context.wrap_socket(wire, server_hostname=HOST) as secured,
            ):
                return answers_on(secured)
        except OSError:
            return False


def authority_of_a_stranger(folder: Path) -> CertificateAuthority:
    """Return an authority that the broker does not know."""
    return CertificateAuthority(folder, "stranger")
