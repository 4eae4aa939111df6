"""The feed's fold against the slow one, over streams of verdicts that a judge could have made."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any
from unittest.mock import patch

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from simstream.feeds import cards as cards_module
from simstream.feeds import fold as fold_module
from simstream.feeds import word_index
from simstream.feeds.cards import ORDERS, CardQuery, StoryCards
from simstream.feeds.fold import FoldLimits, VerdictFold
from simstream.feeds.records import ClusterMerge, PageSheet, encode, merge_key, place, version_key
from simstream.feeds.shelves import StoryCard
from simstream.model import PageSource, Verdict
from tests import naive_feed
from tests.naive_feed import stories

PARTITIONS = 3
ENDLESS = 10**15
HEADLINES = ("", "南京市长江大桥通车", "市长说：AI 来了", "鐵路大橋", "Häuser 中国科学院计算技术研究所")
WORDS = (
    "",
    "",
    "a.y.EXAMPLE",
    "T1",
    "t2 b.z.example",
    "nowhere",
    "大桥",
    "市长",
    "长江大桥 t1",
    "铁路 ai",
    "科学院",
    "!",
    "江大",
)


@dataclass
class ClusterWorld:
    """A judge's clusters, as far as verdicts have to agree with each other; ids are letters."""

    verdicts: list[Verdict] = field(default_factory=list)
    sheets: dict[tuple[int, int], tuple[str, bool, bool]] = field(default_factory=dict)
    home: dict[str, int] = field(default_factory=dict)
    last: dict[str, Verdict] = field(default_factory=dict)

    def add(self, page_id: str, kind: str, time: int, picks: list[int], gone: bool, is_list: bool = False) -> None:
        ordinal = len(self.verdicts)
        # A page's versions are in one partition of `verdicts`; its record may lie anywhere in `pages`.
        source = PageSource("pages", picks[0] % 2, ordinal)
        clusters = sorted(set(self.home.values()))
        chosen = sorted({clusters[pick % len(clusters)] for pick in picks}) if clusters else []
        if kind == "unchanged" and page_id not in self.home:
            kind = "new"
        if kind == "near_duplicate" and not chosen:
            kind = "new"
        cluster: int | None = None
        merged: list[int] = []
        if kind == "new":
            cluster = ordinal
        elif kind == "near_duplicate":
            cluster, *merged = chosen
        elif kind == "unchanged":
            cluster, *merged = sorted({self.home[page_id], *chosen[:1]})
        for one, where in self.home.items():
            if where in merged and cluster is not None:
                self.home[one] = cluster
        leaves = kind == "withdrawn" or kind == "few_words" or (kind == "http_status" and gone)
        if cluster is not None:
            self.home[page_id] = cluster
        elif leaves:
            self.home.pop(page_id, None)
        similarity = {"near_duplicate": 0.9, "unchanged": 0.95}.get(kind)
        reason = kind if kind in ("few_words", "http_status") else None
        verdict = Verdict(
            id=page_id,
            url=f"https://{naive_feed.host(page_id)}/",
            verdict="too_short" if reason else kind,
            reason=reason,
            near_duplicate_of=None,
            distance=None,
            similarity=similarity,
            cluster_id=None if cluster is None else str(cluster),
            canonical=None,
            merged_clusters=tuple(map(str, merged)),
            fingerprint=None,
            policy="p",
            ordinal=ordinal,
            time=time,
            source=source,
        )
        self.verdicts.append(verdict)
        self.sheets[source.partition, source.offset] = (
            f"t{ordinal} {HEADLINES[ordinal % len(HEADLINES)]}",
            gone and kind == "http_status",
            is_list,
        )


KINDS = [
    "new",
    "near_duplicate",
    "near_duplicate",
    "unchanged",
    "few_words",
    "http_status",
    "unreadable",
    "withdrawn",
]
STEP = st.tuples(
    st.sampled_from("abcdefgh"),
    st.sampled_from(KINDS),
    st.integers(0, 12),
    st.lists(st.integers(0, 20), min_size=1, max_size=3),
    st.booleans(),
    st.integers(0, 5).map(lambda number: number == 5),
)


def world_of(steps: list[Any]) -> ClusterWorld:
    world, clock = ClusterWorld(), 100
    for page_id, kind, ahead, picks, gone, is_list in steps:
        clock += ahead - 4  # sometimes back, as page times are
        world.add(page_id, kind, max(1, clock), picks, gone, is_list)
    return world


def shown(fold: VerdictFold) -> dict[int, list[tuple[Any, ...]]]:
    found: dict[int, list[tuple[Any, ...]]] = defaultdict(list)
    for i, v in sorted(fold.versions.items(), key=lambda item: item[1].joined):
        group = fold.groups.home(i)
        assert (group is not None) == v.is_shown
        if group is not None:
            found[group.cluster].append((i, v.joined, v.first, v.time, v.similarity, v.title))
    return dict(found)


def found_by(cards: StoryCards, asked: CardQuery, start: int = 0, stop: int = 10**6) -> tuple[list[StoryCard], int]:
    work = cards.find(asked, start, stop)
    while True:
        try:
            next(work)
        except StopIteration as done:
            found: tuple[list[StoryCard], int] = done.value
            return found


def catch_up(cards: StoryCards) -> None:
    while cards.refresh():
        pass


def told(cards: StoryCards, cluster: int) -> dict[str, Any]:
    card = cards.get(cluster)
    assert card is not None
    named = ("title", "newest_title", "url", "site", "sites", "pages", "growth", "first", "last", "updated")
    return {name: getattr(card, name) for name in named}


ASKED = st.builds(
    CardQuery,
    order=st.sampled_from(ORDERS),
    since=st.none() | st.integers(60, 200),
    until=st.none() | st.integers(60, 200),
    at_least=st.integers(1, 4),
    sites=st.integers(1, 3),
    words=st.sampled_from(WORDS),
    site=st.sampled_from(["", "", "y.example", "z.example"]),
)


@given(
    st.lists(STEP, max_size=60),
    st.sampled_from([10, 40, 400, ENDLESS]),
    st.lists(ASKED, min_size=1, max_size=4),
    st.sampled_from([1, 2, 5, 256]),
    st.data(),
)
def test_cards_kept_as_pages_come_and_go_are_those_made_from_all_pages_anew(
    steps: list[Any], window_ms: int, questions: list[CardQuery], a_slice: int, data: st.DataObject
) -> None:
    world, fold = world_of(steps), VerdictFold({}, FoldLimits(window_ms))
    cards = StoryCards(fold)
    few = data.draw(st.sampled_from([-1, 2, 32]))
    with (
        patch.multiple(cards_module, SLICE_PAGES=a_slice, MAX_SORTED_CARDS=few),
        patch.object(word_index, "SLICE_PAGES", a_slice),
        patch.object(fold_module, "MAX_AGED", a_slice),
    ):
        for number, verdict in enumerate(world.verdicts, 1):
            fold.read(*sheet(world, verdict))
            fold.apply(verdict, written=verdict.ordinal + 1)
            if data.draw(st.integers(0, 2)) == 0:
                cards.refresh()
            if number % 20 and number < len(world.verdicts):
                continue
            while fold.age():
                pass
            catch_up(cards)
            made = naive_feed.cards(shown(fold), fold.stream_time, cards.growth_ms)
            assert len(cards) == len(made)
            for cluster, facts in made.items():
                assert told(cards, cluster) == {
                    name: fact for name, fact in facts.items() if name not in ("words", "owners")
                }
            for one in questions:
                wanted = naive_feed.asked(
                    made, one.order, one.since, one.until, one.at_least, one.sites, one.words, one.site
                )
                found, total = found_by(cards, one)
                assert [card.cluster for card in found] == wanted
                assert total == len(wanted)
                found, total = found_by(cards, one, 1, 3)
                assert ([card.cluster for card in found], total) == (wanted[1:3], len(wanted))


@given(st.lists(STEP, max_size=60), st.integers(1, 5))
def test_of_a_long_story_the_founder_and_the_newest_are_listed(steps: list[Any], most: int) -> None:
    world, fold = world_of(steps), VerdictFold({}, FoldLimits(ENDLESS))
    for verdict in world.verdicts:
        fold.apply(verdict)
    cards = StoryCards(fold)
    catch_up(cards)
    for cluster, pages in shown(fold).items():
        card = cards.get(cluster)
        assert card is not None
        ids = [page[0] for page in pages]
        expected = ids if len(ids) <= most else [ids[0], *ids[1:][len(ids) - most :]]
        assert [page_id for page_id, _ in cards.spread(card, most)] == expected


def sheet(world: ClusterWorld, verdict: Verdict) -> tuple[str, PageSheet]:
    source = verdict.source
    title, gone, is_list = world.sheets[source.partition, source.offset]
    return place(source.partition, source.offset), PageSheet(title, verdict.time, gone, is_list, verdict.id)


@given(st.lists(STEP, max_size=40), st.data())
def test_any_order_of_partitions_with_repeats_and_restarts_gives_the_cards_of_the_whole_list(
    steps: list[Any], data: st.DataObject
) -> None:
    world = world_of(steps)
    queues: dict[int, list[tuple[str, Verdict]]] = defaultdict(list)
    for verdict in world.verdicts:
        queues[ord(verdict.id) % PARTITIONS].append(("verdict", verdict))
        queues[PARTITIONS + verdict.source.partition].append(("page", verdict))
    table: dict[str, bytes] = {}
    limits = FoldLimits(window_ms=ENDLESS)
    fold, done = VerdictFold(table, limits), dict.fromkeys(queues, 0)
    while left := [name for name in queues if done[name] < len(queues[name])]:
        name = data.draw(st.sampled_from(left))
        what, verdict = queues[name][done[name]]
        if what == "verdict":
            fold.apply(verdict)
        else:
            fold.read(*sheet(world, verdict))
        done[name] += 1
        again = data.draw(st.integers(0, 9))
        if again == 0:
            done[name] = data.draw(st.integers(0, done[name]))  # an aborted transaction, a commit that was lost
        elif again == 1:
            fold = VerdictFold(table, limits)
    expected = stories(world.verdicts, world.sheets, ENDLESS)
    assert shown(fold) == expected
    assert fold.lists == sum(version.is_list for version in fold.versions.values() if version.is_live)
    assert {key for key in table if key[0] == "v"} >= {
        f"v{page[0]}" for pages in expected.values() for page in pages
    }
    assert shown(VerdictFold(dict(table), limits)) == expected


@given(st.lists(STEP, max_size=60), st.integers(5, 60), st.booleans())
def test_pages_age_out_and_take_with_them_what_was_kept_for_them(
    steps: list[Any], window_ms: int, pages_first: bool
) -> None:
    world = world_of(steps)
    table: dict[str, bytes] = {}
    fold = VerdictFold(table, FoldLimits(window_ms))
    cards = StoryCards(fold)
    for number, verdict in enumerate(world.verdicts):
        first, second = (fold.read, fold.apply) if pages_first else (fold.apply, fold.read)
        for take in (first, second):
            take(*(sheet(world, verdict) if take == fold.read else (verdict,)))  # type: ignore[operator]
        if number % 7 == 0:
            cards.refresh()
        expected = stories(world.verdicts[: number + 1], world.sheets, window_ms)
        assert {c: [p[:-1] for p in pages] for c, pages in shown(fold).items()} == {
            c: [p[:-1] for p in pages] for c, pages in expected.items()
        }
        assert all(fold.versions[name].time > fold.stream_time - window_ms for name in fold.versions)
    catch_up(cards)
    assert {card.cluster: card.pages for card in found_by(cards, CardQuery())[0]} == {
        cluster: len(pages) for cluster, pages in shown(fold).items()
    }
    assert shown(VerdictFold(dict(table), FoldLimits(window_ms))) == shown(fold)


def test_no_more_is_kept_than_the_limit_and_the_oldest_go_first() -> None:
    world = ClusterWorld()
    for number in range(50):
        world.add(f"page{number}", "new", 1000 + number, [0], False)
    table: dict[str, bytes] = {}
    fold = VerdictFold(table, FoldLimits(ENDLESS, most_pages=10))
    for verdict in world.verdicts:
        fold.read(place(7, verdict.ordinal), PageSheet("never judged", verdict.time))
        fold.apply(verdict)
    assert sorted(fold.versions) == [f"page{number}" for number in range(40, 50)]
    assert len(table) == 21
    assert (fold.counts.too_many, fold.counts.too_old) == (40, 0)
    assert VerdictFold(table, FoldLimits(ENDLESS, most_pages=10)).counts == fold.counts


def test_nothing_is_kept_of_the_record_of_a_page_once_it_has_its_verdict() -> None:
    world = ClusterWorld()
    world.add("a", "new", 1000, [0], False)
    table: dict[str, bytes] = {}
    fold = VerdictFold(table, FoldLimits(ENDLESS))
    for _ in range(2):
        fold.read(*sheet(world, world.verdicts[0]))
        fold.apply(world.verdicts[0])
    fold.read(*sheet(world, world.verdicts[0]))
    assert list(table) == [version_key("a")]


def test_a_page_waits_for_few_records_of_failed_fetches() -> None:
    world = ClusterWorld()
    world.add("a", "new", 1000, [0], False)
    fold = VerdictFold({}, FoldLimits(ENDLESS))
    fold.apply(world.verdicts[0])
    failed = msgspec.structs.replace(world.verdicts[0], verdict="too_short", reason="http_status", cluster_id=None)
    for number in range(1, 100):
        fold.apply(msgspec.structs.replace(failed, ordinal=number, source=PageSource("pages", 0, number)))
    assert len(fold.versions["a"].doubts) == fold_module.MAX_DOUBTS


def test_pages_older_than_the_window_are_counted_once_however_often_they_come() -> None:
    world = ClusterWorld()
    world.add("a", "new", 1000, [0], False)
    for page_id in "bcdefg":
        world.add(page_id, "new", 5, [0], False)
    table: dict[str, bytes] = {}
    fold = VerdictFold(table, FoldLimits(100))
    for partition in (0, 1, 0, 1):
        for verdict in world.verdicts[partition::2]:
            fold.apply(verdict, partition)
    assert (fold.counts.too_old, list(fold.versions)) == (6, ["a"])
    again = VerdictFold(table, FoldLimits(100))
    again.apply(world.verdicts[3], 1)
    assert again.counts.too_old == 6
    again.apply(msgspec.structs.replace(world.verdicts[3], id="h", ordinal=9), 1)
    assert again.counts.too_old == 7


def test_a_page_that_comes_after_two_merges_in_a_row_is_in_the_cluster_that_survived() -> None:
    world = ClusterWorld()
    for page_id, kind, picks in (("a", "new", [0]), ("b", "new", [0]), ("c", "new", [0])):
        world.add(page_id, kind, 5, picks, False)
    world.add("d", "near_duplicate", 5, [1, 2], False)  # 2 goes into 1
    world.add("e", "near_duplicate", 5, [0, 1], False)  # and 1 into 0
    table: dict[str, bytes] = {}
    fold = VerdictFold(table, FoldLimits(ENDLESS))
    for number in (3, 4, 2, 1, 0):
        fold.apply(world.verdicts[number])
    assert [[page[0] for page in pages] for pages in shown(fold).values()] == [["a", "b", "c", "d", "e"]]
    cards = StoryCards(fold)
    catch_up(cards)
    assert cards.get(2) is not None
    assert cards.get(2) == cards.get(0)


def test_a_merge_by_an_earlier_version_of_a_page_holds_although_the_later_version_is_read_first() -> None:
    world = ClusterWorld()
    for page_id, kind, picks in (
        ("a", "new", [0]),
        ("b", "new", [0]),
        ("x", "near_duplicate", [0, 1]),  # 1 goes into 0
        ("x", "unchanged", [0]),  # in another partition: partitions were added in between
    ):
        world.add(page_id, kind, 5, picks, False)
    fold = VerdictFold({}, FoldLimits(ENDLESS))
    for number in (0, 1, 3, 2):
        fold.apply(world.verdicts[number])
    assert [[page[0] for page in pages] for pages in shown(fold).values()] == [["a", "b", "x"]]


def test_merges_that_no_judge_makes_do_not_go_round_after_a_restart() -> None:
    world = ClusterWorld()
    world.add("a", "new", 1, [0], False)
    table: dict[str, bytes] = {}
    fold = VerdictFold(table, FoldLimits(window_ms=100))
    merges = [(1000, 1, "3"), (1150, 3, "5"), (1150, 5, None), (1160, 5, None), (1210, 9, None), (1220, 5, "3")]
    for number, (time, cluster, merged) in enumerate(merges):  # the merge of 3 leaves at 1210, that of 5 stays
        changes = {"id": str(number), "ordinal": number, "time": time, "cluster_id": str(cluster)}
        into = (merged,) if merged else ()
        fold.apply(msgspec.structs.replace(world.verdicts[0], merged_clusters=into, **changes))
    assert shown(VerdictFold(dict(table), FoldLimits(window_ms=100))) == shown(fold)


def test_a_table_with_merges_that_go_round_is_read() -> None:
    table = {merge_key(3): encode(ClusterMerge(5, 1000)), merge_key(5): encode(ClusterMerge(3, 1000))}
    fold = VerdictFold(table, FoldLimits(window_ms=100))
    assert len({fold.groups.root(3), fold.groups.root(5)}) == 1
    world = ClusterWorld()
    world.add("a", "new", 2000, [0], False)
    fold.apply(world.verdicts[0])
    assert merge_key(3) not in table
    assert merge_key(5) not in table
