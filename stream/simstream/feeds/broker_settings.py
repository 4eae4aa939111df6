"""Translates the table [kafka] (librdkafka's names) into Faust's settings for TLS and SASL."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from typing import Any

import faust

from simstream.errors import SettingsError, Unavailable

_MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")


def credentials(client: Mapping[str, Any]) -> Any:
    """Return Faust's credentials; None for brokers without TLS and SASL.

    Raises SettingsError if a file cannot be used, Unavailable for mechanisms that Faust does not know.
    """
    protocol = str(client.get("security.protocol", "plaintext")).upper()
    context = _context(client) if protocol in ("SSL", "SASL_SSL") else None
    if protocol == "PLAINTEXT":
        return None
    if protocol == "SSL":
        return faust.SSLCredentials(context)
    mechanism = str(client.get("sasl.mechanism", client.get("sasl.mechanisms", ""))).upper()
    if protocol not in ("SASL_PLAINTEXT", "SASL_SSL") or mechanism not in _MECHANISMS:
        raise Unavailable(
            f"the news page cannot log in with {protocol} {mechanism}".rstrip(),
            f"use SSL, or SASL with {', '.join(_MECHANISMS)}",
        )
    return faust.SASLCredentials(
        username=str(client.get("sasl.username", "")),
        password=str(client.get("sasl.password", "")),
        ssl_context=context,
        mechanism=mechanism,
    )


def _context(client: Mapping[str, Any]) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=client.get("ssl.ca.location"), cadata=client.get("ssl.ca.pem"))
        certificate = client.get("ssl.certificate.location")
        if certificate:
            context.load_cert_chain(certificate, client.get("ssl.key.location"), client.get("ssl.key.password"))
    except (OSError, ssl.SSLError) as error:
        raise SettingsError(
            f"a certificate or key of [kafka] cannot be used ({error})", "name readable PEM files"
        ) from None
    if str(client.get("ssl.endpoint.identification.algorithm", "https")) == "none":
        context.check_hostname = False
    return context
