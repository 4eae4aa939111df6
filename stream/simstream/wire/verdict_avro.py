"""Encodes verdicts as Avro, by the schema in `schemas/verdict.avsc`, and decodes them."""

from __future__ import annotations

import struct
from functools import cache, lru_cache
from typing import Final

from simstream.model import Verdict
from simstream.wire.avro_value import compile_avro
from simstream.wire.registered import RegisteredSchema, ValueReader
from simstream.wire.varint import LengthPrefixes, zigzag
from simstream.wire.verdict_schemas import text_of

_NULL: Final = b"\0"
_VALUE: Final = b"\2"
"""The number of a union's second branch, before its value."""
_text, _optional = LengthPrefixes(b"", zigzag), LengthPrefixes(_VALUE, zigzag)
_double = struct.Struct("<d").pack


def encode(verdict: Verdict) -> bytes:
    """Return the value without the schema's id. Equal verdicts give the same bytes.

    Cost: about 4 us; as JSON 2 us.
    """
    own, source, distance = verdict.id.encode(), verdict.source, verdict.distance
    similarity = verdict.similarity
    return b"".join(
        (
            _text[len(own)],
            own,
            _NULL if (one := verdict.url) is None else _optional[len(data := one.encode())] + data,
            _word(verdict.verdict),
            _NULL if (one := verdict.reason) is None else _VALUE + _word(one),
            _NULL if (one := verdict.near_duplicate_of) is None else _optional[len(data := one.encode())] + data,
            _NULL if distance is None else _VALUE + zigzag(distance),
            _NULL if similarity is None else _VALUE + _double(similarity),
            _NULL if (one := verdict.cluster_id) is None else _optional[len(data := one.encode())] + data,
            _NULL if (one := verdict.canonical) is None else _optional[len(data := one.encode())] + data,
            _items(verdict.merged_clusters),
            _NULL if (one := verdict.fingerprint) is None else _optional[len(data := one.encode())] + data,
            _word(verdict.policy),
            zigzag(verdict.ordinal),
            zigzag(verdict.time),
            _word(source.topic),
            zigzag(source.partition),
            zigzag(source.offset),
        )
    )


@lru_cache(256)
def _word(text: str) -> bytes:
    """Return a text that many verdicts have."""
    data = text.encode()
    return _text[len(data)] + data


def _items(texts: tuple[str, ...]) -> bytes:
    if not texts:
        return _NULL
    return zigzag(len(texts)) + b"".join([_text[len(data := one.encode())] + data for one in texts]) + _NULL


def read(value: bytes, at: int) -> dict[str, object]:
    """Return the fields of a value from a byte on. Raises BadValueError."""
    return _reader()(value, at)


@cache
def _reader() -> ValueReader:
    return compile_avro(RegisteredSchema("AVRO", text_of("avro")))
