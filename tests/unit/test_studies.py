"""What studies count with: intervals, true similarity, and edits that reach the similarity they aim at."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.studies.edits import KINDS, near_copy, sentences
from tests.studies.measure import bin_of, jaccard, share, shingles


def invented(name: str, sentence_count: int) -> str:
    """Sentences of six made-up words each."""
    random = Random(name)
    words = ("".join(random.choices("aeiourstlnmk", k=random.randint(2, 8))) for _ in range(6 * sentence_count))
    return " ".join(" ".join(next(words) for _ in range(6)) + "." for _ in range(sentence_count))


STORY, OTHER = invented("story", 60), invented("other", 60)


MOVED = "sentences moved"  # even all of them moved leave the shingles within them


def plain_jaccard(a: str, b: str) -> float:
    """The obvious way, with sets of strings."""
    sets = []
    for text in (a, b):
        kept = "".join(c for c in text.lower() if c.isalnum())
        sets.append({kept[i : i + 5] for i in range(max(1, len(kept) - 4))} - {""})
    union = sets[0] | sets[1]
    return len(sets[0] & sets[1]) / max(1, len(union))


@settings(deadline=None)  # the first example may compile
@given(st.text("ab新闻 ,.Ä", max_size=60), st.text("ab新闻 ,.Ä", max_size=60))
def test_similarity_is_that_of_sets_of_shingles(a: str, b: str) -> None:
    assert jaccard(shingles(a), shingles(b)) == plain_jaccard(a, b)


@pytest.mark.parametrize(
    ("count", "n", "low", "high"), [(0, 10, 0.0, 0.2775), (8, 10, 0.4902, 0.9433), (5, 5, 0.5655, 1)]
)
def test_intervals_are_wilsons(count: int, n: int, low: float, high: float) -> None:
    found = share(count, n)
    assert (found["low"], found["high"]) == (pytest.approx(low, abs=1e-4), pytest.approx(high, abs=1e-4))


def test_a_share_of_nothing_is_unknown() -> None:
    assert share(0, 0)["share"] is None


def test_bins_hold_their_lower_edge() -> None:
    assert [bin_of(value) for value in (1.0, 0.9, 0.89, 0.7, 0.5, 0.3, 0.0)] == [0, 0, 1, 2, 4, 5, 6]


@given(st.text("ab。. \n！", max_size=40))
def test_sentences_joined_are_the_text(text: str) -> None:
    assert "".join(sentences(text)) == text


def test_a_point_within_a_number_ends_no_sentence() -> None:
    assert sentences("Up 3.5 per cent. 增长8.8%。Done.") == ["Up 3.5 per cent. ", "增长8.8%。", "Done."]


@pytest.mark.parametrize(
    ("kind", "low", "high"),
    [(kind, low, high) for kind in KINDS for low, high in ((0.8, 0.9), (0.6, 0.7)) if (kind, low) != (MOVED, 0.6)],
)
def test_a_near_copy_has_the_similarity_that_was_asked_for(kind: str, low: float, high: float) -> None:
    made = [near_copy(STORY, low, high, OTHER, kind, Random(seed)) for seed in range(6)]
    found = [near for near in made if near is not None]
    assert found
    for near in found:
        assert low <= plain_jaccard(STORY, near.text) < high
        assert near.text != STORY
