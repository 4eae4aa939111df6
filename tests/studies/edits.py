"""Near copies made from a page by small edits, until their true similarity falls into a wanted range."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from random import Random
from typing import NamedTuple

from tests.studies.measure import jaccard, shingles

_SENTENCE = re.compile(r"(?:[^。！？!?\n.]|\.(?!\s|$))*(?:[。！？!?\n]+|\.\s*|$)")
_PIECE = re.compile(r"[A-Za-z]+(?:'[a-z]+)?|\d+|[\u4e00-\u9fff]{1,2}|.", re.DOTALL)
_TRIES = 14


class NearCopy(NamedTuple):
    """A page's near copy, how it was made and its true J."""

    text: str
    kind: str
    similarity: float


def sentences(text: str) -> list[str]:
    """The text cut after each sentence's end; joined it is the text."""
    return [part for part in _SENTENCE.findall(text) if part]


def near_copy(text: str, low: float, high: float, donor: str, kind: str, random: Random) -> NearCopy | None:
    """The text edited in one way (a name of KINDS) until low <= J < high; None where that does not succeed.

    Insertions come from `donor`, another page. Cost: some ten computations of J.
    """
    edit, own = KINDS[kind], shingles(text)
    amount = max(1.0, (1 - (low + high) / 2) * len(text) / 12)
    for _ in range(_TRIES):
        copy = edit(text, round(amount), donor, random)
        similarity = jaccard(own, shingles(copy))
        if low <= similarity < high:
            return NearCopy(copy, kind, similarity)
        amount = min(len(text) / 2, _adjusted(amount, similarity, (low + high) / 2, random))
    return None


def _adjusted(amount: float, similarity: float, wanted: float, random: Random) -> float:
    """More edits where the copy is still too like, fewer where it is not like enough."""
    ratio = max(0.02, 1 - wanted) / max(0.02, 1 - similarity)
    return max(1.0, amount * min(4.0, max(0.25, ratio)) * random.uniform(0.9, 1.1))


def words_replaced(text: str, amount: int, donor: str, random: Random) -> str:
    """Single words give way to words of the donor."""
    pieces, others = _PIECE.findall(text), [p for p in _PIECE.findall(donor) if p[0].isalnum()] or ["x"]
    places = [i for i, piece in enumerate(pieces) if piece[0].isalnum()]
    for place in random.sample(places, min(len(places), amount)):
        pieces[place] = random.choice(others)
    return "".join(pieces)


def words_deleted(text: str, amount: int, _donor: str, random: Random) -> str:
    """Single words are left out."""
    pieces = _PIECE.findall(text)
    places = [i for i, piece in enumerate(pieces) if piece[0].isalnum()]
    gone = set(random.sample(places, min(len(places), amount)))
    return "".join(piece for i, piece in enumerate(pieces) if i not in gone)


def words_inserted(text: str, amount: int, donor: str, random: Random) -> str:
    """Words of the donor come between."""
    pieces, others = _PIECE.findall(text), [p for p in _PIECE.findall(donor) if p[0].isalnum()] or ["x"]
    for _ in range(amount):
        word = random.choice(others)
        pieces.insert(random.randrange(len(pieces) + 1), f" {word} " if word.isascii() else word)
    return "".join(pieces)


def part_deleted(text: str, amount: int, _donor: str, random: Random) -> str:
    """One stretch of whole sentences is left out, where they are not too long."""
    goal, parts = amount * 9, sentences(text)
    start = random.randrange(len(parts))
    while goal > 0 and len(parts) > 1:
        goal -= len(parts.pop(min(start, len(parts) - 1)))
    return "".join(parts)


def part_inserted(text: str, amount: int, donor: str, random: Random) -> str:
    """A stretch of the donor's sentences comes in at one place."""
    parts, others = sentences(text), sentences(donor) or [donor]
    place, start, size = random.randrange(len(parts) + 1), random.randrange(len(others)), 0
    while size < amount * 12:
        part = others[start % len(others)]
        parts.insert(place, part[: amount * 12 - size + 1])
        size += len(part)
        start, place = start + 1, place + 1
    return "".join(parts)


def sentences_moved(text: str, amount: int, _donor: str, random: Random) -> str:
    """Sentences change places: words and most shingles stay."""
    parts = sentences(text)
    for _ in range(max(1, amount // 2)):
        parts.insert(random.randrange(len(parts)), parts.pop(random.randrange(len(parts))))
    return "".join(parts)


def framed(text: str, amount: int, donor: str, _random: Random) -> str:
    """A site's own lines stand before and after: navigation above, a footer below."""
    half = amount * 6
    return f"{donor[:half]}\n\n{text}\n\n{donor[half : 2 * half]}"


def end_changed(text: str, amount: int, donor: str, random: Random) -> str:
    """A few characters are cut off the end, or put there: what changes least."""
    if random.random() < 0.5:
        return text[: max(1, len(text) - amount)]
    return text + donor[:amount]


Edit = Callable[[str, int, str, Random], str]
KINDS: dict[str, Edit] = {
    "words replaced": words_replaced,
    "words deleted": words_deleted,
    "words inserted": words_inserted,
    "part deleted": part_deleted,
    "part inserted": part_inserted,
    "sentences moved": sentences_moved,
    "framed": framed,
    "end changed": end_changed,
}


def near_copies(
    texts: Sequence[str],
    ranges: Sequence[tuple[float, float]],
    kinds: Sequence[str],
    random: Random,
) -> list[tuple[int, NearCopy]]:
    """Return one near copy of each text for each range, with the ways of editing in turn; without failed copies."""
    made = []
    for number, text in enumerate(texts):
        for step, (low, high) in enumerate(ranges):
            donor = texts[(number + 1 + random.randrange(max(1, len(texts) - 1))) % len(texts)]
            kind = kinds[(number + step) % len(kinds)]
            near = near_copy(text, low, high, donor, kind, random)
            if near is not None:
                made.append((number, near))
    return made
