"""Acceptor and resolver against the quadratic judge: any log of any frames gives the same verdicts.

The machine produces pages (new, repeated, edited, late, withdrawn, broken), cuts them into frames as a
fingerprinter might (also again, overlapping, damaged, out of order, of another recipe), and compares.
"""

from __future__ import annotations

import itertools
from collections import Counter
from functools import cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from simstream.files.folder import StateFolder
from simstream.files.snapshot_part import SnapshotPart
from simstream.index import crowds
from simstream.index.index import Index
from simstream.judge import best_match, expiry, live_pages
from simstream.judge.acceptor import AcceptedPages, Acceptor, IgnoreReason
from simstream.judge.directory import PLACED, PageDirectory
from simstream.judge.pages.store import PageStore
from simstream.judge.policy import Policy
from simstream.judge.resolver import Resolver
from simstream.judge.state import JudgeState, make_index
from simstream.model import REASONS, FingerprintColumns, PageKind, PageSource, Record, Verdict
from simstream.wire import frame as frames
from simstream.wire import verdict as wire
from tests.colliding import SECRET, placed
from tests.columns import page_columns
from tests.naive import NaiveJudge, NaivePage, accepted_pages, lookup_values, pages_of
from tests.short import examples

RECIPE = "0badcafe"
BASES = (0, 0xFFFF_FFFF_FFFF_FFFF, 0x0123_4567_89AB_CDEF)
SKETCH_BASES = (0, (1 << 128) - 1)

bits = st.sets(st.integers(0, 63), max_size=5).map(lambda s: sum(1 << b for b in s))
sketch_bits = st.sets(st.integers(0, 127), max_size=40).map(lambda s: sum(1 << b for b in s))
pages = st.tuples(
    st.integers(0, 7),  # id
    st.sampled_from(
        [PageKind.READABLE] * 8 + [PageKind.TOO_SHORT, PageKind.FAILED, PageKind.UNREADABLE, PageKind.WITHDRAWN]
    ),
    st.builds(lambda base, flips: base ^ flips, st.sampled_from(BASES), st.one_of(st.just(0), bits)),
    st.builds(
        lambda base, flips: base ^ flips, st.sampled_from(SKETCH_BASES), st.one_of(st.just(0), bits, sketch_bits)
    ),
    st.integers(-12, 4),  # time against the newest
    st.sampled_from([9, 19, 20, 300]),  # distinct words
)
REASON = {PageKind.TOO_SHORT: "few_words", PageKind.FAILED: "http_status", PageKind.UNREADABLE: "bad_json"}


def columns_of(rows: list[tuple[int, tuple]], words: int) -> FingerprintColumns:
    """(offset, (id, kind, fingerprint, sketch, time, words)) as the columns of a frame."""
    ids = [f"https://例.example/{row[0]}".encode() for _, row in rows]
    readable = [row[1] is PageKind.READABLE for _, row in rows]
    sketches = b"".join(
        (row[3] * r).to_bytes(16, "little")[: 8 * words] for r, (_, row) in zip(readable, rows, strict=True)
    )
    return page_columns(
        ids,
        offset=[offset for offset, _ in rows],
        kind=[row[1] for _, row in rows],
        reason=[REASONS.index(REASON.get(row[1], "")) for _, row in rows],
        time=[row[4] for _, row in rows],
        identity=np.array([[row[0], 77] for _, row in rows], np.uint64).reshape(-1, 2),
        fingerprint=[row[2] * r for r, (_, row) in zip(readable, rows, strict=True)],
        sketch=np.frombuffer(sketches, np.uint64).reshape(len(rows), words),
        words=[row[5] for _, row in rows],
    )


def judge_rows(resolver: Resolver, rows: list[tuple[int, tuple]], first: int) -> list[Verdict]:
    """Judge these rows together; `first`: the ordinal of the first one."""
    columns = columns_of(rows, 2)
    return resolver.judge(columns, columns.time, first, sources_of(rows))


def said_of(policy: Policy, rows: list[tuple[int, tuple]]) -> list[Verdict]:
    """What the quadratic judge says of these rows."""
    naive, columns = NaiveJudge(policy), columns_of(rows, 2)
    return [naive.judge(page) for page in pages_of(columns, columns.time, sources_of(rows))]


def sources_of(rows: list[tuple[int, tuple]]) -> list[PageSource]:
    return [PageSource("t.pages", 0, offset) for offset, _ in rows]


def index_for(policy: Policy, memtable_limit: int) -> Index:
    return make_index(policy, memtable_limit=memtable_limit)


def small_state(policy: Policy) -> JudgeState:
    """One that seals and merges all the time."""
    return JudgeState(policy, memtable_limit=8)


def without_secret(part: SnapshotPart) -> SnapshotPart:
    """A part as versions wrote it that knew no secret; their directory's slots are of no use any more."""
    if part.name != "directory":
        return part
    arrays = {"partitions" if name == PLACED else name: array for name, array in part.arrays.items()}
    return part._replace(facts={"count": part.facts["count"]}, arrays=arrays)


class JudgeMachine(RuleBasedStateMachine):
    """One log, two source partitions with holes in their offsets, two judges."""

    policy = Policy(RECIPE, 128, 3, 100, None, "any")
    few, step = best_match.MAX_SINGLE_MATCHES, best_match.STEP_PAGES
    leaving = expiry.MAX_SINGLE_PAGES
    crowded = crowds.MAX_UNCROWDED_CANDIDATES

    def __init__(self) -> None:
        super().__init__()
        self.patch = pytest.MonkeyPatch()
        self.patch.setattr(best_match, "MAX_SINGLE_MATCHES", self.few)
        self.patch.setattr(best_match, "STEP_PAGES", self.step)
        self.patch.setattr(crowds, "MAX_UNCROWDED_CANDIDATES", self.crowded)
        self.patch.setattr(crowds, "MAX_UNCROWDED_MATCHES", self.crowded)
        self.patch.setattr(crowds, "WORTH", 10**9)
        for module in (expiry, live_pages):
            self.patch.setattr(module, "MAX_SINGLE_PAGES", self.leaving)
        words = self.policy.sketch_words
        self.fast = small_state(self.policy)
        self.folder = TemporaryDirectory()
        self.saved: int | None = None
        self.restarts = 0
        self.slow = NaiveJudge(self.policy)
        self.slow_acceptor = Acceptor(RECIPE, words)
        self.words = words
        self.sources: list[list[tuple[int, tuple]]] = [[], []]
        self.accepted: list[list[int]] = [[], []]
        self.now = 1000
        self.log = itertools.count()
        self.records: list[Record] = []
        self.verdicts: list[Verdict] = []

    @rule(
        partition=st.integers(0, 1),
        new=st.lists(pages, min_size=1, max_size=6),
        hole=st.booleans(),
        pause=st.sampled_from([0, 0, 0, 0, 4, 20]),
    )
    def produce(self, partition: int, new: list[tuple], hole: bool, pause: int) -> None:
        source = self.sources[partition]
        self.now += pause
        for row in new:
            self.now += max(0, row[4])
            offset = source[-1][0] + 1 + hole if source else 0
            source.append((offset, (*row[:4], self.now + min(0, row[4]), row[5])))

    @rule(
        partition=st.integers(0, 1), data=st.data(), damage=st.sampled_from(["", "", "", "byte", "recipe", "cut"])
    )
    def write(self, partition: int, data: st.DataObject, damage: str) -> None:
        source = self.sources[partition]
        if not source:
            return
        begin = data.draw(st.integers(0, len(source) - 1))
        end = data.draw(st.integers(begin + 1, len(source)))
        self.send(partition, begin, end, damage)

    @precondition(lambda self: any(self.sources))
    @rule(partition=st.integers(0, 1))
    def catch_up(self, partition: int) -> None:
        """What a fingerprinter does after all trouble: everything from its committed offset on."""
        source = self.sources[partition]
        done = len(self.accepted[partition])
        if done < len(source):
            self.send(partition, done, len(source))
            assert len(self.accepted[partition]) == len(source)

    def send(self, partition: int, begin: int, end: int, damage: str = "") -> None:
        source = self.sources[partition]
        header = frames.FrameHeader(
            recipe="deadbeef" if damage == "recipe" else RECIPE,
            topic="t.pages",
            topic_id="T",
            partition=partition,
            start=source[begin - 1][0] + 1 if begin else 0,
            to=source[end - 1][0] + 1,
            sketch_words=self.words,
            first=begin == 0,
        )
        payload = frames.encode(header, columns_of(source[begin:end], self.words))
        if damage == "byte":
            at = len(payload) * 2 // 3
            payload = payload[:at] + bytes([payload[at] ^ 1]) + payload[at + 1 :]
        elif damage == "cut":
            payload = payload[: len(payload) // 2]
        self.judge(payload, partition, damage)

    def judge(self, payload: bytes, partition: int, damage: str) -> None:
        offset, append_time = next(self.log), self.now - 1
        self.records.append(Record("t.fingerprints", 0, offset, None, payload, (), append_time))
        acceptor, resolver = self.fast.acceptor, self.fast.resolver
        result = acceptor.accept(offset, payload, append_time)
        twin = self.slow_acceptor.accept(offset, payload, append_time)
        if isinstance(result, IgnoreReason):
            assert result == twin
            return
        assert not damage
        assert isinstance(twin, AcceptedPages)
        sources = [PageSource("t.pages", partition, int(o)) for o in result.columns.offset]
        coming = accepted_pages(twin)
        self.explain(result, coming)
        verdicts = resolver.judge(result.columns, result.time, result.ordinal, sources)
        expected = [self.slow.judge(page) for page in coming]
        assert verdicts == expected
        assert [wire.decode(wire.encode(v)) for v in verdicts] == expected
        self.verdicts += verdicts
        self.accepted[partition] += [s.offset for s in sources]

    @precondition(lambda self: len(self.records) > 1)
    @rule(together=st.integers(2, 7))
    def judge_together(self, together: int) -> None:
        """Judging several frames at once, as the role does, gives the same verdicts from the beginning."""
        state, verdicts = small_state(self.policy), []
        for group in (self.records[at : at + together] for at in range(0, len(self.records), together)):
            taken = [state.accept(record) for record in group]
            verdicts += state.resolve([each for each in taken if isinstance(each, AcceptedPages)])
        assert verdicts == self.verdicts

    def explain(self, result: AcceptedPages, coming: list[NaivePage]) -> None:
        """The candidates of the first page, before it is judged."""
        if coming:
            found = self.fast.resolver.meets(result.columns.part(0, 1), result.time[:1], 5).candidates
            readable = coming[0].kind is PageKind.READABLE
            expected = self.slow.candidates(coming[0], 5) if readable else []
            assert [(c.id, c.distance, c.agreement, c.accepted) for c in found] == expected

    @precondition(lambda self: self.restarts < 3)
    @rule(again=st.booleans(), old=st.booleans())
    def restart(self, again: bool, old: bool) -> None:
        """Save, and go on with what another process would take up; again: without having saved anything more.

        Old: what is taken up is as a version wrote it that placed identities without a secret.
        """
        self.restarts += 1
        with StateFolder(Path(self.folder.name)) as folder:
            if not again or self.saved != self.fast.acceptor.next_frame:
                prepared = folder.prepare(self.fast.parts(), self.fast.facts("L"))
                prepared.write()
                prepared.commit()
                self.fast.read_from_disk(folder.files, prepared.sealed)
                self.saved = self.fast.acceptor.next_frame
        self.fast.close()
        self.fast = small_state(self.policy)
        with StateFolder(Path(self.folder.name)) as folder:
            loaded = folder.load(trusted=PageStore.KINDS)
            parts = [without_secret(part) if old else part for part in loaded.parts]
            self.fast.restore(parts, loaded.facts, "L")
            self.fast.read_from_disk(folder.files, loaded.sealed.values())
        self.fast.check()

    def teardown(self) -> None:
        self.patch.undo()
        self.fast.close()
        self.folder.cleanup()

    @invariant()
    def every_page_is_accepted_once_and_in_order(self) -> None:
        for source, accepted in zip(self.sources, self.accepted, strict=True):
            assert accepted == [offset for offset, _ in source[: len(accepted)]]

    @invariant()
    def as_many_pages_are_live(self) -> None:
        assert self.fast.resolver.live_pages == len(self.slow.live)

    @invariant()
    def the_largest_cluster_is_as_large(self) -> None:
        sizes = Counter(page.cluster for page in self.slow.live)
        assert self.fast.resolver.largest_cluster == max(sizes.values(), default=0)

    @rule(most=st.integers(1, 4), flips=bits)
    def ask(self, most: int, flips: int) -> None:
        """Questions to the state are answered as loops over the live pages answer them, and change nothing."""
        fast, slow, policy = self.fast.resolver, self.slow, self.policy
        for page in slow.live[:: max(1, len(slow.live) // 3)]:
            known = fast.page(page.identity)
            assert known is not None
            found = (known.id, known.ordinal, known.time, known.fingerprint, known.cluster_id)
            own = lookup_values(page, policy)[: policy.fingerprints]
            digits = "".join(f"{one:016x}" for one in own)
            assert found == (page.id, page.ordinal, page.time, digits, str(page.cluster))
            members = sorted((p for p in slow.live if p.cluster == page.cluster), key=lambda p: p.age)
            cluster = fast.cluster_of(page.identity, most)
            assert cluster is not None
            assert (cluster.id, cluster.pages) == (str(page.cluster), len(members))
            assert [member.id for member in cluster.members] == [p.id for p in members[:most]]
            assert fast.cluster(page.cluster, most) in ((cluster, None) if len(members) == 1 else (cluster,))
            wanted = [one ^ flips for one in own]
            compared = (
                slow.live if policy.link == "any" else [p for p in slow.live if slow.canonical(p.cluster) is p]
            )
            near = [
                (p, min((a ^ b).bit_count() for a, b in zip(lookup_values(p, policy), wanted, strict=False)))
                for p in compared
            ]
            near = sorted((bits, p.ordinal, p.id) for p, bits in near if bits <= policy.distance)
            assert [(one.distance, one.id) for one in fast.near(wanted, most)] == [
                (d, i) for d, _, i in near[:most]
            ]
        assert fast.page(b"\xff" * 16) is None
        assert fast.cluster(self.slow.ordinal + 1, most) is None


def machine(
    name: str,
    policy: Policy,
    few: int = 0,
    step: int = 2,
    leaving: int = 10**9,
    crowded: int = 10**6,
    base: type = JudgeMachine,
    **more: int,
) -> type:
    """More matches than `few` go through the kernel; `step` pages are compared with one another at once.

    More pages than `leaving` leave at once; pages with more candidates than `crowded` are compared with a crowd.
    `more` are further attributes of the machine, made from `base`.
    """
    ways = {"few": few, "step": step, "leaving": leaving, "crowded": crowded, **more}
    cls = type(name, (base,), {"policy": policy, **ways})
    case = cls.TestCase
    case.settings = settings(
        max_examples=examples(60), stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck)
    )
    return case


TestAny = machine("AnyMachine", Policy(RECIPE, 128, 3, 100, None, "any"))
TestAnyWindow = machine("AnyWindowMachine", Policy(RECIPE, 128, 3, 100, 8, "any"))
TestAnyNoSketch = machine("AnyNoSketchMachine", Policy(RECIPE, 0, 5, 0, 8, "any"), few=2, step=256)
TestAnyShort = machine("AnyShortMachine", Policy(RECIPE, 128, 3, 100, None, "any", 20, 1, 118), few=10**6)
TestAnyShortWindow = machine("AnyShortWindowMachine", Policy(RECIPE, 128, 3, 100, 8, "any", 20, 3, 118))
TestCanonical = machine("CanonicalMachine", Policy(RECIPE, 128, 3, 100, None, "canonical"))
TestCanonicalWindow = machine("CanonicalWindowMachine", Policy(RECIPE, 128, 3, 100, 8, "canonical"))
TestAnyCrowded = machine("AnyCrowdedMachine", Policy(RECIPE, 128, 3, 100, None, "any"), crowded=0)
TestAnyCrowdedWindow = machine(
    "AnyCrowdedWindowMachine", Policy(RECIPE, 128, 3, 100, 8, "any", 20, 1, 118), leaving=2, crowded=1
)
TestAnyCrowdedNoSketch = machine("AnyCrowdedNoSketchMachine", Policy(RECIPE, 0, 5, 0, 8, "any"), crowded=0)
TestCanonicalCrowded = machine(
    "CanonicalCrowdedMachine", Policy(RECIPE, 128, 3, 100, 8, "canonical", 20, 1, 118), crowded=0
)
TestAnyWindowAtOnce = machine("AnyWindowAtOnceMachine", Policy(RECIPE, 128, 3, 100, 8, "any"), leaving=0)
TestCanonicalWindowAtOnce = machine(
    "CanonicalWindowAtOnceMachine", Policy(RECIPE, 128, 3, 100, 8, "canonical"), leaving=0
)
TestCanonicalShort = machine("CanonicalShortMachine", Policy(RECIPE, 128, 3, 100, 8, "canonical", 20, 1, 118))
TestCanonicalShortNoSketch = machine(
    "CanonicalShortNoSketchMachine", Policy(RECIPE, 0, 5, 0, None, "canonical", 20, 2, 0), few=10**6, step=3
)

TestAnyTwo = machine("AnyTwoMachine", Policy(RECIPE, 64, 3, 50, 8, "any", fingerprints=2))
TestAnyTwoCrowded = machine(
    "AnyTwoCrowdedMachine", Policy(RECIPE, 64, 3, 50, None, "any", 20, 1, 58, fingerprints=2), crowded=1
)
TestCanonicalTwo = machine(
    "CanonicalTwoMachine", Policy(RECIPE, 64, 3, 50, 8, "canonical", 20, 1, 58, fingerprints=2), few=10**6
)
TestAnySketch = machine("AnySketchMachine", Policy(RECIPE, 128, 3, 100, 8, "any", 20, 2, 110, sketch_lookups=1))
TestAnySketchCrowded = machine(
    "AnySketchCrowdedMachine", Policy(RECIPE, 128, 3, 90, None, "any", sketch_lookups=2), crowded=1
)
TestCanonicalSketch = machine(
    "CanonicalSketchMachine", Policy(RECIPE, 128, 3, 100, 8, "canonical", sketch_lookups=1), few=10**6
)
TestAnyTwoSketch = machine(
    "AnyTwoSketchMachine", Policy(RECIPE, 64, 3, 50, 8, "any", fingerprints=2, sketch_lookups=1), few=2, step=256
)
TestAnyThreeNoSketch = machine(
    "AnyThreeNoSketchMachine", Policy(RECIPE, 0, 3, 0, 8, "any", fingerprints=3), few=2, step=256
)


def random_pages(count: int, seed: int) -> list[tuple[int, tuple]]:
    rng = np.random.default_rng(seed)
    rows = []
    for offset in range(count):
        flips = sum(1 << int(b) for b in set(rng.integers(0, 64, rng.integers(0, 4)).tolist()))
        noise = sum(1 << int(b) for b in set(rng.integers(0, 128, rng.integers(0, 30)).tolist()))
        noise ^= int(rng.integers(0, 40)) << 1
        kind = PageKind.READABLE if rng.random() < 0.9 else PageKind(int(rng.integers(0, 5)))
        base = int(rng.integers(0, 40)) * 0x0101_0408_1021_4285 % 2**64
        words = int(rng.choice([9, 19, 20, 300]))
        rows.append((offset, (int(rng.integers(0, 300)), kind, base ^ flips, noise, 1000 + offset // 4, words)))
    return rows


@cache
def naive_verdicts(policy: Policy) -> list[wire.Verdict]:
    """What the quadratic judge says of 1,500 random pages, which takes it seconds."""
    return said_of(policy, random_pages(1500, seed=7))


@pytest.mark.parametrize("link", ["any", "canonical"])
@pytest.mark.parametrize("window", [None, 60])
@pytest.mark.parametrize("short_words", [0, 20])
@pytest.mark.parametrize(
    ("batch", "few", "crowded", "fingerprints", "sketch_lookups"),
    [
        (1, 8, 512, 1, 0),
        (37, 0, 512, 1, 0),
        (1500, 0, 512, 1, 1),
        (1500, 10**6, 512, 1, 0),
        (37, 8, 0, 1, 1),
        (300, 8, 3, 1, 0),
        (300, 8, 512, 2, 0),
        (37, 0, 3, 2, 0),
    ],
)
@pytest.mark.long
def test_a_long_log_is_judged_as_the_quadratic_judge_does_whatever_the_batches(
    link, window, short_words, batch, few, crowded, fingerprints, sketch_lookups, monkeypatch
) -> None:
    monkeypatch.setattr(best_match, "MAX_SINGLE_MATCHES", few)
    monkeypatch.setattr(crowds, "MAX_UNCROWDED_CANDIDATES", crowded)
    monkeypatch.setattr(crowds, "MAX_UNCROWDED_MATCHES", crowded)
    monkeypatch.setattr(crowds, "MAX_CROWDS", 5)
    limits = (128, 4, 100) if fingerprints == 1 else (64, 4, 50)
    policy = Policy(RECIPE, *limits, window, link, short_words, 2, limits[2] + 7, fingerprints, sketch_lookups)
    resolver = Resolver(policy, index_for(policy, memtable_limit=64))
    rows = random_pages(1500, seed=7)
    verdicts = []
    for at in range(0, len(rows), batch):
        verdicts += judge_rows(resolver, rows[at : at + batch], at)
    assert verdicts == naive_verdicts(policy)
    assert {v.verdict for v in verdicts} >= {"new", "near_duplicate", "unchanged", "withdrawn", "unreadable"}
    assert link == "canonical" or any(v.merged_clusters for v in verdicts)


@pytest.mark.parametrize("link", ["any", "canonical"])
@pytest.mark.parametrize("batch", [1, 37])
def test_pages_that_the_directory_cannot_tell_apart_stay_pages_of_their_own(link, batch, monkeypatch) -> None:
    """Under SECRET all identities have one hash, and the directory has only bits of the hash."""
    monkeypatch.setattr(live_pages, "PageDirectory", partial(PageDirectory, SECRET))
    policy = Policy(RECIPE, 128, 4, 100, 60, link)
    resolver = Resolver(policy, index_for(policy, memtable_limit=64))
    rows = random_pages(250, seed=7)
    columns, sources = columns_of(rows, 2), sources_of(rows)
    columns.identity[:, 1] = [placed(first) for first in columns.identity[:, 0].tolist()]
    naive, verdicts = NaiveJudge(policy), []
    for at in range(0, len(rows), batch):
        part = columns.part(at, min(at + batch, len(rows)))
        verdicts += resolver.judge(part, part.time, at, sources[at : at + batch])
    assert verdicts == [naive.judge(page) for page in pages_of(columns, columns.time, sources)]
    assert len(resolver._store.directory.candidates(columns.identity[:1])[1]) == resolver.live_pages > 100


@pytest.mark.parametrize("crowded", [512, 1, 0])
@pytest.mark.parametrize("batch", [1, 3])
def test_pages_that_differ_in_a_further_fingerprint_alone_share_no_entry(
    batch: int, crowded: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(crowds, "MAX_UNCROWDED_CANDIDATES", crowded)
    monkeypatch.setattr(crowds, "MAX_UNCROWDED_MATCHES", crowded)
    monkeypatch.setattr(crowds, "WORTH", 10**9)
    policy = Policy(RECIPE, 64, 3, 50, None, "any", fingerprints=2)
    resolver, far = Resolver(policy, index_for(policy, memtable_limit=64)), (1 << 20) - 1
    keys = [(0, 0), (1, 0), (2, 0), (0, far), (far, far), (far, far << 20)]
    rows = [(n, (n, PageKind.READABLE, first, second, 1000 + n, 300)) for n, (first, second) in enumerate(keys)]
    verdicts = []
    for at in range(0, len(rows), batch):
        verdicts += judge_rows(resolver, rows[at : at + batch], at)
    assert verdicts == said_of(policy, rows)
    named = [None, *(verdicts[n].id for n in (0, 0, 0, 3, 4))]
    assert [v.near_duplicate_of for v in verdicts] == named
