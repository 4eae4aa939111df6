"""The public Python API: what a researcher types."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterator
from concurrent.futures import thread
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from simstream import Deduper, fingerprint
from simstream.deduper import fingerprinting
from simstream.deduper.state import SavedState
from simstream.errors import SettingsError, StateLocked, StateUnwritable, UsageError, WrongPolicy
from simstream.files.save_pace import SavePace
from simstream.judge.policy import Policy, make_policy
from simstream.judge.resolver import Resolver
from simstream.judge.state import make_index
from simstream.judge.warming import warm_judge
from simstream.kernels.index.confirm import confirm_rows
from simstream.kernels.index.entry_numbers import merge_live
from simstream.kernels.index.gather import gather
from simstream.kernels.index.hamming import scan
from simstream.kernels.index.packed import locate_packed, pack, probe_packed, unpack
from simstream.kernels.index.permute import rotate
from simstream.model import PageSource, Record, Verdict
from simstream.text.recipe import preset
from tests.e2e.pages import STORY

EDITED = STORY.replace("周六", "周日")
OTHER = (
    "The night train now stops at the mill village again after forty years, and the baker opens before dawn for it."
)


@pytest.fixture
def deduper(cache):
    with Deduper(cache=cache, workers=0) as made:
        yield made


def test_an_argument_without_a_name_is_refused_with_the_two_that_may_be_meant() -> None:
    with pytest.raises(TypeError, match=r"write Deduper\(recipe='google2007'\) .*Deduper\(path='google2007'\)"):
        Deduper("google2007")  # type: ignore[arg-type]


def test_a_copy_is_named_with_its_original_and_both_share_a_cluster(deduper) -> None:
    first, other, copy = deduper.judge(
        [{"id": "a", "text": STORY}, {"id": "b", "text": OTHER}, {"id": "c", "text": EDITED}]
    )
    assert (first.verdict, other.verdict, copy.verdict) == ("new", "new", "near_duplicate")
    assert (copy.near_duplicate_of, copy.cluster_id, copy.canonical) == ("a", "0", "a")


def test_state_lasts_from_call_to_call_and_ordinals_go_on(deduper) -> None:
    deduper.judge([{"id": "a", "text": STORY}])
    [again] = deduper.judge([{"id": "a", "text": EDITED}])
    assert (again.verdict, again.ordinal, again.near_duplicate_of) == ("unchanged", 1, None)


def test_plain_texts_and_pages_without_id_are_named_by_their_number(deduper) -> None:
    assert [v.id for v in deduper.judge([STORY, {"text": OTHER}])] == ["python/0/0", "python/0/1"]
    assert deduper.judge([OTHER])[0].id == "python/0/2"


@pytest.mark.parametrize("field", ["id", "url"])
def test_no_page_can_take_the_name_of_a_page_without_id(deduper, field) -> None:
    deduper.judge([STORY])
    with pytest.raises(UsageError, match="the page with the number 1 has the id 'python/0/0', the name of a page"):
        deduper.judge([{field: "python/0/0", "text": OTHER}])
    with pytest.raises(UsageError, match="'python/0/7'"):
        deduper.judge([{field: "python/0/7", "text": OTHER}])
    assert deduper.judged == 1
    own, other = deduper.judge([{field: "python/0/1", "text": EDITED}, {field: "python/0/x", "text": OTHER}])
    assert (own.near_duplicate_of, own.verdict, other.verdict) == ("python/0/0", "near_duplicate", "new")


def test_a_page_that_is_refused_costs_no_other_page_of_the_call_its_verdict(deduper) -> None:
    many = [{"id": str(number), "text": f"{OTHER} {number}"} for number in range(1100)]  # several batches
    with pytest.raises(UsageError, match="'python/0/9'"):
        deduper.judge([*many, {"id": "python/0/9", "text": STORY}])
    with pytest.raises(TypeError, match="or a text, not NoneType"):
        deduper.judge([*many, None])
    with pytest.raises(TypeError, match="the field 'html' of a page is bytes, not a str: decode it"):
        deduper.judge([*many, {"id": "a", "html": b"<p>Base64?"}])
    assert (deduper.judged, deduper.match(OTHER)) == (0, [])
    assert deduper.judge(many)[0].verdict == "new"


def test_explain_takes_the_name_of_a_page_without_id(deduper) -> None:
    deduper.judge([STORY, OTHER])
    explained = deduper.explain({"id": "python/0/0", "text": EDITED})
    assert explained.page.id == "python/0/0"
    assert [candidate.id for candidate in explained.candidates] == ["python/0/0"]
    assert deduper.judged == 2


def test_html_is_extracted_and_matches_its_text(deduper) -> None:
    body = f"<nav>home</nav><article><p>{STORY}</p><p>{OTHER}</p></article>"
    page = f"<html><head><title>x</title></head><body>{body}</body></html>"
    verdicts = deduper.judge([{"id": "a", "text": f"{STORY}\n{OTHER}"}, {"id": "b", "html": page}])
    assert verdicts[1].near_duplicate_of == "a"


def test_broken_pages_get_their_verdict_too(deduper) -> None:
    verdicts = deduper.judge(
        [{"id": "a"}, {"id": "b", "text": 5}, {"id": "c", "text": ""}, {"id": "d", "text": "\ud800"}]
    )
    assert [(v.verdict, v.reason) for v in verdicts] == [
        ("unreadable", "no_text"),
        ("unreadable", "wrong_type"),
        ("too_short", "few_words"),
        ("too_short", "few_words"),
    ]


def test_match_asks_without_storing_and_names_the_closest_first(deduper) -> None:
    deduper.judge([{"id": "far", "text": EDITED}, {"id": "same", "text": STORY}])
    found = deduper.match(STORY)
    assert [m.id for m in found] == ["same", "far"]
    assert (found[0].distance, found[0].similarity, found[0].cluster_id) == (0, 1.0, "0")
    assert deduper.match(OTHER) == []
    assert deduper.match("zu kurz") == []
    assert deduper.judge([{"id": "new", "text": OTHER}])[0].ordinal == 2


def test_explain_shows_the_page_and_its_matches_and_stores_nothing(deduper) -> None:
    deduper.judge([{"id": "far", "text": EDITED}, {"id": "same", "text": STORY}, {"id": "b", "text": OTHER}])
    for _ in range(2):
        explained = deduper.explain({"id": "c", "text": STORY})
        assert [(c.id, c.accepted, c.distance) for c in explained.candidates][:1] == [("same", True, 0)]
        assert {c.id for c in explained.candidates if c.accepted} == {"same", "far"}
        assert (explained.page.id, explained.page.text, explained.live_pages) == ("c", STORY, 3)
    [verdict] = deduper.judge([{"id": "c", "text": STORY}])
    assert f"{explained.columns.fingerprint[0]:016x}" == verdict.fingerprint
    assert (verdict.ordinal, verdict.near_duplicate_of) == (3, "same")


def test_explain_of_a_page_with_nothing_to_compare_says_why(deduper) -> None:
    explained = deduper.explain("zu kurz")
    assert (explained.page.reason, explained.candidates) == ("few_words", [])


def test_short_pages_match_by_the_recipes_stricter_rule_and_long_ones_as_before(cache) -> None:
    recipe = replace(preset("default"), short_words=40, short_distance=0, short_similarity="1")
    long, long_edited = (" ".join([OTHER, text, *map(str, range(40))]) for text in (STORY, EDITED))
    texts = {"a": STORY, "edited": EDITED, "copy": STORY, "long": long, "long edited": long_edited}
    with Deduper(cache=cache, workers=0, recipe=recipe) as deduper:
        verdicts = deduper.judge([{"id": name, "text": text} for name, text in texts.items()])
        assert [v.near_duplicate_of for v in verdicts] == [None, None, "a", None, "long"]
        assert [match.id for match in deduper.match(STORY)] == ["a", "copy"]
        explained = deduper.explain({"id": "again", "text": EDITED}).candidates
        assert {c.id: c.rejected_by for c in explained[:3]} == {"edited": None, "a": "short", "copy": "short"}


def test_a_window_forgets_by_the_pages_own_time_and_needs_one(cache) -> None:
    with Deduper(cache=cache, workers=0, window="1h") as deduper:
        pages = [
            {"id": "a", "text": STORY, "time": "2026-03-01T00:00:00Z"},
            {"id": "b", "text": OTHER, "time": "2026-03-01T01:00:00Z"},
            {"id": "c", "text": STORY, "time": "2026-03-01T01:00:01Z"},
        ]
        assert [v.verdict for v in deduper.judge(pages)] == ["new", "new", "new"]
        with pytest.raises(UsageError, match=r"'d' has no `time` that can .* make the Deduper without `window`"):
            deduper.judge([{"id": "e", "text": OTHER, "time": 5}, {"id": "d", "text": OTHER, "time": "yesterday"}])
        with pytest.raises(UsageError, match="'d' has no `time`"):
            deduper.explain({"id": "d", "text": OTHER})
        assert deduper.judged == 3


def test_a_window_says_once_that_a_time_is_likely_in_seconds(cache) -> None:
    said: list[str] = []
    seconds, ms = 1_795_997_524, 1_795_997_524_000
    pages = [{"id": str(at), "text": STORY, "time": at} for at in (ms, seconds, seconds + 6)]
    with Deduper(cache=cache, workers=0, window="72h", say=said.append) as deduper:
        deduper.judge(pages)
        deduper.judge(pages)
    [line] = [line for line in said if "has the time" in line]
    assert line == f"the page '{seconds}' has the time {seconds}, in ms since 1970: is it in seconds?"


def test_what_is_out_of_range_is_refused_by_name(cache) -> None:
    for wrong in (
        {"recipe": "x"},
        {"distance": 99},
        {"similarity": 2},
        {"window": "3 days"},
        {"window": 5},
        {"distance": "3"},
        {"distance": True},
        {"link": "some"},
        {"workers": -1},
        {"timeout_s": -1},
        {"timeout_s": "x"},
        {"memory_bytes": 0},
        {"max_record_bytes": -5},
    ):
        with pytest.raises(SettingsError, match=next(iter(wrong))):
            Deduper(cache=cache, **{"workers": 0} | wrong)


def test_a_limit_may_be_a_number_of_numpy(cache) -> None:
    with Deduper(
        cache=cache,
        distance=np.int64(8),
        workers=np.int64(0),
        timeout_s=np.float64(2),
        max_record_bytes=np.int64(1 << 20),
    ) as made:
        assert made.policy.id == make_policy(preset("default"), made.policy.recipe_id, 8).id
        assert made.judge([STORY])[0].verdict == "new"


@pytest.mark.parametrize("unit", ["D", "s", "ms", "us", "ns"])
def test_a_time_of_numpy_counts_in_each_unit(deduper: Deduper, unit: str) -> None:
    """pandas keeps times in nanoseconds: `df.time.values`."""
    times = np.array(["2026-03-02", "NaT"], f"datetime64[{unit}]")
    verdicts = deduper.judge([{"text": STORY, "time": time} for time in times])
    assert [one.time for one in verdicts] == [1772409600000, 0]


def test_a_text_may_be_a_subclass_of_str(deduper: Deduper) -> None:
    """As lxml's XPath, BeautifulSoup and numpy give them."""

    class Text(str):
        __slots__ = ()

    pages = [{"id": Text("a"), "text": STORY}, {"url": Text("b"), "text": Text(EDITED)}, {"text": Text("\ud800")}]
    found = [(one.id, one.url, one.verdict) for one in deduper.judge([*pages, Text(STORY)])]
    assert found[:2] == [("a", None, "new"), ("b", "b", "near_duplicate")]
    assert [kind for *_, kind in found[2:]] == ["too_short", "near_duplicate"]
    assert deduper.explain(Text(STORY)).page.text == STORY
    odd = {"id": np.int64(7), "text": Text(STORY)}  # one field of it is encoded by itself
    assert deduper.judge([odd])[0].near_duplicate_of == "a"


def test_a_cache_may_be_text_and_a_stream_of_no_records_is_refused_in_a_sentence(cache) -> None:
    with Deduper(cache=str(cache), workers=0) as deduper, pytest.raises(TypeError, match="not str: give texts and"):
        list(deduper.stream([STORY]))
    assert fingerprint([STORY], cache=str(cache)).shape == (1,)


def test_any_number_of_threads_gives_the_same_verdicts(cache, monkeypatch) -> None:
    from simstream.index import lookup_threads
    from simstream.sources.demo import demo_records

    monkeypatch.setattr(lookup_threads, "MIN_ENTRIES", 1)
    monkeypatch.setattr(lookup_threads, "MIN_PART_QUERIES", 1)
    run, parts = lookup_threads.LookupThreads.run, set()

    def noting(self, look_up, spans):
        parts.add(len(spans))
        return run(self, look_up, spans)

    monkeypatch.setattr(lookup_threads.LookupThreads, "run", noting)
    records = list(demo_records())
    runs = []
    for threads in (1, 3):
        with Deduper(cache=cache, workers=1) as deduper:
            deduper.judge(["the first entry of an index, whose words nobody else has written so far, and more"])
            runs.append(list(deduper.stream(records, threads=threads)))
            assert max(parts) == threads
            parts.clear()
            runs[-1] += deduper.judge(["these words come after the stream, and one thread looks them up"] * 3)
            assert parts == {1}
    assert runs[0] == runs[1]
    assert len(runs[0]) == 111


def test_fingerprints_of_texts_are_uint64_and_equal_those_of_verdicts(deduper, cache) -> None:
    prints = fingerprint([STORY, OTHER, "短"], cache=cache)
    assert prints.dtype == np.uint64
    assert [f"{p:016x}" for p in prints[:2].tolist()] == [v.fingerprint for v in deduper.judge([STORY, OTHER])]
    assert prints[2] == 0


def test_many_pages_over_several_calls_keep_their_numbers(deduper) -> None:
    counts = (1300, 40)
    verdicts = [v for count in counts for v in deduper.judge([f"{i} {OTHER}" for i in range(count)])]
    assert [v.ordinal for v in verdicts] == list(range(sum(counts)))
    assert [v.id for v in verdicts] == [f"python/0/{i}" for i in range(sum(counts))]
    assert [v.source.offset for v in verdicts] == list(range(sum(counts)))


def test_a_damaged_input_raises_after_the_verdicts_of_earlier_pages(deduper) -> None:
    from simstream.errors import InputError
    from simstream.sources.demo import demo_records

    def damaged():
        yield from demo_records()
        raise InputError("it broke off")

    verdicts = deduper.stream(damaged(), threads=2)
    assert len([next(verdicts) for _ in range(108)]) == 108
    with pytest.raises(InputError, match="it broke off"):
        next(verdicts)


def test_a_folder_is_taken_up_where_it_was_closed(cache, tmp_path) -> None:
    pages = [{"id": str(i), "text": text} for i, text in enumerate([STORY, OTHER, EDITED, STORY, EDITED, OTHER])]
    with Deduper(cache=cache, workers=0) as deduper:
        expected = deduper.judge(pages)
    found = []
    for page in pages:
        with Deduper(path=tmp_path / "state", cache=cache, workers=0) as deduper:
            found += [replace_source(verdict) for verdict in deduper.judge([page])]
    assert found == [replace_source(verdict) for verdict in expected]
    with pytest.raises(WrongPolicy):
        Deduper(path=tmp_path / "state", distance=3, cache=cache, workers=0)


class Table:
    """What a DataFrame looks like."""

    columns = ("id", "text")

    def __iter__(self) -> Iterator[str]:
        return iter(self.columns)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (STORY, "not one str: put it into a list"),
        (STORY.encode(), "not one bytes: put it into a list"),
        ({"id": "a", "text": STORY}, "not one dict: put it into a list"),
        (None, "judge takes pages or texts, not NoneType: give a list of them"),
        (5, "not int: give a list of them"),
        (Table(), r"not a Table: pass its rows: to_dict\('records'\)"),
        ([STORY.encode()], "or a text, not bytes"),
        ([None], "or a text, not NoneType"),
        ([["id", "text"]], "or a text, not list"),
    ],
)
def test_the_error_for_a_wrong_argument_says_what_to_pass(deduper: Deduper, given: Any, said: str) -> None:
    with pytest.raises(TypeError, match=said):
        deduper.judge(given)
    assert deduper.judged == 0


@pytest.mark.parametrize("given", [STORY, {"text": STORY}, Table()])
def test_fingerprint_and_match_take_no_tables_either(deduper: Deduper, cache: Path, given: Any) -> None:
    with pytest.raises(TypeError, match="fingerprint takes texts"):
        fingerprint(given, cache=cache)
    with pytest.raises(TypeError, match="match takes one text"):
        deduper.match([given])


NESTED: list[Any] = []
NESTED.append(NESTED)


@pytest.mark.parametrize("value", [10**5000, -(10**5000), NESTED], ids=["long", "negative", "nested"])
@pytest.mark.parametrize(
    ("field", "reason"),
    [
        ("id", "wrong_type"),
        ("url", "wrong_type"),
        ("text", "wrong_type"),
        ("status", "wrong_type"),
        ("x", "few_words"),
    ],
)
def test_a_value_that_json_cannot_hold_costs_its_own_page_alone(
    deduper: Deduper, field: str, reason: str, value: Any
) -> None:
    first, other = deduper.judge([{"text": "x", field: value}, {"id": "b", "text": OTHER}])
    assert (first.id, first.reason, other.verdict) == ("python/0/0", reason, "new")


def test_a_decimal_of_a_billion_digits_is_an_id_as_it_is_written(deduper: Deduper) -> None:
    [verdict] = deduper.judge([{"id": Decimal("1E+999999999"), "text": OTHER}])
    assert (verdict.id, verdict.verdict) == ("1E+999999999", "new")


@pytest.mark.parametrize(("text", "kind"), [(None, "NoneType"), (b"a", "bytes"), (float("nan"), "float")])
def test_what_is_no_text_has_no_fingerprint(cache: Path, text: Any, kind: str) -> None:
    with pytest.raises(TypeError, match=f"text 1 has the type {kind}, not str: decode bytes"):
        fingerprint([STORY, text], cache=cache)


@pytest.mark.parametrize("argument", ["path", "scratch"])
@pytest.mark.parametrize("name", ["", "a\0b"])
def test_a_name_that_no_folder_has_is_refused(cache: Path, argument: str, name: str) -> None:
    with pytest.raises(
        UsageError, match=f"{argument} is .*, which names no folder: name a folder, or leave it out"
    ):
        Deduper(cache=cache, workers=0, **{argument: name})  # type: ignore[arg-type]


@pytest.mark.parametrize("argument", ["path", "scratch"])
def test_a_file_is_refused_as_a_folder(cache, tmp_path: Path, argument: str) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(UsageError, match=f"{argument} is .*file', which is no folder: name a folder"):
        Deduper(cache=cache, workers=0, **{argument: tmp_path / "file"})


def test_a_folder_is_saved_as_pages_come_and_says_where_it_goes_on(cache: Path, tmp_path: Path) -> None:
    pages = [{"id": str(number), "text": f"{OTHER} {number}"} for number in range(700)]
    deduper = Deduper(path=tmp_path / "state", cache=cache, workers=0, save_pages=500)
    for page in pages:
        deduper.judge([page])
    shutil.copytree(tmp_path / "state", tmp_path / "killed")
    deduper.close()
    said: list[str] = []
    with Deduper(path=tmp_path / "killed", cache=cache, workers=0, say=said.append) as other:
        assert 500 <= other.judged < 700
        assert said == [f"{tmp_path / 'killed'} goes on after {other.judged:,} pages"]
        assert next(match.id for match in other.match(pages[499]["text"])) == "499"
        again = other.judge(pages[other.judged :])
        assert "unchanged" not in {verdict.verdict for verdict in again}


def test_a_folder_is_saved_once_the_seconds_that_were_set_have_passed(cache: Path, tmp_path: Path) -> None:
    with Deduper(path=tmp_path / "state", cache=cache, workers=0, save_s=1e-9) as deduper:
        deduper.judge([STORY])
        shutil.copytree(tmp_path / "state", tmp_path / "killed")
    with Deduper(path=tmp_path / "killed", cache=cache, workers=0) as other:
        assert other.judged == 1


def test_a_stream_is_saved_between_batches_when_their_verdicts_were_taken(cache: Path, tmp_path: Path) -> None:
    values = [b'{"id":"%d","text":"%s %d"}' % (number, OTHER.encode(), number) for number in range(1500)]
    records = [Record("p", 0, number, b"%d" % number, value) for number, value in enumerate(values)]
    with Deduper(path=tmp_path / "state", cache=cache, workers=0, save_pages=1) as deduper:
        verdicts = deduper.stream(records)
        for _ in range(600):
            next(verdicts)
        shutil.copytree(tmp_path / "state", tmp_path / "killed")
    with Deduper(path=tmp_path / "killed", cache=cache, workers=0) as other:
        assert other.judged == 512


def test_a_disk_that_takes_no_state_costs_no_verdict(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    options: Any = {"path": tmp_path / "state", "cache": cache, "workers": 0, "save_pages": 1, "save_s": 3600.0}
    with Deduper(**options, say=said.append) as deduper:
        said.clear()  # a first start says that it compiles
        with monkeypatch.context() as patched:
            patched.setattr(SavedState, "_write", failing_save)
            assert [verdict.verdict for verdict in deduper.judge([STORY])] == ["new"]
            deduper.judge([OTHER])  # it is too soon to try again
        assert said == ["no room: make some"]


def failing_save(*_: Any) -> None:
    raise StateUnwritable("no room", "make some")


def test_saving_is_due_by_pages_or_seconds_and_takes_a_share_of_the_time() -> None:
    now = 0.0
    pace = SavePace(100, 10.0, lambda: now)
    assert [pace.is_due(pages) for pages in (0, 99, 100)] == [False, False, True]
    now = 10.0
    assert [pace.is_due(pages) for pages in (0, 1)] == [False, True]
    pace.note_save(100, took_s=1.0)
    now = 29.0
    assert not pace.is_due(10_000)
    now = 30.0
    assert pace.is_due(101)
    with pytest.raises(SettingsError):
        SavePace(0, 1.0, lambda: now)


def replace_source(verdict: Verdict) -> Verdict:
    return msgspec.structs.replace(verdict, source=PageSource("python", 0, 0))


def test_what_was_not_saved_is_unknown_to_the_next_one(cache, tmp_path) -> None:
    deduper = Deduper(path=tmp_path / "state", cache=cache, workers=0)
    deduper.judge([{"id": "saved", "text": STORY}])
    deduper.save()
    deduper.judge([{"id": "lost", "text": OTHER}])
    with pytest.raises(StateLocked):
        Deduper(path=tmp_path / "state", cache=cache, workers=0)
    shutil.copytree(tmp_path / "state", tmp_path / "killed")
    deduper.close()
    with Deduper(path=tmp_path / "killed", cache=cache, workers=0) as other:
        assert [match.id for match in other.match(STORY)] == ["saved"]
        assert other.match(OTHER) == []
    with Deduper(path=tmp_path / "state", cache=cache, workers=0) as other:
        assert [match.id for match in other.match(OTHER)] == ["lost"]


def test_a_page_matches_by_any_of_its_fingerprints(cache, tmp_path) -> None:
    two = replace(preset("default"), name="two", fingerprints=2, distance=16, similarity="0", short_similarity=None)
    with Deduper(path=tmp_path / "state", recipe=two, cache=cache, workers=0) as deduper:
        first, *_ = deduper.judge(
            [{"id": "a", "text": STORY}, {"id": "b", "text": EDITED}, {"id": "c", "text": OTHER}]
        )
        explained = deduper.explain({"id": "d", "text": EDITED})
    with Deduper(path=tmp_path / "state", recipe=two, cache=cache, workers=0) as again:
        found = {match.id: match.distance for match in again.match(STORY)}
    one, both = (fingerprint([STORY, EDITED], recipe=replace(two, fingerprints=n)) for n in (1, 2))
    digits = {1: one.tolist()}
    assert both[:, 0].tolist() == digits[1], "the first fingerprint stays"
    assert first.fingerprint == "".join(f"{value:016x}" for value in both[0].tolist())
    distances = {one.id: one.distance for one in explained.candidates}
    assert distances["a"] == found["b"] <= (digits[1][0] ^ digits[1][1]).bit_count()
    assert found["a"] == distances["b"] == 0


@pytest.mark.parametrize("fingerprints", [1, 3])
def test_warming_compiles_all_that_the_index_needs_for_tables(fingerprints: int) -> None:
    policy = Policy("00000000", 256, 8, 205, None, "any", 32, 8, 216, fingerprints, 1)
    warm_judge(policy)
    kernels = (probe_packed, locate_packed, pack, unpack, rotate, scan, merge_live, confirm_rows, gather)
    before = [len(kernel.signatures) for kernel in kernels]
    index = make_index(policy)
    rng = np.random.default_rng(1)
    for first in range(1, 40_000, 20_000):
        numbers = np.arange(first, first + 20_000, dtype=np.uint32)
        keys = rng.integers(0, 2**64, (20_000, 4 + fingerprints), np.uint64)
        index.add(numbers, keys[:, 0], keys[:, 1:], None, None)
        index.release(numbers[::2])
        index.settle()
        asked = keys[1:99:2].copy()
        asked[:, 0] = rng.integers(0, 2**64, 49, np.uint64) if fingerprints > 1 else asked[:, 0]
        assert len(index.query(asked[:, 0], asked[:, 1:]).entry) == 49
    assert any(int(part.facts["plan"]["tables"]) for part in index.parts() if part.kind == "segment")
    assert [len(kernel.signatures) for kernel in kernels] == before


@pytest.mark.parametrize("folder", [None, "state"])
def test_ctrl_c_while_pages_are_judged_leaves_no_hole(
    folder: str | None, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pages = [{"id": f"{n}", "text": f"{OTHER} {n} {n + 1}"} for n in range(1_200)]
    real = Resolver.judge
    path = None if folder is None else tmp_path / folder

    def interrupted(self: Resolver, *given: Any) -> list[Verdict]:
        if given[2]:  # the second batch
            os.kill(os.getpid(), signal.SIGINT)
        return real(self, *given)

    with Deduper(cache=cache, workers=0, path=path) as deduper:
        with monkeypatch.context() as patched:
            patched.setattr(Resolver, "judge", interrupted)
            with pytest.raises(KeyboardInterrupt):
                deduper.judge(pages)
        judged = deduper.judged
        assert 0 < judged < len(pages)
        again = deduper.judge([{"id": f"c{n}", "text": pages[n]["text"]} for n in range(judged)])
        assert {verdict.verdict for verdict in again} == {"near_duplicate"}
    if path is not None:
        with Deduper(cache=cache, workers=0, path=path) as deduper:
            assert deduper.judged == 2 * judged


class EndedPool(thread.ThreadPoolExecutor):
    """A pool whose threads ended with the main thread."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._shutdown = True


@pytest.mark.parametrize("pool", ["begun before", "begun after"])
def test_pages_are_judged_after_the_main_thread_has_ended(
    cache: Path, monkeypatch: pytest.MonkeyPatch, pool: str
) -> None:
    """A thread that outlives it, and a function of atexit, got a RuntimeError."""
    if pool == "begun after":
        monkeypatch.setattr(thread, "_shutdown", True)
    else:
        monkeypatch.setattr(fingerprinting, "ThreadPoolExecutor", EndedPool)
    texts = [f"{OTHER} {number}" for number in range(1_100)]
    with Deduper(cache=cache, workers=0) as deduper:
        assert [verdict.id for verdict in deduper.judge(texts)] == [f"python/0/{number}" for number in range(1_100)]


def test_a_batch_that_an_error_left_half_judged_ends_judging(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any) -> None:
        raise MemoryError

    with Deduper(cache=cache, workers=0, path=tmp_path / "state") as deduper:
        deduper.judge([STORY])
        deduper.save()
        with monkeypatch.context() as patched:
            patched.setattr(Resolver, "judge", full)
            with pytest.raises(MemoryError):
                deduper.judge([OTHER])
        with pytest.raises(UsageError, match="half judged: close this Deduper, and make another one"):
            deduper.judge([OTHER])
    with Deduper(cache=cache, workers=0, path=tmp_path / "state") as deduper:
        assert deduper.judged == 1


@pytest.mark.parametrize("timestamp", [-1 << 63, -1 << 62, -2, 1 << 62, 1 << 63])
def test_a_records_timestamp_that_no_folder_could_keep_is_refused(
    cache: Path, tmp_path: Path, timestamp: int
) -> None:
    """Its folder could be written, and never be read again."""
    value = msgspec.json.encode({"text": STORY})
    record = Record("pages", 0, 3, b"a", value, (), timestamp)
    with Deduper(cache=cache, workers=0, path=tmp_path / "state") as deduper:
        with pytest.raises(UsageError, match=f"pages:4 has the timestamp {timestamp}"):
            list(deduper.stream([record]))
        assert [one.verdict for one in deduper.stream([msgspec.structs.replace(record, timestamp=5)])] == ["new"]
    with Deduper(cache=cache, workers=0, path=tmp_path / "state") as deduper:
        assert deduper.judged == 1


def test_a_closed_deduper_judges_nothing(cache: Path) -> None:
    with Deduper(cache=cache, workers=0) as deduper:
        deduper.judge([STORY])
    with pytest.raises(UsageError, match="this Deduper is closed: make another one"):
        deduper.judge([OTHER])


def test_rows_of_a_frame_may_have_values_that_json_has_not(deduper: Deduper) -> None:
    pandas = pytest.importorskip("pandas")
    when = pandas.Timestamp("2026-03-02T10:00:00Z")
    rows = [
        {"id": np.int64(7), "text": STORY, "time": when, "published": when, "tags": {1}},
        {"id": pandas.NA, "url": "https://a.example/8", "text": EDITED + "\ud800", "time": pandas.NaT, "tags": {1}},
    ]
    first, second = deduper.judge(rows)
    assert (first.id, first.time) == ("7", int(when.timestamp() * 1000))
    assert (second.id, second.near_duplicate_of) == ("https://a.example/8", "7")
    floats = [{"id": np.float64(9), "text": OTHER, "status": 200.0}, {"id": 1.5, "text": STORY}]
    assert [(one.id, one.verdict) for one in deduper.judge(floats)] == [
        ("9", "new"),
        ("python/0/3", "unreadable"),
    ]
    numbers = [{"id": value, "text": OTHER} for value in (Decimal(9), np.float32(2**24))]
    assert [(one.id, one.reason) for one in deduper.judge(numbers)] == [("9", None), ("python/0/5", "wrong_type")]
    with pytest.raises(TypeError, match="the field text of a page has the type object, which JSON has not"):
        deduper.judge([{"text": object()}])
