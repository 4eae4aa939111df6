"""Verdicts as JSON: the design's bytes, and similarity in exact arithmetic."""

from __future__ import annotations

import json
from decimal import ROUND_HALF_UP, Decimal
from fractions import Fraction

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simstream.model import PageSource, Verdict
from simstream.wire import verdict as wire

EXAMPLE = (
    b'{"id":"https://b.example/7","url":"https://b.example/7","verdict":"near_duplicate","reason":null,'
    b'"near_duplicate_of":"https://a.example/1","distance":3,"similarity":0.8906,"cluster_id":"17",'
    b'"canonical":"https://a.example/1","merged_clusters":[],"fingerprint":"9c41f07ab2e35d68","policy":"5be0c2d1",'
    b'"ordinal":42,"time":1795000000000,"source":{"topic":"simstream.pages","partition":3,"offset":1288}}'
)


def verdict(**changes: object) -> Verdict:
    return msgspec.structs.replace(wire.decode(EXAMPLE), **changes)


def test_the_designs_example_comes_out_byte_for_byte() -> None:
    made = Verdict(
        id="https://b.example/7",
        url="https://b.example/7",
        verdict="near_duplicate",
        reason=None,
        near_duplicate_of="https://a.example/1",
        distance=3,
        similarity=wire.similarity(121, 128),
        cluster_id="17",
        canonical="https://a.example/1",
        merged_clusters=(),
        fingerprint="9c41f07ab2e35d68",
        policy="5be0c2d1",
        ordinal=42,
        time=1_795_000_000_000,
        source=PageSource("simstream.pages", 3, 1288),
    )
    assert wire.encode(made) == EXAMPLE
    assert wire.decode(EXAMPLE) == made


def test_a_page_that_was_not_compared_has_nulls() -> None:
    bare = verdict(
        url=None, verdict="unreadable", reason="bad_json", near_duplicate_of=None, distance=None, similarity=None,
        cluster_id=None, canonical=None, fingerprint=None,
    )  # fmt: skip
    found = json.loads(wire.encode(bare))
    names = ("url", "near_duplicate_of", "distance", "similarity", "cluster_id", "canonical", "fingerprint")
    assert all(found[name] is None for name in names)
    assert found["merged_clusters"] == []


def test_non_ascii_is_unchanged_and_controls_are_escaped() -> None:
    data = wire.encode(verdict(id='新闻\n"\\\x00\u2028', url="ü"))
    assert "新闻".encode() in data
    assert b"\n" not in data
    assert json.loads(data)["id"] == '新闻\n"\\\x00\u2028'


@pytest.mark.parametrize(("value", "text"), [(1.0, b"1.0000"), (0.0, b"0.0000"), (0.5, b"0.5000")])
def test_similarity_always_has_four_decimals(value: float, text: bytes) -> None:
    assert b'"similarity":' + text + b"," in wire.encode(verdict(similarity=value))


@pytest.mark.parametrize("bits", [64, 128, 192, 256])
def test_similarity_is_that_of_fractions_for_every_agreement(bits: int) -> None:
    for agreement in range(bits + 1):
        exact = max(Fraction(0), Fraction(2 * agreement, bits) - 1)
        rounded = (Decimal(exact.numerator) / Decimal(exact.denominator)).quantize(Decimal("0.0001"), ROUND_HALF_UP)
        found = wire.similarity(agreement, bits)
        assert found is not None
        assert f"{found:.4f}" == str(rounded), (agreement, bits)


def test_without_a_sketch_there_is_no_similarity() -> None:
    assert wire.similarity(0, 0) is None


texts = st.text(st.characters(codec="utf-8"), max_size=20)


@given(st.builds(
    Verdict, id=texts, url=st.none() | texts, verdict=st.sampled_from(["new", "unchanged"]),
    reason=st.none() | texts,
    near_duplicate_of=st.none() | texts, distance=st.none() | st.integers(0, 63),
    similarity=st.none() | st.integers(0, 256).map(lambda a: wire.similarity(a, 256)),
    cluster_id=st.none() | st.integers(0, 2**63).map(str), canonical=st.none() | texts,
    merged_clusters=st.lists(st.integers(0, 2**63).map(str), max_size=3).map(tuple),
    fingerprint=st.none() | st.integers(0, 2**64 - 1).map("{:016x}".format), policy=st.just("5be0c2d1"),
    ordinal=st.integers(0, 2**62), time=st.integers(0, 2**62),
    source=st.builds(PageSource, texts, st.integers(0, 9), st.integers(0, 2**62)),
))  # fmt: skip
def test_every_verdict_comes_back_in_the_designs_order_and_without_spaces(made: Verdict) -> None:
    data = wire.encode(made)
    assert wire.decode(data) == made
    found = json.loads(data)
    assert list(found) == list(Verdict.__struct_fields__)
    compact = json.dumps(found, ensure_ascii=False, separators=(",", ":"))
    assert msgspec.json.decode(compact) == msgspec.json.decode(data)
