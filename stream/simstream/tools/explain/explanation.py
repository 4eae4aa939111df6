"""The types of an explanation; its JSON has the same fields in the same order."""

from __future__ import annotations

import msgspec


class AppliedRules(msgspec.Struct, frozen=True):
    """The recipe and the policy that applied. `similarity` is what `agreement` bits of the sketch stand for.

    Only the heaviest `top` words count, where it is not 0. Pages of fewer than `short_words` distinct words are
    short; where one of two is, the `short_` limits apply.
    """

    recipe: str
    recipe_id: str
    min_words: int
    top: int
    sketch_bits: int
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
    """The version of the page that was live when this one came, and how near this one is to it.

    `distance` to `rejected_by` are None where this one has nothing to compare.
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
    """The judge's state just before the page, in pages and ms. `late`: the window had passed the page already."""

    live_pages: int
    stream_time: int | None
    late: bool
    earlier: EarlierPage | None


class CandidateView(msgspec.Struct, frozen=True):
    """A live page near this one; `rejected_by` is the rule that kept it from being a match, None for one.

    `short`: one of the two is a short page.
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
        """Whether it is a match."""
        return self.rejected_by is None


class WordView(msgspec.Struct, frozen=True, array_like=True):
    """A word, its occurrences in the text, and what it weighs there."""

    word: str
    times: int
    weight: float


class TextPiece(msgspec.Struct, frozen=True, array_like=True):
    """A run of text, and whether only one of two pages has it."""

    text: str
    changed: bool


class TextPassage(msgspec.Struct, frozen=True):
    """A place where two texts differ, with some words around it. `before` and `after`: more text is there."""

    other: tuple[TextPiece, ...]
    page: tuple[TextPiece, ...]
    before: bool
    after: bool


class TextDifference(msgspec.Struct, frozen=True):
    """Where the text of another page differs from the page's; `missing` says why that is not known."""

    id: str
    ordinal: int
    passages: tuple[TextPassage, ...] = ()
    same: int = 0
    """Words that both have, in order."""
    only_other: int = 0
    only_page: int = 0
    missing: str | None = None


class Explanation(msgspec.Struct, frozen=True):
    """Why a page got its verdict. Lists may have been cut; the counts beside them are of all.

    `verdict` is what the log or the files give now, `published` what was published: None, as `agrees` is, where
    nothing was (files). `detail` says what is wrong with a page that was not compared. `text_missing` says why
    there are no words; `text_cut`: only the text's beginning was fingerprinted.
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
