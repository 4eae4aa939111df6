"""What a study is given: the recipe under test, the corpora, and the pages' fingerprints by that recipe."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from simstream.deduper import Deduper
from simstream.judge.policy import Link, Policy, make_policy
from simstream.model import U64
from simstream.text.fingerprinter import Fingerprinter
from simstream.text.recipe import Recipe
from simstream.text.recipe_file import load_recipe
from tests import corpora

NEWS, LCTT, MSDOCS = corpora.REVISIONS
FRONT_MATTER = re.compile(r"\A---\n.*?\n---\n", re.DOTALL)


class TextFingerprints(NamedTuple):
    """What the recipe makes of n texts."""

    fingerprint: U64  # (n,)
    sketch: U64  # (n, sketch bits / 64)
    words: NDArray[np.uint32]  # (n,) distinct words

    def lookup_values(self, policy: Policy) -> U64:
        """The words (n, lookups) that pages are looked up by under a policy."""
        return np.column_stack([self.fingerprint, self.sketch[:, : policy.lookups - 1]])


class CorpusPage(NamedTuple):
    """One page of a corpus; pages of one group are versions of one another."""

    id: str
    group: str
    title: str
    text: str


@dataclass(frozen=True)
class StudyContext:
    """The recipe under test, as `--recipe` named it, and `limit`, the most pages that are read of a corpus."""

    named: str
    cache: Path
    limit: int | None = None
    seed: int = 1
    _fingerprinters: dict[Recipe, Fingerprinter] = field(default_factory=dict)

    @property
    def recipe(self) -> Recipe:
        return load_recipe(self.named)

    def random(self, name: str) -> Random:
        """Random numbers of one study, the same in every run."""
        return Random(f"{self.seed} {name}")

    def some(self, number: int) -> int:
        """`number`, or less where a smaller sample was asked for."""
        return number if self.limit is None else max(1, min(number, self.limit))

    def docs(self, corpus: str) -> list[CorpusPage]:
        """Pages of a corpus in its order, at most `limit`, without front matter."""
        return _docs(corpus)[: self.limit]

    def policy(self, recipe: Recipe | None = None, link: Link = "any") -> Policy:
        recipe = recipe or self.recipe
        return make_policy(recipe, self._fingerprinter(recipe).recipe_id, link=link)

    def matched(self, a: TextFingerprints, b: TextFingerprints, recipe: Recipe | None = None) -> NDArray[np.bool_]:
        """Whether row i of `a` and row i of `b` match under the recipe's own policy."""
        policy = self.policy(recipe)
        return gap(a, b, policy).within(policy, recipe or self.recipe)

    def prints(self, texts: Sequence[str], recipe: Recipe | None = None) -> TextFingerprints:
        """Fingerprints, sketches and words of texts, by the recipe under test or another."""
        return TextFingerprints(*self._fingerprinter(recipe or self.recipe).texts(texts))

    def prints_once(self, texts: Sequence[str], recipe: Recipe) -> TextFingerprints:
        """As `prints`, but nothing of the recipe's tables (33 MB) is kept in memory or in the cache. About 2 s."""
        self.policy()  # the dictionary is in the cache from here on
        with TemporaryDirectory() as folder:
            for built in self.cache.glob("dictionary-*"):
                (Path(folder) / built.name).symlink_to(built.resolve())
            return TextFingerprints(*Fingerprinter(recipe, Path(folder)).texts(texts))

    def deduper(self, link: Link = "any") -> Deduper:
        """A judge under the recipe's own policy."""
        return Deduper(recipe=self.recipe, link=link, cache=self.cache)

    def _fingerprinter(self, recipe: Recipe) -> Fingerprinter:
        if recipe not in self._fingerprinters:
            self._fingerprinters[recipe] = Fingerprinter(recipe, self.cache)
        return self._fingerprinters[recipe]


class PairGaps(NamedTuple):
    """How far n pairs of pages are apart."""

    distance: NDArray[np.int64]  # (n,)
    agreement: NDArray[np.int64]  # (n,) 0 without a sketch
    words: NDArray[np.uint32]  # (n,) distinct words of the shorter page

    def within(self, policy: Policy, recipe: Recipe) -> NDArray[np.bool_]:
        """Which pairs match under a policy of a recipe, its rule for short pages included."""
        found = (self.distance <= policy.distance) & (self.agreement >= policy.agreement)
        if (strict := policy.short_limits) is not None:
            kept = (self.distance <= strict.distance) & (self.agreement >= strict.agreement)
            found &= kept | (self.words >= policy.short_words)
        return found & (self.words >= recipe.min_words)


def gap(a: TextFingerprints, b: TextFingerprints, policy: Policy) -> PairGaps:
    """Row i of `a` against row i of `b`, by all lookups of the policy."""
    differ = np.bitwise_count(a.sketch ^ b.sketch).astype(np.int64)
    distance = np.bitwise_count(a.lookup_values(policy) ^ b.lookup_values(policy)).min(axis=1).astype(np.int64)
    agreement = policy.sketch_bits - differ[:, policy.fingerprints - 1 :].sum(axis=1)
    return PairGaps(distance, agreement, np.minimum(a.words, b.words))


def rows(prints: TextFingerprints, chosen: Sequence[int] | NDArray[np.int64]) -> TextFingerprints:
    """Some rows of prints, in the order asked for."""
    at = np.asarray(chosen, np.int64)
    return TextFingerprints(*(column[at] for column in prints))


@lru_cache(maxsize=3)
def _docs(corpus: str) -> list[CorpusPage]:
    return [_doc(page) for page in corpora.docs(corpus)]


def _doc(page: dict[str, Any]) -> CorpusPage:
    text = FRONT_MATTER.sub("", page["text"])
    return CorpusPage(page["id"], page.get("group", page["id"]), page.get("title", ""), text)
