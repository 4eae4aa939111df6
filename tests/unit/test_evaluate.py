"""The parts of `evaluate`: intervals, clusters against groups, pairs to corpora, all pairs within a distance."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simstream.cli import evaluate as command
from simstream.cli.main import invoke
from simstream.errors import InputError, UsageError
from simstream.evaluate import fingerprints as stored_fingerprints
from simstream.evaluate import minhash, truth
from simstream.evaluate.clusters import compare
from simstream.evaluate.contenders import RecipeRun
from simstream.evaluate.corpus import Corpus, InputReader, components, corpus_names, read_corpus
from simstream.evaluate.intervals import mean, share, student, wilson
from simstream.evaluate.measure import bin_of, class_of
from simstream.evaluate.near_pairs import NearPlaces, sample, within
from simstream.evaluate.pairs import LabelledPair, assign, complete, placed, read_pairs
from simstream.evaluate.run import distances_of
from simstream.evaluate.truth import jaccard, shingle_sets
from simstream.evaluate.verdicts import judge
from simstream.hash_secret import new_secret
from simstream.judge.candidates import confirms
from simstream.judge.policy import Policy
from simstream.kernels.text.minhash import similar
from simstream.model import Record
from simstream.processors import in_parts
from simstream.text.extraction.article import article_of
from simstream.text.fingerprinter import Fingerprinter
from simstream.text.recipe import preset
from simstream.wire.page import PageLimits, decode
from tests import naive_truth
from tests.manual_clock import ManualClock

READING = InputReader(PageLimits())


def corpus(*ids: str, name: str = "news", **fields: object) -> Corpus:
    values = [json.dumps({"id": key, "text": f"the text of {key}", **fields}).encode() for key in ids]
    records = [Record(name, 0, number, None, value) for number, value in enumerate(values)]
    return read_corpus(name, records, READING)


@pytest.mark.parametrize(
    ("hits", "of", "low", "high"),
    [(0, 10, 0.0, 0.2775), (10, 10, 0.7225, 1.0), (81, 263, 0.2553, 0.3662), (15, 148, 0.0624, 0.1605)],
)
def test_wilsons_interval_is_that_of_published_examples(hits: int, of: int, low: float, high: float) -> None:
    assert wilson(hits, of) == pytest.approx((low, high), abs=0.0001)  # R. Newcombe, 1998, method 3


def test_of_nothing_nothing_is_known() -> None:
    assert wilson(0, 0) == (0.0, 1.0)
    assert share([0.0], [0.0]).value is None


def test_students_interval_is_that_of_a_textbook() -> None:
    low, high = student([1.0, 2.0, 3.0, 4.0, 5.0]) or (0.0, 0.0)
    assert (low, high) == pytest.approx((3 - 1.9632, 3 + 1.9632), abs=0.001)
    assert student([1.0]) is None


def test_a_share_over_seeds_is_the_mean_of_their_shares() -> None:
    found = share([9.0, 7.0], [10.0, 10.0])
    assert found.value == pytest.approx(0.8)
    assert found.by_seed == [0.9, 0.7]
    assert (found.low, found.high) == pytest.approx(wilson(8, 10))
    assert (found.seeds_low, found.seeds_high) == (0.0, 1.0)  # two seeds that far apart say little
    assert mean([2.0, 4.0]).value == 3.0


PARTITIONS = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=2, max_size=14)


@given(PARTITIONS)
def test_cluster_scores_equal_those_of_comparing_every_pair(pages: list[tuple[int, int]]) -> None:
    cluster, group = [c for c, _ in pages], [g for _, g in pages]
    found = compare(np.array(cluster), np.array(group))
    assert found is not None
    assert found.rand == pytest.approx(naive_truth.rand(cluster, group))
    assert (found.precision, found.recall) == pytest.approx(naive_truth.b_cubed(cluster, group))


FINGERPRINTS = st.lists(st.integers(0, 2**64 - 1).map(lambda value: value & 0x0F0F), max_size=20)


@settings(deadline=None)
@given(FINGERPRINTS, FINGERPRINTS, st.integers(0, 8))
def test_all_pairs_within_a_distance_are_found(left: list[int], right: list[int], k: int) -> None:
    a, b = np.array(left, np.uint64), np.array(right, np.uint64)
    among = {(i, j, d) for part in within(a, None, k, 1) for i, j, d in zip(*map(list, part), strict=True)}
    assert among == {
        (i, j, (x ^ y).bit_count())
        for i, x in enumerate(left)
        for j, y in enumerate(left)
        if i < j and (x ^ y).bit_count() <= k
    }
    across = {(i, j, d) for part in within(a, b, k, 1) for i, j, d in zip(*map(list, part), strict=True)}
    assert across == {
        (i, j, (x ^ y).bit_count())
        for i, x in enumerate(left)
        for j, y in enumerate(right)
        if (x ^ y).bit_count() <= k
    }


@settings(deadline=None)
@given(st.lists(st.tuples(*[st.integers(0, 2**64 - 1).map(lambda value: value & 0x0F0F)] * 3), max_size=20))
def test_the_distance_of_pages_with_several_fingerprints_is_the_least(pages: list[tuple[int, int, int]]) -> None:
    draws = np.array(pages, np.uint64).reshape(len(pages), 3)
    for right in (None, draws):
        found = [(i, j, d) for part in within(draws, right, 3, 1) for i, j, d in zip(*map(list, part), strict=True)]
        near = {
            (i, j, min((x ^ y).bit_count() for x, y in zip(one, other, strict=True)))
            for i, one in enumerate(pages)
            for j, other in enumerate(pages)
            if right is not None or i < j
        }
        assert len(set(found)) == len(found)
        assert set(found) == {(i, j, d) for i, j, d in near if d <= 3}


def test_more_hits_than_there_is_room_for_are_all_found() -> None:
    same = np.zeros(400, np.uint64)
    assert sum(len(part.a) for part in within(same, None, 0, 2)) == 400 * 399 // 2


def test_a_sample_counts_all_pairs_and_keeps_some_of_each_kind() -> None:
    pairs = np.arange(5000)
    parts = [
        NearPlaces(pairs[at : at + 100], pairs[at : at + 100], pairs[at : at + 100] % 3)
        for at in range(0, 5000, 100)
    ]
    found = sample(iter(parts), 4, lambda near: near.distance, most=10)
    assert found.counts.tolist() == [1667, 1667, 1666, 0]
    assert np.bincount(found.kind, minlength=4).tolist() == [10, 10, 10, 0]
    assert (found.a % 3 == found.kind).all()
    again = sample(iter(parts[::-1]), 4, lambda near: near.distance, most=10)
    assert set(again.a.tolist()) == set(found.a.tolist())  # whatever the order in which they come


def test_bins_and_classes_begin_at_their_lower_ends() -> None:
    assert bin_of(np.array([1.0, 0.9, 0.8999, 0.7, 0.5, 0.0])).tolist() == [0, 0, 1, 2, 4, 5]
    assert class_of(np.array([0.2999, 0.3, 0.4999, 0.5])).tolist() == [0, 1, 1, 2]


def test_a_pair_with_a_short_page_keeps_to_the_stricter_thresholds() -> None:
    policy = Policy("", 128, 8, 70, None, "any", 20, 4, 90)
    distance, agreement = np.array([3, 3, 6, 6, 3]), np.array([95, 80, 95, 80, 60])
    assert confirms(distance, agreement, np.full(5, True), policy).tolist() == [True, False, False, False, False]
    assert confirms(distance, agreement, np.full(5, False), policy).tolist() == [True, True, True, True, False]


def test_a_pair_belongs_to_the_corpus_that_has_both_pages() -> None:
    corpora = [corpus("a", "b", "x"), corpus("a", "c", name="blogs")]
    found = assign(
        [
            LabelledPair("a", "b"),
            LabelledPair("c", "a"),
            LabelledPair("b", "c"),
            LabelledPair("b", "nowhere"),
            LabelledPair("b", "b"),
        ],
        corpora,
    )
    assert [[(pair.a, pair.b) for pair in one] for one in found.pairs] == [[("a", "b")], [("c", "a")]]
    assert (found.across, found.unknown, found.example) == (1, 1, "nowhere")


@pytest.mark.parametrize("ids", [("a", "b"), ("a", "zzz")])
def test_a_pair_of_an_id_that_two_corpora_have_is_refused(ids: tuple[str, str]) -> None:
    corpora = [corpus("a", "b"), corpus("a", "b", name="blogs")]
    with pytest.raises(UsageError, match="news and blogs"):
        assign([LabelledPair(*ids)], corpora)


def test_missing_similarities_are_computed_and_wrong_ones_counted() -> None:
    pages = corpus("a", "b", "c")
    pairs = [LabelledPair("a", "b", 1, 0.123), LabelledPair("a", "c")]
    given = complete(pairs, pages, shingle_sets(pages.texts()), 1)
    found = placed(pairs, pages, given)
    assert found.jaccard.tolist() == [0.123, naive_truth.jaccard("the text of a", "the text of c")]
    assert found.off == 1.0
    assert found.label.tolist() == [1, -1]


def test_groups_are_a_field_of_the_pages_or_the_components_of_pairs() -> None:
    assert corpus("a", "b", group="g").group.tolist() == [0, 0]
    assert corpus("a", "b").group.tolist() == [-1, -1]
    found = components(6, np.array([0, 1, 4]), np.array([1, 2, 5]))
    assert (found[0] == found[1] == found[2], found[3], found[4] == found[5]) == (True, -1, True)
    assert found[0] != found[4]


def test_front_matter_is_left_out_only_where_that_is_asked_for() -> None:
    value = json.dumps({"id": "a", "text": "---\ntitle: x\n---\nbody\n---\nrest"}).encode()
    records = [Record("news", 0, 0, None, value)]
    assert read_corpus("news", records, READING).texts() == ["---\ntitle: x\n---\nbody\n---\nrest"]
    stripped = read_corpus("news", records, InputReader(PageLimits(), strip_front_matter=True))
    assert stripped.texts() == ["body\n---\nrest"]


def test_corpora_are_called_by_their_files_or_folders() -> None:
    assert corpus_names(["x/docs.jsonl.xz", "y/docs.jsonl.xz", "z/news.jsonl"]) == ["x", "y", "news"]
    assert corpus_names(["x/a.jsonl", "y/a.jsonl"]) == ["x", "y"]
    with pytest.raises(UsageError, match="two inputs are called x"):
        corpus_names(["x/docs.jsonl", "x/docs.jsonl.gz"])


@pytest.mark.parametrize(("text", "expected"), [("1-4", [1, 2, 3, 4]), ("8", [8]), ("3,7-8", [3, 7, 8])])
def test_distances_are_written_as_ranges(text: str, expected: list[int]) -> None:
    assert distances_of(text) == expected


@pytest.mark.parametrize("text", ["", "x", "1-2-3", "4-2", "0-17", "1-9999999999"])
def test_other_distances_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match="--distance"):
        distances_of(text)


def test_each_pair_counts_once_and_has_one_label(tmp_path: Path) -> None:
    lines = ['{"a":"x","b":"y"}', '{"a":"y","b":"x","label":1}', '{"a":"x","b":"y","label":1}']
    path = tmp_path / "pairs.jsonl"
    path.write_text("\n".join(lines))
    assert read_pairs([str(path)]) == [LabelledPair("x", "y", 1)]
    for order in (1, -1):
        path.write_text("\n".join(['{"a":"x","b":"y","label":1}', '{"a":"x","b":"y","jaccard5":0.9}'][::order]))
        assert read_pairs([str(path)]) == [LabelledPair("x", "y", 1, 0.9)]
    path.write_text("\n".join([*lines, '{"a":"x","b":"y","label":0}']))
    with pytest.raises(InputError, match=r"pairs\.jsonl:4: the pair x, y has another label than before"):
        read_pairs([str(path)])


@pytest.mark.parametrize("threads", [1, 2])
def test_few_parts_wait_for_a_slow_reader(threads: int) -> None:
    begun: list[int] = []

    def work(at: int) -> NearPlaces:
        begun.append(at)
        return NearPlaces(*np.full((3, 1), at))

    for taken, part in enumerate(in_parts(work, range(50), threads)):
        assert part.a[0] == taken
        assert len(begun) <= taken + 1 + 2 * threads


def test_a_pair_may_name_its_pages_by_whole_numbers(tmp_path: Path) -> None:
    path = tmp_path / "pairs.jsonl"
    path.write_text('{"a": 7, "b": "x"}\n{"a": "y", "b": 0, "label": 1}\n')
    assert read_pairs([str(path)]) == [LabelledPair("7", "x"), LabelledPair("y", "0", 1)]


def test_a_line_that_is_no_pair_is_named(tmp_path: Path) -> None:
    path = tmp_path / "pairs.jsonl"
    path.write_text('{"a": "x", "b": "y", "extra": 1}\n{"a": "x"}\n')
    with pytest.raises(InputError, match=r"pairs.jsonl:2 is not a pair"):
        read_pairs([str(path)])
    for field in ('"label": 300', '"label": -1', '"jaccard5": 1.5', f'"c": {"[" * 100_000}{"]" * 100_000}'):
        path.write_text(f'{{"a": "x", "b": "y", {field}}}\n')
        with pytest.raises(InputError, match=r"pairs.jsonl:1 is not a pair"):
            read_pairs([str(path)])


@settings(deadline=None)
@given(st.integers(0, 2**32), st.integers(0, 16))
def test_signatures_match_where_a_band_and_enough_minima_are_equal(seed: int, least: int) -> None:
    chance = np.random.default_rng(seed)
    left, right = (chance.integers(0, 3, (n, 16), dtype=np.uint32) for n in (5, 7))
    a, b = np.empty(64, np.int64), np.empty(64, np.int64)
    found = similar(left, right, least, 4, a, b)
    expected = [
        (i, j)
        for i, x in enumerate(left.tolist())
        for j, y in enumerate(right.tolist())
        if sum(s == t for s, t in zip(x, y, strict=True)) >= least
        and any(x[band : band + 4] == y[band : band + 4] for band in range(0, 16, 4))
    ]
    assert list(zip(a[:found].tolist(), b[:found].tolist(), strict=True)) == expected


def test_minhash_estimates_the_similarity_of_two_texts() -> None:
    chance = np.random.default_rng(5)
    words = ["".join(map(chr, chance.integers(0x4E00, 0x9000, 2))) for _ in range(900)]
    sets = shingle_sets(["".join(words[:700]), "".join(words[200:])])
    left, right = minhash.signatures(sets, 0)
    assert (left == right).mean() == pytest.approx(jaccard(sets, np.array([0]), np.array([1]))[0], abs=0.12)


def test_the_minima_of_a_text_do_not_depend_on_the_secret_of_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    made = []
    for secret in (new_secret(), new_secret()):
        for module in (truth, minhash):
            monkeypatch.setattr(module, "process_secret", lambda secret=secret: secret)
        made.append(minhash.signatures(shingle_sets(["the ferry comes at last", "to the island"]), 3))
    assert (made[0] == made[1]).all()


@pytest.mark.parametrize("extract", ["main", "prose", "fast"])
def test_html_is_extracted_once_and_fingerprinted_as_each_recipe_has_it(cache: Path, extract: Any) -> None:
    story = "A long line about the ferry that comes, at last, to the island in the north. " * 4
    body = f"<article><p>{story}</p><p>Short line</p><p>Another one</p></article>"
    pages = [{"id": "h", "html": f"<html><body>{body}</body></html>"}, {"id": "t", "text": f"{story}\nShort line"}]
    records = [Record("news", 0, n, None, json.dumps(page).encode()) for n, page in enumerate(pages)]
    found = read_corpus("news", records, InputReader(PageLimits(), workers=0, fast=True))
    with Fingerprinter(replace(preset("default"), extract=extract), cache, workers=0) as fingerprinter:
        expected = fingerprinter.columns([decode(record, PageLimits()) for record in records])
        made = stored_fingerprints.make(fingerprinter, found.read_by(fingerprinter.recipe), 1, lambda _: None)
    assert made.fingerprint.tolist() == expected.fingerprint.tolist()
    assert made.words.tolist() == expected.words.tolist()
    assert found.pages[0].content_type  # by which it is told from a text


def test_the_truth_and_its_digest_do_not_depend_on_a_fast_recipe() -> None:
    story = "A long line about the ferry that comes, at last, to the island in the north. " * 4
    html = f"<html><body><article><h1>Ferry</h1><p>{story}</p></article></body></html>"
    records = [Record("news", 0, 0, None, json.dumps({"id": "h", "html": html}).encode())]
    without = read_corpus("news", records, InputReader(PageLimits(), workers=0))
    found = read_corpus("news", records, InputReader(PageLimits(), workers=0, fast=True))
    assert (found.texts(), found.digest) == (without.texts(), without.digest)
    assert without.fast is None
    assert found.fast is not None
    assert found.fast.texts() == [article_of(html.encode()).decode()]


def test_a_long_run_says_now_and_then_how_far_it_is_without_a_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    clock = ManualClock()
    monkeypatch.setattr(command, "time", clock)
    with command._watcher() as watcher:
        reading, measuring = watcher.task("reading news", None), watcher.task("default: measuring", 1_200)
        reading(5)
        clock.now += command.AGAIN_S
        reading(1_000)
        measuring(1)
        clock.now += command.AGAIN_S
        measuring(2)
    assert capsys.readouterr().err.splitlines() == [
        "simstream: reading news, 1,005",
        "simstream: default: measuring, 3 of 1,200",
    ]


@pytest.mark.parametrize("error", [KeyboardInterrupt(), InputError("a page is broken", "mend it")])
def test_a_run_that_ends_early_says_that_its_page_is_not_written_and_what_is_kept(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path, error: BaseException
) -> None:
    def end(*_: object) -> None:
        raise error

    monkeypatch.setattr(RecipeRun, "measure", end)
    pages = [{"id": str(number), "group": "g", "text": f"the text of page {number}"} for number in range(3)]
    (tmp_path / "pages.jsonl").write_text("\n".join(map(json.dumps, pages)))
    out = tmp_path / "report"
    assert invoke(["evaluate", str(tmp_path / "pages.jsonl"), "-o", str(out)]) != 0
    assert not (out / "index.html").exists()
    said = f"{out / 'index.html'} is not of this run; {out / '.cache'} keeps what was measured"
    assert said in capsys.readouterr().err


def test_clusters_that_are_tied_from_the_youngest_down_end_in_the_oldest(monkeypatch: pytest.MonkeyPatch) -> None:
    count = 20_000
    tied = [(number, []) for number in range(count)] + [
        (number - 1, [str(number)]) for number in range(count - 1, 0, -1)
    ]
    told = [
        SimpleNamespace(
            id=str(at), near_duplicate_of=None, verdict="new", cluster_id=str(cluster), merged_clusters=merged
        )
        for at, (cluster, merged) in enumerate(tied)
    ]
    monkeypatch.setattr("simstream.evaluate.verdicts._verdicts", lambda *_: told)
    found = judge(cast(Any, SimpleNamespace(pages=tied)), cast(Any, None), cast(Any, None))
    assert not found.cluster.any()
