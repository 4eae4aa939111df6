"""The parts of the Spark job, without Spark: blocks miss no match and tell none twice; forests tie all ties."""

from __future__ import annotations

import dataclasses
from collections import defaultdict

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simstream.judge.policy import Policy
from simstream.model import PageKind

pytest.importorskip("pyspark")
from simstream.spark.comparison import forest, newest
from simstream.spark.pairs import Entry, FingerprintBlocks, Match, blocked, matches
from tests.short import examples

POLICY = Policy("12345678", 128, 8, 90, None, "any", short_words=20, short_distance=5, short_agreement=100)


def entries(seed: int, count: int) -> list[Entry]:
    """Fingerprints and sketches around few centres, so that many are near."""
    rng = np.random.default_rng(seed)
    centres = rng.integers(0, 2**64, (5, 3), np.uint64)
    made = []
    for number in range(count):
        words = centres[rng.integers(5)].copy()
        for bit in rng.integers(0, 64, rng.integers(0, 8)):
            words[0] ^= np.uint64(1) << np.uint64(bit)
        for bit in rng.integers(0, 128, rng.integers(0, 50)):
            words[1 + bit // 64] ^= np.uint64(1) << np.uint64(bit % 64)
        signed = int(words[:1].view(np.int64)[0])
        made.append((number * 7, signed, words[1:].tobytes(), bool(rng.integers(2))))
    return made


def by_blocks(rows: list[Entry], policy: Policy) -> list[Match]:
    blocks = FingerprintBlocks.of(policy.distance, policy.lookups)
    groups = defaultdict(list)
    for key, part in blocked(rows, blocks, policy):
        groups[key].append(part)
    return [match for (block, _), parts in groups.items() for match in matches(block, parts, blocks, policy)]


def by_hand(rows: list[Entry], policy: Policy) -> list[Match]:
    found = []
    for place, (number, bits, sketch, short) in enumerate(rows):
        for other, other_bits, other_sketch, other_short in rows[place + 1 :]:
            further = 8 * (policy.fingerprints - 1)
            pairs = [((bits ^ other_bits) & (2**64 - 1)).bit_count()]
            for at in range(0, 8 * (policy.lookups - 1), 8):
                one, two = (int.from_bytes(column[at : at + 8]) for column in (sketch, other_sketch))
                pairs.append((one ^ two).bit_count())
            distance = min(pairs)
            unlike = (int.from_bytes(sketch[further:]) ^ int.from_bytes(other_sketch[further:])).bit_count()
            agreement = policy.sketch_bits - unlike
            strict = policy.short_words and (short or other_short)
            most = policy.short_distance if strict else policy.distance
            least = policy.short_agreement if strict else policy.agreement
            if distance <= most and agreement >= least:
                found.append((number, other, distance, agreement))
    return found


@pytest.mark.parametrize(("fingerprints", "sketch_lookups"), [(1, 0), (2, 0), (3, 0), (1, 1), (2, 1)])
@pytest.mark.parametrize("distance", [0, 3, 8, 16])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_all_matches_are_found_and_each_is_told_once(
    seed: int, distance: int, fingerprints: int, sketch_lookups: int
) -> None:
    limits = {"distance": distance, "short_distance": min(distance, 5)}
    policy = dataclasses.replace(POLICY, **limits, sketch_lookups=sketch_lookups)
    if fingerprints > 1:  # the first words of the column are fingerprints then
        bits = 128 - 64 * (fingerprints - 1)
        limits = {"agreement": bits * 7 // 10, "short_agreement": bits * 8 // 10}
        policy = dataclasses.replace(policy, sketch_bits=bits, fingerprints=fingerprints, **limits)
    rows = entries(seed, 150)
    expected = by_hand(rows, policy)
    assert sorted(by_blocks(rows, policy)) == expected
    assert expected or distance == 0


def test_a_recipe_without_sketch_and_without_short_pages() -> None:
    policy = Policy("12345678", 0, 3, 0, None, "any")
    rows = [(number, bits, b"", short) for number, bits, _, short in entries(4, 100)]
    assert sorted(by_blocks(rows, policy)) == by_hand(rows, policy)


@settings(max_examples=examples(100), deadline=None)
@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)), max_size=60), st.integers(1, 5))
def test_forests_of_parts_tie_what_all_ties_do(ties: list[tuple[int, int]], parts: int) -> None:
    cluster = {number: number for number in range(31)}
    for left, right in ties * 31:
        cluster[left] = cluster[right] = min(cluster[left], cluster[right])
    own = [tie for part in range(parts) for tie in forest(ties[part::parts])]
    found = dict.fromkeys(range(31))
    for root, number in forest(own):
        assert found[number] is None
        found[number] = root
    assert {number: number if root is None else root for number, root in found.items()} == cluster


def test_a_page_is_its_last_version_with_the_age_since_it_is_unchanged() -> None:
    policy = Policy("12345678", 0, 3, 0, None, "any")

    def version(
        number: int, fingerprint: int, kind: PageKind = PageKind.READABLE
    ) -> tuple[int, int, int, bytes, bool]:
        return number, int(kind), fingerprint, b"", False

    one, near, nearer, other = (
        version(number, bits) for number, bits in ((1, 0), (2, 0b11), (3, 0b11111), (4, -1))
    )
    gone = version(5, 0, PageKind.WITHDRAWN)
    assert list(newest([one, near, nearer], policy)) == [(1, 0b11111, b"", False)]
    assert list(newest([one, nearer], policy)) == [(3, 0b11111, b"", False)]
    assert list(newest([one, other], policy)) == [(4, -1, b"", False)]
    assert list(newest([one, gone], policy)) == []
    assert list(newest([one, gone, version(6, 0)], policy)) == [(6, 0, b"", False)]
