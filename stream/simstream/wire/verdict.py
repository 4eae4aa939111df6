"""Encodes verdicts as JSON in a fixed order of fields, and decodes them."""

from __future__ import annotations

import msgspec

from simstream.errors import LogDamaged
from simstream.model import Verdict

_json = msgspec.json.Encoder().encode
_decoder = msgspec.json.Decoder(Verdict)
_LAYOUT = (
    b'{"id":%b,"url":%b,"verdict":"%b","reason":%b,"near_duplicate_of":%b,"distance":%b,"similarity":%b,'
    b'"cluster_id":%b,"canonical":%b,"merged_clusters":%b,"fingerprint":%b,"policy":"%b",'
    b'"ordinal":%d,"time":%d,"source":{"topic":%b,"partition":%d,"offset":%d}}'
)


def encode(v: Verdict) -> bytes:
    """Return the record's value: UTF-8, non-ASCII unescaped, no spaces, similarity with exactly 4 decimals."""
    return _LAYOUT % (
        _json(v.id),
        _json(v.url),
        v.verdict.encode(),
        _json(v.reason),
        _json(v.near_duplicate_of),
        _json(v.distance),
        b"null" if v.similarity is None else b"%.4f" % v.similarity,
        _json(v.cluster_id),
        _json(v.canonical),
        _json(v.merged_clusters),
        _json(v.fingerprint),
        v.policy.encode(),
        v.ordinal,
        v.time,
        _json(v.source.topic),
        v.source.partition,
        v.source.offset,
    )


def decode(data: bytes) -> Verdict:
    """Return the verdict. Raises LogDamaged if the bytes are no verdict."""
    try:
        return _decoder.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise LogDamaged(
            f"a record of verdicts is not a verdict ({str(error)[:100]})",
            "stop the other program that writes to this topic",
        ) from error


def similarity(agreement: int, bits: int) -> float | None:
    """Return max(0, 2a/m - 1) to 4 decimals, half up, computed in integers; None if the recipe has no sketch."""
    if not bits:
        return None
    return (max(0, 2 * agreement - bits) * 20_000 + bits) // (2 * bits) / 10_000
