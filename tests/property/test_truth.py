"""J, shares and containment: the kernels say what plain Python sets say, and what the corpora's labels say."""

from __future__ import annotations

import json
import lzma
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simstream.evaluate import truth
from simstream.evaluate.truth import jaccard, shingle_sets, similarity
from tests import corpora, naive_truth
from tests.colliding import SECRETS

TEXTS = st.lists(st.text(st.sampled_from("ab_ 中文字，。１Éß\u0130\ud800Σ"), max_size=40), min_size=2, max_size=12)


@settings(deadline=None)  # the first example compiles
@given(TEXTS)
def test_jaccard_and_shares_are_those_of_plain_python_sets(texts: list[str]) -> None:
    sets = shingle_sets(texts)
    a, b = (side.ravel() for side in np.meshgrid(np.arange(len(texts)), np.arange(len(texts))))
    found = similarity(sets, a, b)
    expected = [(texts[i], texts[j]) for i, j in zip(a.tolist(), b.tolist(), strict=True)]
    assert found.jaccard.tolist() == [naive_truth.jaccard(*pair) for pair in expected]
    assert found.of_a.tolist() == [naive_truth.share(*pair) for pair in expected]
    assert found.of_b.tolist() == [naive_truth.share(b, a) for a, b in expected]


@settings(deadline=None)  # the first example compiles
@given(st.lists(st.text(max_size=30), max_size=6))
def test_a_set_has_as_many_shingles_as_the_python_set(texts: list[str]) -> None:
    assert shingle_sets(texts).sizes().tolist() == [len(naive_truth.shingles(text)) for text in texts]


def test_threads_change_nothing() -> None:
    texts = [f"{i % 700:040d} shared words" for i in range(1500)]
    one, two = shingle_sets(texts), shingle_sets(texts, threads=2)
    assert one.values.tobytes() == two.values.tobytes()
    assert one.starts.tobytes() == two.starts.tobytes()
    a, b = np.arange(1500), np.arange(1500)[::-1]
    assert jaccard(one, a, b).tobytes() == jaccard(one, a, b, threads=2).tobytes()


def test_a_secret_hides_the_order_of_shingles_and_keeps_what_two_sets_share(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    texts = ["".join(map(chr, range(start, start + 400))) for start in (0x4E00, 0x4E50, 0x4EA0)]
    a, b = np.array([0, 0, 1]), np.array([1, 2, 2])
    orders, shared = set(), set()
    for secret in SECRETS:
        monkeypatch.setattr(truth, "process_secret", lambda secret=secret: secret)
        sets = shingle_sets(texts)
        assert (np.diff(sets.values[: sets.starts[1]].astype(object)) > 0).all()
        orders.add(sets.values.tobytes())
        shared.add(similarity(sets, a, b).jaccard.tobytes())
    assert (len(orders), len(shared)) == (len(SECRETS), 1)


def test_no_texts_and_no_pairs_give_empty_arrays() -> None:
    sets = shingle_sets([])
    assert sets.sizes().tolist() == []
    assert jaccard(sets, np.empty(0, np.int64), np.empty(0, np.int64)).tolist() == []


@pytest.mark.corpora
@pytest.mark.parametrize("name", ["zh_lctt_revisions", "zh_msdocs_revisions"])
def test_it_is_the_similarity_that_the_corpora_are_labelled_with(name: str) -> None:
    root = corpora.folder()
    assert root is not None
    with lzma.open(root / name / "pairs.jsonl.xz", "rt", encoding="utf-8") as lines:
        pairs = [json.loads(line) for number, line in enumerate(lines) if number % 50 == 0]
    wanted = {pair[side] for pair in pairs for side in "ab"}
    texts = {doc["id"]: doc["text"] for doc in corpora.docs(name) if doc["id"] in wanted}
    if name == "zh_msdocs_revisions":
        texts = {key: re.sub(r"\A---\n.*?\n---\n", "", text, flags=re.S) for key, text in texts.items()}
    place = {key: number for number, key in enumerate(texts)}
    sets = shingle_sets(list(texts.values()))
    found = similarity(sets, *(np.array([place[pair[side]] for pair in pairs]) for side in "ab"))
    assert np.abs(found.jaccard - [pair["jaccard5"] for pair in pairs]).max() < 0.0001
    containment = np.maximum(found.of_a, found.of_b)
    assert np.abs(containment - [pair["containment5"] for pair in pairs]).max() < 0.0001
