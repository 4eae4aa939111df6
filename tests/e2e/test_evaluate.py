"""`simstream evaluate` over a small labelled set: its numbers against plain Python, its page, its cache."""

from __future__ import annotations

import json
import math
import random
import re
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from simstream import Deduper
from simstream.cli.main import invoke
from simstream.evaluate import minhash, report
from simstream.evaluate.results import EvaluationResults
from simstream.evaluate.run import FIRST_SEED
from simstream.evaluate.sentences import read
from simstream.judge.policy import least_agreement
from simstream.text.fingerprinter import Fingerprinter
from simstream.text.recipe import preset
from tests import naive_truth

WORDS = [
    a + b for a in ("ka", "lo", "mi", "ter", "bron", "shu", "vel", "pra") for b in ("na", "dix", "sol", "um", "et")
]
EDITS = (0, 1, 3, 8, 20, 45)


def make(folder: Path, name: str, seed: int) -> dict[str, str]:
    """A corpus of 25 groups of invented pages, each with edited copies; pages and pairs go to files."""
    chance = random.Random(seed)
    texts, pairs = {}, []
    for group in range(25):
        words = [chance.choice(WORDS) + str(chance.randrange(6) or "") for _ in range(chance.randrange(20, 160))]
        for number, edits in enumerate(EDITS):
            edited = list(words)
            for _ in range(edits):
                edited[chance.randrange(len(edited))] = chance.choice(WORDS) + "x"
            texts[f"{name}/{group}/{number}"] = " ".join(edited)
            if number:
                pairs.append({"a": f"{name}/{group}/0", "b": f"{name}/{group}/{number}", "label": 1})
    lines = [json.dumps({"id": key, "text": text}) for key, text in texts.items()]
    (folder / f"{name}.jsonl").write_text("\n".join(lines))
    (folder / f"{name}-pairs.jsonl").write_text("\n".join(map(json.dumps, pairs)))
    return texts


class EvaluateRun:
    """One run of the command over two corpora."""

    def __init__(self, folder: Path, cache: Path) -> None:
        cached = set(cache.iterdir())
        self.texts = {name: make(folder, name, seed) for seed, name in enumerate(("left", "right"))}
        self.folder = folder / "out"
        self.arguments = [
            "evaluate",
            *(str(folder / f"{name}.jsonl") for name in self.texts),
            *(f"--pairs={folder / f'{name}-pairs.jsonl'}" for name in self.texts),
            *("--recipe", "default", "--peers", "--seeds", "2", "-o", str(self.folder)),
        ]
        assert invoke(self.arguments) == 0
        self.newly_cached = {path.name for path in set(cache.iterdir()) - cached}
        self.results: dict[str, Any] = json.loads((self.folder / "results.json").read_bytes())
        self.contender = self.results["contenders"][0]


@pytest.fixture(autouse=True)
def shared_cache(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let commands in this process use the folder that tests share."""
    monkeypatch.setenv("SIMSTREAM_CACHE", str(cache))


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory, cache: Path) -> EvaluateRun:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SIMSTREAM_CACHE", str(cache))
        return EvaluateRun(tmp_path_factory.mktemp("evaluate"), cache)


class PairByPairResult:
    """The same numbers by looking at every pair, for the default recipe under its first seed."""

    def __init__(self, texts: dict[str, str], cache: Path) -> None:
        self.ids = list(texts)
        self.group = {key: key.rsplit("/", 1)[0] for key in texts}
        self.recipe = recipe = replace(preset("default"), seed=FIRST_SEED)
        with Fingerprinter(recipe, cache, workers=0) as fingerprinter:
            prints, sketches, words = fingerprinter.texts(list(texts.values()))
        self.short = {
            key for key, count in zip(self.ids, words.tolist(), strict=True) if count < recipe.short_words
        }
        self.bits = recipe.sketch_bits
        self.least = {False: least_agreement(recipe.similarity, self.bits)}
        self.least[True] = least_agreement(recipe.short_similarity, self.bits)
        values = zip(self.ids, prints.tolist(), sketches.tolist(), strict=True)
        self.prints = {key: (value, sketch) for key, value, sketch in values}
        self.texts = texts

    def near(self, a: str, b: str) -> tuple[int, int]:
        (x, left), (y, right) = self.prints[a], self.prints[b]
        differ = [(s ^ t).bit_count() for s, t in zip(left, right, strict=True)]
        return min((x ^ y).bit_count(), *differ[: self.recipe.sketch_lookups]), self.bits - sum(differ)

    def agrees(self, a: str, b: str) -> bool:
        """Whether the sketches agree enough, and short pages are as near as the recipe asks at any distance."""
        short = a in self.short or b in self.short
        distance, agreement = self.near(a, b)
        return agreement >= self.least[short] and (not short or distance <= self.recipe.distance)

    def jaccard(self, a: str, b: str) -> float:
        return naive_truth.jaccard(self.texts[a], self.texts[b])


@pytest.fixture(scope="module", params=["left", "right"])
def both(request: pytest.FixtureRequest, ran: EvaluateRun, cache: Path) -> tuple[dict[str, Any], PairByPairResult]:
    number = list(ran.texts).index(request.param)
    return ran.contender["corpora"][number], PairByPairResult(ran.texts[request.param], cache)


LOWER = (0.9, 0.8, 0.7, 0.6, 0.5, 0.0)


@pytest.mark.parametrize("sketch", [False, True])
@pytest.mark.parametrize("k", [1, 8, 10])
def test_recall_and_precision_are_those_of_looking_at_every_pair(
    both: tuple[dict[str, Any], PairByPairResult], k: int, sketch: bool
) -> None:
    found, plain = both
    [curve] = [row for row in found["curves"] if row["distance"] == k and row["sketch"] == sketch]

    def matches(a: str, b: str) -> bool:
        return plain.near(a, b)[0] <= k and (not sketch or plain.agrees(a, b))

    hits, of = [0] * 6, [0] * 6
    for group in range(25):
        first = f"{plain.ids[0].split('/')[0]}/{group}/"
        for number in range(1, len(EDITS)):
            at = next(i for i, low in enumerate(LOWER) if plain.jaccard(first + "0", first + str(number)) >= low)
            of[at] += 1
            hits[at] += matches(first + "0", first + str(number))
    for at in range(6):
        assert curve["recall"][at]["by_seed"][:1] == ([pytest.approx(hits[at] / of[at])] if of[at] else [])

    pairs = [pair for pair in combinations(plain.ids, 2) if matches(*pair)]
    alike = [plain.jaccard(*pair) for pair in pairs]
    assert curve["precision"]["by_seed"][0] == pytest.approx(sum(j >= 0.5 for j in alike) / len(pairs))
    apart = [j for (a, b), j in zip(pairs, alike, strict=True) if plain.group[a] != plain.group[b]]
    total = 150 * 149 // 2 - 25 * (6 * 5 // 2)
    assert curve["matched"]["by_seed"][0] == pytest.approx(len(apart) / total)
    assert curve["wrong"]["by_seed"][0] == pytest.approx(sum(j < 0.3 for j in apart) / total)


@pytest.mark.parametrize("link", ["any", "canonical"])
def test_verdicts_are_those_of_dedup(both: tuple[dict[str, Any], PairByPairResult], link: Any, cache: Path) -> None:
    found, plain = both
    [judged] = [row for row in found["judged"] if row["link"] == link]
    with Deduper(recipe=plain.recipe, link=link, cache=cache) as deduper:
        verdicts = deduper.judge([{"id": key, "text": text} for key, text in plain.texts.items()])
    named = [(v.id, v.near_duplicate_of) for v in verdicts if v.near_duplicate_of is not None]
    assert judged["near_duplicates"]["by_seed"][0] == len(named)
    loose = sum(plain.jaccard(a, b) < 0.5 for a, b in named)
    assert judged["below_5"]["by_seed"][0] == pytest.approx(loose / len(named))


def test_random_fingerprints_and_bits_add_up(both: tuple[dict[str, Any], PairByPairResult]) -> None:
    found, plain = both
    assert sum(share["value"] for share in found["distances"]) == pytest.approx(1)
    ones = np.mean([value & 1 for value, _ in plain.prints.values()])
    assert found["bits"][0]["by_seed"][0] == pytest.approx(ones)


def test_pairs_of_different_corpora_are_counted_by_themselves(ran: EvaluateRun, cache: Path) -> None:
    left, right = (PairByPairResult(texts, cache) for texts in ran.texts.values())
    within = sum((x[0] ^ y[0]).bit_count() <= 10 for x in left.prints.values() for y in right.prints.values())
    [at_ten] = [row for row in ran.contender["apart"] if row["distance"] == 10]
    assert at_ten["candidates"]["of"] == 150 * 150
    assert at_ten["candidates"]["by_seed"][0] == pytest.approx(within / 150**2)


def test_the_results_keep_to_their_schema(ran: EvaluateRun) -> None:
    results = msgspec.json.decode((ran.folder / "results.json").read_bytes(), type=EvaluationResults)
    assert [info.pairs for info in results.corpora] == [125, 125]
    schema = json.loads((ran.folder / "results.schema.json").read_bytes())
    assert set(schema["$defs"]["EvaluationResults"]["required"]) == set(ran.results)


def test_the_page_asks_the_network_for_nothing(ran: EvaluateRun) -> None:
    page = (ran.folder / "index.html").read_text()
    assert not re.findall(r"""(?:src|href|action|data)\s*=\s*["'](?!#)[^"']*|url\((?!#)[^)]*|@import""", page)
    assert "http:" not in page
    assert "https:" not in page
    assert page.count("<svg") == len(list(ran.folder.glob("*.svg"))) > 0


def test_a_screen_reader_is_told_what_each_figure_and_column_shows(ran: EvaluateRun) -> None:
    page = (ran.folder / "index.html").read_text()
    assert page.count("<svg") == len(re.findall(r'<svg role="img" aria-label="[^"]+"', page))
    assert page.count("<th") == page.count('<th scope="col">') > 0


def test_numbers_on_axes_are_written_out_and_no_tex(ran: EvaluateRun) -> None:
    words = re.findall(r"<text[^>]*>([^<]*)</text>", (ran.folder / "index.html").read_text())
    assert {"0.01", "10", "none"} <= set(words)
    assert [word for word in words if "$" in word] == []


def test_the_page_has_the_numbers_of_the_results(ran: EvaluateRun) -> None:
    page = (ran.folder / "index.html").read_text().replace("\u00a0", " ")
    recall = ran.contender["corpora"][0]["rule"]["recall"][0]["value"]
    assert f"Of the labelled pairs it finds {'100 %' if recall == 1 else f'{100 * recall:.1f}'}" in page


def test_each_corpus_and_recipe_has_figures_of_its_own_whatever_their_names(
    ran: EvaluateRun, tmp_path: Path, recwarn: pytest.WarningsRecorder
) -> None:
    text = (ran.folder / "results.json").read_text()
    renamed = {"left": "新闻", "right": "论坛", "default": "甲", "google2007": "乙"}
    for name, other in renamed.items():
        text = text.replace(f'"{name}"', f'"{other}"')
    report.write(msgspec.json.decode(text, type=EvaluationResults), tmp_path)
    page = (tmp_path / "index.html").read_text()
    for name in ("新闻", "论坛"):
        [*_, below] = page.split(f"<h3>{name}</h3>")
        assert re.search(r"<figcaption>(\w+): recall", below)[1] == name  # type: ignore[index]
    assert all(page.count(f"<figcaption>{name}: how random") == 1 for name in "甲乙")
    assert page.count("<svg") == len(list(tmp_path.glob("*.svg"))) == len(list(ran.folder.glob("*.svg")))
    assert not recwarn.list


def test_the_peers_are_measured_over_the_same_pairs(ran: EvaluateRun) -> None:
    names = [contender["name"] for contender in ran.results["contenders"]]
    assert names[:2] == ["default", "google2007"]
    assert minhash.NAME in names
    for contender in ran.results["contenders"]:
        of = [share["of"] for share in contender["corpora"][0]["rule"]["recall"]]
        assert of == [share["of"] for share in ran.contender["corpora"][0]["rule"]["recall"]]
    peer = ran.results["contenders"][names.index(minhash.NAME)]
    assert peer["corpora"][0]["rule"]["recall"][0]["value"] > 0.9
    assert peer["corpora"][0]["rule"]["wrong"]["value"] < 0.001


def test_a_second_run_computes_nothing_and_says_the_same(ran: EvaluateRun, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("computed again")

    before = (ran.folder / "results.json").read_bytes()
    monkeypatch.setattr(Fingerprinter, "columns", refuse)
    for name in (
        "fingerprints.make",
        "contenders.judge",
        "contenders.count",
        "contenders.between",
        "minhash.signatures",
    ):
        monkeypatch.setattr(f"simstream.evaluate.{name}", refuse)
    assert invoke(ran.arguments) == 0
    assert (ran.folder / "results.json").read_bytes() == before


def test_tables_of_other_seeds_stay_out_of_the_cache_folder(ran: EvaluateRun) -> None:
    tables = ran.folder / ".cache" / "tables"
    weights = {path.name for path in tables.glob("weights-*")}
    assert len(weights) == 6  # two seeds of three recipes, none of them their own
    assert not weights & ran.newly_cached


def test_damaged_files_of_the_cache_are_made_anew(ran: EvaluateRun) -> None:
    before = json.loads((ran.folder / "results.json").read_bytes())
    files = [path for path in sorted((ran.folder / ".cache").iterdir()) if path.is_file()]
    assert len(files) >= 3
    for number, path in enumerate(files):
        path.write_bytes([b"", path.read_bytes()[:-9], b"{}"][number % 3])
    assert invoke(ran.arguments) == 0
    after = json.loads((ran.folder / "results.json").read_bytes())
    for results in (before, after):
        for contender in results["contenders"]:
            for one in contender["corpora"]:
                one["cost"] = None  # is timed anew
    assert after == before


@pytest.mark.parametrize(
    ("pairs", "line"),
    [
        ('{"a": "left/0/0", "b": "gone"}', "no labelled pair has both its pages in one input"),
        ("nonsense", "is not a pair"),
    ],
)
def test_pairs_that_do_not_fit_end_with_one_line(
    tmp_path: Path, pairs: str, line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    make(tmp_path, "left", 0)
    (tmp_path / "bad.jsonl").write_text(pairs)
    arguments = ["evaluate", str(tmp_path / "left.jsonl"), "--pairs", str(tmp_path / "bad.jsonl")]
    assert invoke([*arguments, "-o", str(tmp_path / "out")]) == (2 if "gone" in pairs else 1)
    assert line in capsys.readouterr().err


@pytest.mark.parametrize("name", ["results.json", "index.html"])
@pytest.mark.parametrize("given", ["{path}", "file://{path}", "--pairs={path}"])
def test_a_report_that_would_replace_an_input_is_refused(
    tmp_path: Path, name: str, given: str, capsys: pytest.CaptureFixture[str]
) -> None:
    make(tmp_path, "left", 0)
    (path := tmp_path / name).write_bytes(content := b'{"id": "a", "text": "x"}\n')
    arguments = ["evaluate", str(tmp_path / "left.jsonl"), given.format(path=path), "-o", str(tmp_path)]
    assert invoke(arguments) == 2
    assert f"{path} is an input, too" in capsys.readouterr().err
    assert path.read_bytes() == content


@pytest.mark.parametrize("below", ["", "report"])
@pytest.mark.parametrize("given", ["{folder}", "file://{folder}", "{folder}*"])
def test_a_report_in_a_folder_of_inputs_is_refused(
    tmp_path: Path, below: str, given: str, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "corpus"
    folder.mkdir()
    (folder / "a.txt").write_text("words")
    assert invoke(["evaluate", given.format(folder=folder), "-o", str(folder / below)]) == 2
    assert f"the report {folder / below} would lie in the input {folder}" in capsys.readouterr().err
    assert [path.name for path in folder.iterdir()] == ["a.txt"]


def test_without_labels_there_are_still_candidates_and_verdicts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make(tmp_path, "left", 0)
    out = tmp_path / "out"
    assert invoke(["evaluate", str(tmp_path / "left.jsonl"), "--distance", "8", "-o", str(out)]) == 0
    assert "no labelled pairs" in capsys.readouterr().err
    [contender] = json.loads((out / "results.json").read_bytes())["contenders"]
    [one] = contender["corpora"]
    assert one["rule"]["recall"][0]["value"] is None
    assert one["curves"][0]["matched"]["value"] > 0
    assert one["judged"][0]["near_duplicates"]["value"] > 0


def test_the_groups_of_pages_are_read_from_files_of_any_kind_and_under_any_names(tmp_path: Path) -> None:
    import pyarrow
    from pyarrow import parquet

    texts, groups = [f"{' '.join(WORDS[:9])} {n}" for n in range(4)], [7, None, 7, None]
    rows = [{"doc": n, "body": texts[n], "group": groups[n]} for n in range(4)]
    (tmp_path / "lines.jsonl").write_text("\n".join(map(json.dumps, rows)))
    cells = (f"{row['doc']},{row['body']},{row['group'] or ''}\n" for row in rows)
    (tmp_path / "cells.csv").write_text("doc,body,group\n" + "".join(cells))
    columns = {"doc": range(4), "body": texts, "group": pyarrow.array(groups, pyarrow.float64())}
    raw = columns | {"body": [text.encode() for text in texts], "group": pyarrow.array([7.0, math.nan] * 2)}
    for name, table in (("table", columns), ("bytes", raw)):
        parquet.write_table(pyarrow.table(table), tmp_path / f"{name}.parquet")
    inputs = [str(tmp_path / name) for name in ("lines.jsonl", "cells.csv", "table.parquet", "bytes.parquet")]
    names = ["--text-field", "body", "--id-field", "doc", "--distance", "8"]
    assert invoke(["evaluate", *inputs, *names, "-o", str(tmp_path / "out")]) == 0
    found = json.loads((tmp_path / "out" / "results.json").read_bytes())["corpora"]
    assert [(one["groups"], one["grouped_by"], one["pairs"]) for one in found] == 4 * [(1, "group", 1)]


def test_a_recipe_file_is_measured_beside_its_preset(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make(tmp_path, "left", 0)
    (tmp_path / "strict.toml").write_text("distance = 2\n")
    pairs = [{"a": "left/0/0", "b": "left/0/1"}, {"a": "left/0/0", "b": 20 * "gone"}]
    (tmp_path / "pairs.jsonl").write_text("\n".join(map(json.dumps, pairs)))
    recipes = ["--recipe", "default", "--recipe", str(tmp_path / "strict.toml")]
    arguments = ["evaluate", str(tmp_path / "left.jsonl"), "--pairs", str(tmp_path / "pairs.jsonl"), *recipes]
    assert invoke([*arguments, "--distance", "2,8", "-o", str(tmp_path / "out")]) == 0
    assert "no input has one of their pages: 1, such as '" + 15 * "gone" + "…'" in capsys.readouterr().err
    one, strict = json.loads((tmp_path / "out" / "results.json").read_bytes())["contenders"]
    assert (strict["name"], strict["distance"], strict["ids"]) == ("strict", 2, one["ids"])
    [at_two] = [curve for curve in one["corpora"][0]["curves"] if curve["distance"] == 2 and curve["sketch"]]
    assert strict["corpora"][0]["rule"] == at_two


def test_pages_that_are_all_too_short_are_measured_as_far_as_that_goes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "short.jsonl").write_text(
        '{"id": "a", "text": "three short words"}\nno json\n{"id": "b", "text": ""}'
    )
    assert invoke(["evaluate", str(tmp_path / "short.jsonl"), "--peers", "-o", str(tmp_path / "out")]) == 0
    [one] = json.loads((tmp_path / "out" / "results.json").read_bytes())["contenders"][0]["corpora"]
    assert "1 of 3 pages of short could not be read: 1 bad_json (first " in capsys.readouterr().err
    assert one["readable"]["value"] == 0
    assert one["rule"]["precision"]["value"] is None


def test_a_missing_library_is_said_before_anything_is_computed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    make(tmp_path, "left", 0)
    monkeypatch.setattr("simstream.evaluate.report.find_spec", lambda package: None)
    assert invoke(["evaluate", str(tmp_path / "left.jsonl"), "-o", str(tmp_path / "out")]) == 2
    assert "needs matplotlib, which is not installed: run pip install" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_minhash_is_left_out_without_its_library(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    make(tmp_path, "left", 0)
    monkeypatch.setattr(minhash, "installed", lambda: False)
    arguments = [
        "evaluate",
        str(tmp_path / "left.jsonl"),
        "--peers",
        "--distance",
        "8",
        "-o",
        str(tmp_path / "out"),
    ]
    assert invoke(arguments) == 0
    assert "MinHash is left out, since rensa is not installed" in capsys.readouterr().err
    results = json.loads((tmp_path / "out" / "results.json").read_bytes())
    assert any("MinHash is left out" in line for line in results["left_out"])


def test_seeds_that_change_nothing_are_measured_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("simstream.evaluate.contenders._OneSeed.output", lambda one: b"a hash without a seed")
    make(tmp_path, "left", 0)
    arguments = ["evaluate", str(tmp_path / "left.jsonl"), "--distance", "8", "-o", str(tmp_path / "out")]
    assert invoke([*arguments, "--seeds", "3"]) == 0
    [contender] = json.loads((tmp_path / "out" / "results.json").read_bytes())["contenders"]
    assert (contender["seeds"], len(contender["ids"])) == ([FIRST_SEED], 1)


def test_two_recipes_of_one_name_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make(tmp_path, "left", 0)
    arguments = ["evaluate", str(tmp_path / "left.jsonl"), "-o", str(tmp_path / "out")]
    assert invoke([*arguments, "--recipe", "default", "--recipe", "default"]) == 2
    assert "two recipes are called default" in capsys.readouterr().err


def test_similarities_of_other_texts_are_pointed_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    texts = make(tmp_path, "left", 0)
    header = "---\nsame: header of all these pages, long enough to be seen in every similarity\n---\n"
    lines = [json.dumps({"id": key, "text": header + text}) for key, text in texts.items()]
    (tmp_path / "left.jsonl").write_text("\n".join(lines))
    pair = {"a": "left/0/0", "b": "left/1/0", "jaccard5": naive_truth.jaccard(texts["left/0/0"], texts["left/1/0"])}
    (tmp_path / "pairs.jsonl").write_text(json.dumps(pair))
    arguments = ["evaluate", str(tmp_path / "left.jsonl"), "--pairs", str(tmp_path / "pairs.jsonl")]
    assert invoke([*arguments, "--distance", "8", "-o", str(tmp_path / "out")]) == 0
    assert "add --strip-front-matter" in capsys.readouterr().err
    assert invoke([*arguments, "--distance", "8", "--strip-front-matter", "-o", str(tmp_path / "out")]) == 0
    assert "add --strip-front-matter" not in capsys.readouterr().err


def test_the_sentences_call_good_results_good_and_bad_results_bad(ran: EvaluateRun) -> None:
    changed = json.loads((ran.folder / "results.json").read_bytes())
    one = changed["contenders"][0]["corpora"][0]
    for share in one["rule"]["recall"]:
        share["value"] = 0.995
    judged = one["judged"][0]
    judged["below_5"]["value"], judged["below_3"]["value"] = 0.5, 0.1
    [recall, verdicts, *_] = read(msgspec.convert(changed, EvaluationResults))[0].sentences
    assert (recall.tone, verdicts.tone) == ("good", "bad")
    assert recall.text.startswith("Of the labelled pairs it finds 99.50 % of those with J ≥ .9, 99.50 % at .8–.9")
    many = int(judged["near_duplicates"]["value"])
    assert verdicts.text.startswith(f"Of {many} verdicts near_duplicate 50.0 % name a page with J < .5, 10.0 % one")


@pytest.mark.parametrize(("pages", "largest", "tone"), [(999, 500, "plain"), (1000, 10, "good"), (1000, 51, "bad")])
def test_the_largest_cluster_is_rated_from_1000_pages_on(
    ran: EvaluateRun, pages: int, largest: int, tone: str
) -> None:
    changed = json.loads((ran.folder / "results.json").read_bytes())
    one = changed["contenders"][0]["corpora"][0]
    one["readable"]["value"] = pages
    next(row for row in one["judged"] if row["link"] == "any")["largest"] = [largest]
    sentences = read(msgspec.convert(changed, EvaluationResults))[0].sentences
    assert [each.tone for each in sentences if "largest cluster" in each.text] == [tone]
