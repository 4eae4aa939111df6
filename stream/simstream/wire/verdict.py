"""Encodes verdicts in a fixed order of fields, as JSON or by a registered schema, and decodes them.

The first bytes say what a value is, so no reader needs a setting or a registry. JSON begins with `{`. Any other
value begins with a zero byte and the id of its schema. Then `{` begins JSON, and a zero byte a message of Protobuf.
Else the value is Avro: it begins with the length of the page's id, which is neither of the two bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec

from simstream.errors import LogDamaged
from simstream.model import Verdict
from simstream.wire import verdict_avro, verdict_protobuf
from simstream.wire.bad_value import BadValueError
from simstream.wire.registered import HEAD_BYTES

_json = msgspec.json.Encoder().encode
_decoder = msgspec.json.Decoder(Verdict)
_FIRST_MESSAGE = b"\0"
"""Stands between a schema's id and a message of Protobuf that is the first one of its file."""
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


_ENCODERS: Final = {
    "avro": (verdict_avro.encode,),
    "protobuf": (verdict_protobuf.encode,),
    "json_schema": (encode,),
}
"""The function for each schema of each `verdicts_format`, in the order of `verdict_schemas.schemas_of`."""


def encoder_of(verdicts_format: str, schema_id: int | None, age: int = 0) -> Callable[[Verdict], bytes]:
    """Return what encodes verdicts in a `verdicts_format`, by the schema with this id; `json` has no schema.

    `age`: how many newer schemas the format has.
    """
    if schema_id is None:
        return encode
    head = b"\0" + schema_id.to_bytes(HEAD_BYTES - 1, "big")
    if verdicts_format == "protobuf":
        head += _FIRST_MESSAGE
    value_of = _ENCODERS[verdicts_format][age]
    return lambda verdict: head + value_of(verdict)


def decode(data: bytes) -> Verdict:
    """Return the verdict, whatever format it has. Raises LogDamaged if the bytes are no verdict.

    Cost: about 2 us from JSON, 10 us from Avro, 20 us from Protobuf.
    """
    try:
        if data[:1] != b"\0":
            return _decoder.decode(data)
        match data[HEAD_BYTES : HEAD_BYTES + 1]:
            case b"{":
                return _decoder.decode(data[HEAD_BYTES:])
            case b"\0":
                tree = verdict_protobuf.read(data, HEAD_BYTES + 1)
            case _:
                tree = verdict_avro.read(data, HEAD_BYTES)
        return msgspec.convert(tree, Verdict)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, BadValueError) as error:
        raise no_verdict(error) from error


def no_verdict(error: Exception) -> LogDamaged:
    """Return the error for a record that is no verdict."""
    return LogDamaged(
        f"a record of verdicts is not a verdict ({str(error)[:100]})",
        "stop the other program that writes to this topic",
    )


def as_json(data: bytes) -> bytes:
    """Return the verdict as JSON, without any change if it is. Raises LogDamaged if other bytes are no verdict."""
    if data[:1] != b"\0":
        return data
    return data[HEAD_BYTES:] if data[HEAD_BYTES : HEAD_BYTES + 1] == b"{" else encode(decode(data))


def similarity(agreement: int, bits: int) -> float | None:
    """Return max(0, 2a/m - 1) to 4 decimals, half up, computed in integers; None if the recipe has no sketch."""
    if not bits:
        return None
    return (max(0, 2 * agreement - bits) * 20_000 + bits) // (2 * bits) / 10_000
