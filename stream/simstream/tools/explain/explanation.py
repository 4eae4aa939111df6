"""Defines the types of an explanation; its JSON has the same fields in the same order."""

from __future__ import annotations

import msgspec


class AppliedRules(msgspec.Struct, frozen=True):
    """The recipe and the policy that applied. `similarity` is the J that `agreement` bits of the sketch estimate.

    If `top` is not 0, only the heaviest `top` words count. A page of fewer than `short_words` distinct words is
    short. If one of two pages is short, the `short_` limits apply.
    """

    recipe: str
    recipe_id: str
    min_words: int
    top: int
    sketch_bits: int
    fingerprints: int
    sketch_lookups: int
    policy: str
    distance: int
    agreement: int | None
    similarity: float | None
    short_words: int
    short_distance: int | None
    short_agreement: int | None
    window_ms: int | None
    link: str


class EarlierPage(msgspec.Struct, frozen=True):
    """The page's version that was live when the page came again, and how near both versions are.

    `distance` to `rejected_by` are None if the new version has nothing to compare.
    """

    ordinal: int
    time: int
    cluster_id: str
    distance: int | None = None
    agreement: int | None = None
    similarity: float | None = None
    short: bool = False
    rejected_by: str | None = None


class StateBefore(msgspec.Struct, frozen=True):
    """The judge's state just before the page, in pages and ms.

    `late`: the page was already older than the window.
    """

    live_pages: int
    stream_time: int | None
    late: bool
    earlier: EarlierPage | None


class CandidateView(msgspec.Struct, frozen=True):
    """A live page near this page. `rejected_by` is the rule that rejected it, None for a match.

    `short`: one of both pages is short.
    """

    id: str
    ordinal: int
    distance: int
    agreement: int | None
    similarity: float | None
    cluster_id: str
    short: bool
    rejected_by: str | None

    @property
    def accepted(self) -> bool:
        """Whether the candidate is a match."""
        return self.rejected_by is None


class WordView(msgspec.Struct, frozen=True, array_like=True):
    """A word, the number of its occurrences in the text, and its weight there."""

    word: str
    times: int
    weight: float


class TextPiece(msgspec.Struct, frozen=True, array_like=True):
    """A run of text, and whether only one of the two pages has it."""

    text: str
    changed: bool


class TextPassage(msgspec.Struct, frozen=True):
    """A place where two texts differ, with some words around it. `before` and `after`: the text goes on there."""

    other: tuple[TextPiece, ...]
    page: tuple[TextPiece, ...]
    before: bool
    after: bool


class TextDifference(msgspec.Struct, frozen=True):
    """The differences between the text of another page and the page's text.

    `missing` says why they are not known.
    """

    id: str
    ordinal: int
    passages: tuple[TextPassage, ...] = ()
    same: int = 0
    """The number of words that both texts have in order."""
    only_other: int = 0
    only_page: int = 0
    missing: str | None = None


class TextOverlap(msgspec.Struct, frozen=True):
    """How much of the page's text another page has, and the reverse, counted in runs of five letters and digits.

    The shares have 4 decimals. A share is 1 only if the text is there whole.
    """

    id: str
    ordinal: int
    jaccard: float
    """The true Jaccard similarity."""
    of_page: float
    """The share of the page's text that the other page has too; 1 where the other page quotes all of it."""
    of_other: float
    """The share of the other page's text that the page has too."""


class Explanation(msgspec.Struct, frozen=True):
    """Why a page got its verdict. Lists may be cut; the counts beside them are complete.

    `verdict` is what the log or the files give now. `published` is what was published; for files `published` and
    `agrees` are None. `detail` says why a page was not compared. `text_missing` says why there are no words.
    `text_cut`: only the beginning of the text was fingerprinted. `overlap` is with the same page as
    `difference`, if both texts are known.
    """

    id: str
    sentence: str
    verdict: msgspec.Raw
    published: msgspec.Raw | None
    agrees: bool | None
    detail: str | None
    rules: AppliedRules
    before: StateBefore
    distinct_words: int
    words: tuple[WordView, ...]
    text_missing: str | None
    text_cut: bool
    matches: int
    candidate_count: int
    candidates: tuple[CandidateView, ...]
    beside: CandidateView | None
    difference: TextDifference | None = None
    overlap: TextOverlap | None = None
