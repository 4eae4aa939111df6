"""Runs the methods that are compared: each recipe under its seeds, and MinHash."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from hashlib import blake2b
from pathlib import Path
from typing import Protocol

from simstream.closing import Closing
from simstream.evaluate import fingerprints as stored_fingerprints
from simstream.evaluate import minhash
from simstream.evaluate.corpus import Corpus
from simstream.evaluate.cost import cost
from simstream.evaluate.fingerprints import CorpusPrints
from simstream.evaluate.measure import CorpusTruth, CrossCorpusPairs, RecipeCounts, between, count
from simstream.evaluate.results import Contender, FingerprintCost
from simstream.evaluate.store import ResultStore
from simstream.evaluate.summary import apart, on_corpus
from simstream.evaluate.verdicts import judge
from simstream.judge.policy import LINKS, Link, Policy, make_policy
from simstream.settings import Settings
from simstream.text import probes
from simstream.text.fingerprinter import Fingerprinter
from simstream.text.recipe import Recipe


class RunWatcher(Protocol):
    """The person or program that waits for a run."""

    def task(self, title: str, total: int | None) -> Callable[[int], None]:
        """Begin a task. Returns a function that hears how much is done."""

    def say(self, sentence: str) -> None:
        """Hear a sentence about the run."""


class RecipeRun:
    """Measures one recipe. Takes fingerprints, counts and costs from the store if it has them."""

    def __init__(self, recipe: Recipe, distances: Sequence[int], settings: Settings, store: ResultStore) -> None:
        self.recipe = recipe
        self.distances = sorted({*distances, recipe.distance})
        self.reach = self.distances[-1]
        self.settings = settings
        self.store = store

    def measure(self, truths: Sequence[CorpusTruth], seeds: Sequence[int], watcher: RunWatcher) -> Contender:
        """Measure all corpora under all seeds."""
        done = watcher.task(f"{self.recipe.name}: measuring", len(truths) * len(seeds))
        counts: list[list[RecipeCounts]] = [[] for _ in truths]
        apart_counts, ids, policies = [], [], []
        costs: list[FingerprintCost | None] = []
        known: list[bytes] = []
        for number, seed in enumerate(seeds):
            with _OneSeed(self, replace(self.recipe, seed=seed), watcher) as one:
                known.append(one.output())
                if number and known[0] == known[-1]:
                    done(len(truths) * (len(seeds) - number))
                    break  # a hash without a seed: all others would be the same again
                ids.append(one.policy.recipe_id)
                policies.append(one.policy)
                for at, truth in enumerate(truths):
                    counts[at].append(one.count(truth))
                    done(1)
                if len(truths) > 1:
                    apart_counts.append(one.between(truths))
                if number == 0:
                    costs = [one.cost(truth) for truth in truths]
        policy, distances = policies[0], self.distances
        return Contender(
            name=self.recipe.name,
            ids=ids,
            seeds=list(seeds[: len(ids)]),
            distance=policy.distance,
            agreement=policy.agreement,
            bits=policy.sketch_bits,
            bytes_per_page=8 * (policy.fingerprints + policy.sketch_bits // 64),
            corpora=[
                on_corpus(truth.corpus.name, rows, policy.distance, distances, bool(policy.sketch_bits), spent)
                for truth, rows, spent in zip(truths, counts, costs, strict=True)
            ],
            apart=[apart(apart_counts, distance) for distance in distances] if apart_counts else [],
            apart_rule=apart(apart_counts, policy.distance) if apart_counts else None,
        )


class _OneSeed(Closing):
    """One recipe under one seed."""

    def __init__(self, run: RecipeRun, recipe: Recipe, watcher: RunWatcher) -> None:
        settings = run.settings
        self._run, self._store, self._watcher = run, run.store, watcher
        own = recipe.seed == run.recipe.seed
        self._tables = settings.cache_folder if own else _tables(run.store.folder, settings.cache_folder)
        self._threads = settings.threads
        self._fingerprinter = Fingerprinter(recipe, self._tables, workers=0)
        self._recipe = recipe
        self.policy = self._policy("any")
        self._prints: dict[str, CorpusPrints] = {}

    def close(self) -> None:
        self._fingerprinter.close()

    def output(self) -> bytes:
        """Return what this seed makes of the probe pages."""
        fingerprints, sketches, _ = self._fingerprinter.texts(probes.TEXTS)
        return fingerprints.tobytes() + sketches.tobytes()

    def count(self, truth: CorpusTruth) -> RecipeCounts:
        """Return the counts of one corpus, from the store or made now."""
        policies = {link: self._policy(link) for link in LINKS}
        depends = [
            self.policy.recipe_id,
            [policy.id for policy in policies.values()],
            self._run.reach,
            *identity(truth),
            *self._other_digest(truth),
        ]

        def make() -> RecipeCounts:
            made = self.prints(truth)
            judged = {str(link): judge(truth.corpus, made, policy) for link, policy in policies.items()}
            return count(truth, made, self.policy, self._run.reach, judged)

        return self._store.kept("counts", depends, RecipeCounts, make)

    def between(self, truths: Sequence[CorpusTruth]) -> CrossCorpusPairs:
        """Return the counts between all corpora."""
        depends = [self.policy.id, self._run.reach, [self._read(truth).digest for truth in truths]]

        def make() -> CrossCorpusPairs:
            everything = [self.prints(truth) for truth in truths]
            return between(everything, self.policy, self._run.reach, self._threads)

        return self._store.kept("between", depends, CrossCorpusPairs, make)

    def cost(self, truth: CorpusTruth) -> FingerprintCost | None:
        """Return what fingerprinting costs on this corpus."""
        corpus = self._read(truth)
        depends = [self.policy.recipe_id, corpus.digest]
        return self._store.kept(
            "cost", depends, FingerprintCost, lambda: cost(self._fingerprinter, corpus.texts(), self._tables)
        )

    def prints(self, truth: CorpusTruth) -> CorpusPrints:
        """Return the fingerprints of one corpus, from memory, from the store's folder, or made now."""
        corpus = self._read(truth)
        if corpus.digest not in self._prints:
            path = stored_fingerprints.file_of(self._store.folder, self.policy.recipe_id, corpus)
            found = stored_fingerprints.read(path, len(corpus.pages))
            if found is None:
                title = f"{self._recipe.name}, seed {self._recipe.seed}: {corpus.name}"
                done = self._watcher.task(title, len(corpus.pages))
                found = stored_fingerprints.make(self._fingerprinter, corpus, self._threads, done)
                stored_fingerprints.write(path, found)
            self._prints[corpus.digest] = found
        return self._prints[corpus.digest]

    def _read(self, truth: CorpusTruth) -> Corpus:
        return truth.corpus.read_by(self._recipe)

    def _other_digest(self, truth: CorpusTruth) -> list[str]:
        """Return what tells the texts of this recipe from the texts that the truth is about."""
        digest = self._read(truth).digest
        return [] if digest == truth.corpus.digest else [digest]

    def _policy(self, link: Link) -> Policy:
        return make_policy(self._recipe, self._fingerprinter.recipe_id, link=link)


class PeerRun:
    """Measures MinHash at J >= `similarity`."""

    def __init__(self, similarity: float, store: ResultStore) -> None:
        self.least = minhash.least_equal(similarity)
        self.missing: str | None = None
        self._store = store
        if not minhash.installed():
            self.missing = "MinHash is left out, since rensa is not installed: pip install 'simstream[evaluate]'"

    def measure(self, truths: Sequence[CorpusTruth], seeds: Sequence[int], watcher: RunWatcher) -> Contender:
        """Measure all corpora under all seeds."""
        done = watcher.task(f"{minhash.NAME}: measuring", (len(truths) + 1) * len(seeds))
        counts: list[list[RecipeCounts]] = [[] for _ in truths]
        apart_counts = []
        for seed in seeds:
            marks: dict[str, minhash.Signatures] = {}
            for at, truth in enumerate(truths):
                counts[at].append(self._count(truth, seed, marks))
                done(1)
            if len(truths) > 1:
                apart_counts.append(self._between(truths, seed, marks))
            done(1)
        return Contender(
            name=minhash.NAME,
            ids=[],
            seeds=list(seeds),
            distance=None,
            agreement=self.least,
            bits=minhash.PERMUTATIONS,
            bytes_per_page=4 * minhash.PERMUTATIONS,
            corpora=[
                on_corpus(truth.corpus.name, rows, 0, (), True, None)
                for truth, rows in zip(truths, counts, strict=True)
            ],
            apart=[],
            apart_rule=apart(apart_counts, 0) if apart_counts else None,
        )

    def _count(self, truth: CorpusTruth, seed: int, marks: dict[str, minhash.Signatures]) -> RecipeCounts:
        depends = [seed, self.least, *identity(truth)]
        return self._store.kept(
            "minhash",
            depends,
            RecipeCounts,
            lambda: minhash.count(truth, _marks(truth, seed, marks), self.least),
        )

    def _between(
        self, truths: Sequence[CorpusTruth], seed: int, marks: dict[str, minhash.Signatures]
    ) -> CrossCorpusPairs:
        depends = [seed, self.least, [truth.corpus.digest for truth in truths]]

        def make() -> CrossCorpusPairs:
            everything = [_marks(truth, seed, marks) for truth in truths]
            return minhash.between(truths, everything, self.least, truths[0].threads)

        return self._store.kept("minhash-between", depends, CrossCorpusPairs, make)


def _tables(folder: Path, cache: Path) -> Path:
    """Return a folder for tables of seeds that nothing else needs (35 MB each), with the cache's dictionaries."""
    tables = folder / "tables"
    tables.mkdir(exist_ok=True)
    for path in cache.glob("dictionary-*.bin"):
        with contextlib.suppress(OSError):  # it is there already, or lies on another disk: then it is built again
            os.link(path, tables / path.name)
    return tables


def identity(truth: CorpusTruth) -> list[str]:
    """Return what tells a corpus with its pairs and groups from another one."""
    groups = blake2b(truth.corpus.group.tobytes(), digest_size=8).hexdigest()
    return [truth.corpus.digest, truth.pairs.digest(), groups]


def _marks(truth: CorpusTruth, seed: int, marks: dict[str, minhash.Signatures]) -> minhash.Signatures:
    digest = truth.corpus.digest
    if digest not in marks:
        marks[digest] = minhash.signatures(truth.sets, seed)
    return marks[digest]
