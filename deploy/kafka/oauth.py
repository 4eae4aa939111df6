"""A real one-node Kafka for tests that lets clients in by an OAuth token (SASL/OAUTHBEARER).

It takes unsigned tokens, as Kafka does where no other validator is configured: `unsigned_token` makes one.
"""

from __future__ import annotations

import base64
import json
import time

from deploy.kafka.broker import KafkaBroker

CLIENT = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanisms": "OAUTHBEARER"}
"""The settings of a client, without its token."""
CONFIG = """
listeners=OAUTH://127.0.0.1:{port},DETOUR://127.0.0.1:{detour_port},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=OAUTH://127.0.0.1:{port},DETOUR://127.0.0.1:{detour_port}
listener.security.protocol.map=OAUTH:SASL_PLAINTEXT,DETOUR:PLAINTEXT,CONTROLLER:PLAINTEXT
inter.broker.listener.name=DETOUR
sasl.enabled.mechanisms=OAUTHBEARER
listener.name.oauth.oauthbearer.sasl.jaas.config=\
 org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required \
 unsecuredLoginStringClaim_sub="broker";
"""


class OAuthBroker(KafkaBroker):
    """See the module. `port` asks for a token, `detour_port` asks for nothing."""

    def _more_config(self) -> str:
        return CONFIG.format(port=self.port, detour_port=self.detour_port, controller=self._controller_port)


def unsigned_token(user: str, seconds: float = 3600.0) -> tuple[str, float]:
    """Return a token for a user, and when it ends, in seconds since 1970, as `oauth_cb` returns both."""
    now = time.time()
    claims = {"sub": user, "iat": now - 1, "exp": now + seconds}
    parts = [base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=") for part in ({"alg": "none"}, claims)]
    return b".".join([*parts, b""]).decode(), now + seconds
