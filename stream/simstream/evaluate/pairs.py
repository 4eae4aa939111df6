"""Reads labelled pairs, finds the corpus of each, and computes their true J."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Annotated, Final, NamedTuple, Self

import msgspec
import numpy as np
from numpy.typing import NDArray

from simstream.errors import InputError, InputMissing, UsageError
from simstream.evaluate.corpus import NO_GROUP, Corpus
from simstream.evaluate.truth import ShingleSets, jaccard
from simstream.sources.input_files import shown_path
from simstream.sources.lines import CountedFile, lines, unpacked

SAME: Final = 1
DIFFERENT: Final = 0
_MAX_LINE_BYTES: Final = 1 << 20
_MAX_J_DIFFERENCE: Final = 0.02
"""A given J that differs by more than this from the texts' J was measured on other texts."""


class LabelledPair(msgspec.Struct, frozen=True, gc=False):
    """One line of a file of pairs: the ids of two pages. Other fields are ignored."""

    a: str
    b: str
    label: int | None = None
    jaccard5: float | None = None


class _LabelledLine(msgspec.Struct, gc=False):
    a: str | int
    b: str | int
    label: Annotated[int, msgspec.Meta(ge=0, le=1)] | None = None
    jaccard5: Annotated[float, msgspec.Meta(ge=0, le=1)] | None = None


class LabelledPairs(NamedTuple):
    """The n pairs of one corpus: places of their pages, label (-1: none) and J."""

    a: NDArray[np.int64]
    b: NDArray[np.int64]
    label: NDArray[np.int8]
    jaccard: NDArray[np.float64]
    off: float
    """Return the share of the given J that differ from those of the texts."""

    @classmethod
    def none(cls) -> Self:
        """Return an object without a pair."""
        return cls(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.int8), np.empty(0), 0.0)

    def digest(self) -> str:
        """Return 8 hex digits over all pairs."""
        arrays = (self.a, self.b, self.label, self.jaccard)
        return blake2b(b"".join(array.tobytes() for array in arrays), digest_size=4).hexdigest()


@dataclass(frozen=True, slots=True)
class PairAssignment:
    """The pairs of each corpus, and the number of pairs in none: an unknown id, or pages of two corpora."""

    pairs: list[list[LabelledPair]]
    unknown: int
    across: int
    example: str
    """An example of an id that no corpus has."""


def read_pairs(paths: Sequence[str]) -> list[LabelledPair]:
    """Return all pairs of JSONL files (also .gz .xz .zst), each pair once. Raises InputMissing, and InputError with
    the line, also if a pair has another label than before."""
    decoder = msgspec.json.Decoder(_LabelledLine)
    found: dict[tuple[str, str], LabelledPair] = {}
    for path in paths:
        try:
            handle = open(path, "rb", buffering=0)  # noqa: SIM115 - closed below, after its own errors
        except OSError as error:
            raise InputMissing(f"{shown_path(path)} cannot be read ({error.strerror})", "check the path") from error
        with handle:
            for number, line in lines(unpacked(CountedFile(handle), path), shown_path(path), _MAX_LINE_BYTES):
                try:
                    pair = decoder.decode(line)
                except (ValueError, RecursionError) as error:
                    what = f"{shown_path(path)}:{number} is not a pair ({error})"
                    raise InputError(what, 'write {"a": ID, "b": ID} on each line') from error
                a, b = str(pair.a), str(pair.b)
                read = LabelledPair(a, b, pair.label, pair.jaccard5)
                before = found.setdefault(key := (min(a, b), max(a, b)), read)
                if None not in (before.label, read.label) and before.label != read.label:
                    raise InputError(
                        f"{shown_path(path)}:{number}: the pair {a}, {b} has another label than before",
                        "keep one of the two lines",
                    )
                found[key] = msgspec.structs.replace(
                    before,
                    label=read.label if before.label is None else before.label,
                    jaccard5=read.jaccard5 if before.jaccard5 is None else before.jaccard5,
                )
    return list(found.values())


def assign(pairs: Sequence[LabelledPair], corpora: Sequence[Corpus]) -> PairAssignment:
    """Give each pair to the corpus that has both pages. Skips pairs of a page with itself.

    Raises UsageError if several corpora have both pages.
    """
    out: list[list[LabelledPair]] = [[] for _ in corpora]
    unknown, across, example = 0, 0, ""
    for pair in pairs:
        homes = [{n for n, corpus in enumerate(corpora) if key in corpus.place} for key in (pair.a, pair.b)]
        both = homes[0] & homes[1]
        if len(both) > 1 or (not both and max(map(len, homes)) > 1):
            names = " and ".join(corpora[n].name for n in sorted(homes[0] | homes[1]))
            raise UsageError(
                f"the pair {pair.a}, {pair.b} could belong to {names}, which have pages with the same id",
                "give these pages different ids, or evaluate the inputs one by one",
            )
        if both:
            if pair.a != pair.b:
                out[both.pop()].append(pair)
        elif all(homes):
            across += 1
        else:
            unknown, example = unknown + 1, pair.b if homes[0] else pair.a
    return PairAssignment(out, unknown, across, example)


def of_groups(corpus: Corpus) -> list[LabelledPair]:
    """Return pairs of each page of a group with the group's next page, in input order: at most one a page."""
    latest: dict[int, str] = {}
    found = []
    for name, place in corpus.place.items():
        group = int(corpus.group[place])
        if group != NO_GROUP:
            if group in latest:
                found.append(LabelledPair(latest[group], name, SAME))
            latest[group] = name
    return found


class CompletedPairs(msgspec.Struct, frozen=True):
    """Return the J of each pair of a corpus, given or computed from the texts, and `LabelledPairs.off`."""

    jaccard: list[float]
    off: float


def complete(pairs: Sequence[LabelledPair], corpus: Corpus, sets: ShingleSets, threads: int) -> CompletedPairs:
    """Return the J of each pair: the given one, else that of the texts."""
    a, b = _places(pairs, corpus)
    given = np.array([np.nan if pair.jaccard5 is None else pair.jaccard5 for pair in pairs], np.float64)
    true = jaccard(sets, a, b, threads)
    missing = np.isnan(given)
    off = float((np.abs(given - true)[~missing] > _MAX_J_DIFFERENCE).mean()) if not missing.all() else 0.0
    return CompletedPairs(np.where(missing, true, given).tolist(), off)


def placed(pairs: Sequence[LabelledPair], corpus: Corpus, completed: CompletedPairs) -> LabelledPairs:
    """Return the pairs of one corpus as arrays."""
    label = np.array([-1 if pair.label is None else pair.label for pair in pairs], np.int8)
    return LabelledPairs(*_places(pairs, corpus), label, np.array(completed.jaccard, np.float64), completed.off)


def _places(pairs: Sequence[LabelledPair], corpus: Corpus) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    place = corpus.place
    a, b = ([place[key] for key in keys] for keys in ([p.a for p in pairs], [p.b for p in pairs]))
    return np.array(a, np.int64), np.array(b, np.int64)
