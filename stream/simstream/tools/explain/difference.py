"""Finds the words in which two texts differ: compares sentences, then words of sentences that differ.

The words are the recipe's own tokens, compared without regard to case, width and space, as the recipe does.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterator, Sequence
from difflib import Match, SequenceMatcher
from itertools import accumulate, pairwise
from typing import NamedTuple

from simstream.tools.explain.explanation import TextPassage, TextPiece

CONTEXT_WORDS = 12
"""The number of words shown around a difference."""
MAX_WORDS = 2_000
"""A longer passage is compared as a whole: comparing by words costs up to the square."""
MAX_STEPS, MAX_STEPS_A_WORD = 300_000, 10
"""The most steps of a comparison, and how many more for each word of both texts. All of them take some .3 s for
texts of 40,000 characters, as long as texts that are alike take in all."""
MAX_SHOWN_WORDS = 80
"""The number of words of one run that are shown. A longer run is shown by its beginning and its end."""
_ENDS = frozenset("。！？!?.…；;")
_WORD = re.compile(r"\w")
_PLAIN = re.compile(r"[^\W\u2e80-\U0003ffff]+|\s+|.", re.DOTALL)
"""A word, a run of space, or one character. Characters from U+2E80 on are Han, kana, Hangul and others."""


class TextUnit(NamedTuple):
    """A token with the space behind it, and its form that is compared."""

    text: str
    key: str

    @property
    def is_word(self) -> bool:
        """Whether the token has a letter or digit."""
        return _WORD.search(self.key) is not None


class TextRun(NamedTuple):
    """`other[a:b]` stands in the place of `page[c:d]`. `same`: they are equal."""

    same: bool
    a: int
    b: int
    c: int
    d: int


def units(text: str, tokens: Sequence[str]) -> list[TextUnit]:
    """Return the tokens of the folded text as units of the text itself: folding keeps every place.

    Where tokens overlap, as in some modes of jieba, returns words and single Han characters instead.
    """
    if sum(map(len, tokens)) != len(text):
        tokens = _PLAIN.findall(text)
    made: list[TextUnit] = []
    at = 0
    for token in tokens:
        shown = text[at : at + len(token)]
        at += len(token)
        if token.isspace() and made:
            made[-1] = TextUnit(made[-1].text + shown, made[-1].key)
        else:
            made.append(TextUnit(shown, token.casefold().strip()))
    return made


def runs(other: Sequence[TextUnit], page: Sequence[TextUnit]) -> list[TextRun]:
    """Return equal and different runs, in order, without a gap.

    Cost: linear, as _Budget bounds it. What is not compared within it counts as different.
    """
    a, b = [unit.key for unit in other], [unit.key for unit in page]
    head = _common(a, b)
    tail = _common(a[head:][::-1], b[head:][::-1])
    budget = _Budget(MAX_STEPS + MAX_STEPS_A_WORD * (len(a) + len(b)))
    inner = _by_sentences(a[head : len(a) - tail], b[head : len(b) - tail], budget)
    found = [TextRun(True, 0, head, 0, head)]
    found += [TextRun(same, i + head, j + head, k + head, m + head) for same, i, j, k, m in inner]
    found.append(TextRun(True, len(a) - tail, len(a), len(b) - tail, len(b)))
    return _joined(found)


def readable(runs: Sequence[TextRun]) -> list[TextRun]:
    """Drop equal runs that are no longer than the changes on both sides: a word that two sentences share by chance
    tells nothing."""
    made: list[TextRun] = []
    for run in runs:
        made.append(run)
        while len(made) >= 3 and not made[-1].same and _by_chance(*made[-3:]):
            before, _, after = made[-3:]
            made[-3:] = [TextRun(False, before.a, after.b, before.c, after.d)]
    return made


def _by_chance(before: TextRun, between: TextRun, after: TextRun) -> bool:
    size = between.b - between.a
    sizes = [max(run.b - run.a, run.d - run.c) for run in (before, after)]
    return between.same and not before.same and size <= min(sizes)


def passages(other: Sequence[TextUnit], page: Sequence[TextUnit], runs: Sequence[TextRun]) -> list[TextPassage]:
    """Return the passages that differ, each with some words around it. Passages near each other become one."""
    made: list[TextPassage] = []
    group: list[TextRun] = []
    for number, run in enumerate(runs):
        near = run.b - run.a <= 2 * CONTEXT_WORDS and 0 < number < len(runs) - 1
        if near or not run.same:
            group.append(run)
        elif group:
            made.append(_passage(other, page, group))
            group = []
    if group:
        made.append(_passage(other, page, group))
    return made


def counts(other: Sequence[TextUnit], page: Sequence[TextUnit], runs: Sequence[TextRun]) -> tuple[int, int, int]:
    """Return the number of words that both have in order, that only the other has, and that only the page has."""
    same = sum(unit.is_word for run in runs if run.same for unit in page[run.c : run.d])
    only_other = sum(unit.is_word for run in runs if not run.same for unit in other[run.a : run.b])
    only_page = sum(unit.is_word for run in runs if not run.same for unit in page[run.c : run.d])
    return same, only_other, only_page


def _common(a: Sequence[str], b: Sequence[str]) -> int:
    """Return the number of equal items at the beginning."""
    return next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))


class _Budget:
    """How many steps a comparison may still take. A stranger's texts could take the cube of their length."""

    def __init__(self, steps: int) -> None:
        self.steps = steps


class _BoundedMatcher(SequenceMatcher[Hashable]):
    """Finds no more matches once the budget is spent; the longest ones are found first."""

    def __init__(self, a: Sequence[Hashable], b: Sequence[Hashable], budget: _Budget) -> None:
        super().__init__(None, a, b)
        self._budget = budget
        places: dict[Hashable, list[int]] = self.b2j  # type: ignore[attr-defined]  # documented, and not declared
        self._steps = [0, *accumulate(1 + len(places.get(item, ())) for item in a)]

    def find_longest_match(
        self, alo: int = 0, ahi: int | None = None, blo: int = 0, bhi: int | None = None
    ) -> Match:
        """See SequenceMatcher: it looks at each place in `b` of each item of `a`."""
        self._budget.steps -= self._steps[-1 if ahi is None else ahi] - self._steps[alo]
        if self._budget.steps < 0:
            return Match(alo, blo, 0)
        return super().find_longest_match(alo, ahi, blo, bhi)


def _by_sentences(a: list[str], b: list[str], budget: _Budget) -> Iterator[TextRun]:
    ends_a, ends_b = _sentences(a), _sentences(b)
    for same, i, j, k, m in _opcodes(_parts(a, ends_a), _parts(b, ends_b), budget):
        a0, a1, b0, b1 = ends_a[i], ends_a[j], ends_b[k], ends_b[m]
        if same or max(a1 - a0, b1 - b0) > MAX_WORDS:
            yield TextRun(same, a0, a1, b0, b1)
        else:
            for inner, i2, j2, k2, m2 in _opcodes(a[a0:a1], b[b0:b1], budget):
                yield TextRun(inner, a0 + i2, a0 + j2, b0 + k2, b0 + m2)


def _opcodes(a: Sequence[Hashable], b: Sequence[Hashable], budget: _Budget) -> Iterator[TextRun]:
    for tag, i, j, k, m in _BoundedMatcher(a, b, budget).get_opcodes():
        yield TextRun(tag == "equal", i, j, k, m)


def _sentences(keys: Sequence[str]) -> list[int]:
    """Return where sentences begin, and where the last one ends."""
    ends = [0, *(i + 1 for i, key in enumerate(keys) if key in _ENDS)]
    return ends if ends[-1] == len(keys) else [*ends, len(keys)]


def _parts(keys: list[str], ends: list[int]) -> list[tuple[str, ...]]:
    return [tuple(keys[i:j]) for i, j in pairwise(ends)]


def _joined(runs: Sequence[TextRun]) -> list[TextRun]:
    """Drop empty runs, and join neighbours of one kind."""
    made: list[TextRun] = []
    for run in runs:
        if run.a == run.b and run.c == run.d:
            continue
        if made and made[-1].same == run.same:
            made[-1] = made[-1]._replace(b=run.b, d=run.d)
        else:
            made.append(run)
    return made


def _passage(other: Sequence[TextUnit], page: Sequence[TextUnit], group: Sequence[TextRun]) -> TextPassage:
    first, last = group[0], group[-1]
    lead = min(CONTEXT_WORDS, first.a, first.c)
    trail = min(CONTEXT_WORDS, len(other) - last.b, len(page) - last.d)
    whole = [
        TextRun(True, first.a - lead, first.a, first.c - lead, first.c),
        *group,
        TextRun(True, last.b, last.b + trail, last.d, last.d + trail),
    ]
    return TextPassage(
        other=tuple(_pieces(other, [(run.same, run.a, run.b) for run in whole])),
        page=tuple(_pieces(page, [(run.same, run.c, run.d) for run in whole])),
        before=max(first.a, first.c) > lead,
        after=max(len(other) - last.b, len(page) - last.d) > trail,
    )


def _pieces(all_units: Sequence[TextUnit], spans: Sequence[tuple[bool, int, int]]) -> Iterator[TextPiece]:
    for same, start, end in spans:
        if start < end:
            yield TextPiece(_shown(all_units[start:end]), not same)


def _shown(run: Sequence[TextUnit]) -> str:
    if len(run) <= MAX_SHOWN_WORDS:
        return "".join(unit.text for unit in run)
    half = MAX_SHOWN_WORDS // 2
    head, tail = run[:half], run[-half:]
    gap = f" … ({len(run) - 2 * half:,} more) … "
    return "".join(unit.text for unit in head).rstrip() + gap + "".join(unit.text for unit in tail)
