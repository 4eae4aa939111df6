"""The role `query` beside a running service: what its API and `simstream match` say is what a judge in this process
says of the same pages, and nothing that is asked changes anything."""

from __future__ import annotations

import http.client
import json
import random
import re
import secrets
import socket
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from simstream.deduper import Deduper
from simstream.sources.read import read_pages
from simstream.wire.page import PageLimits, decode
from tests.e2e import pages
from tests.e2e.browser import chromium
from tests.e2e.harness import PATIENCE_S, Program, Service, all_verdicts
from tests.kafka_fixtures import TopicPlace
from tests.naive_truth import jaccard, share

COUNT = 300


@dataclass
class QueriedService:
    """A service, a query role beside it, and a judge in this process that has seen the same pages."""

    program: Program
    folder: Path
    asked: Service
    port: int
    deduper: Deduper
    texts: list[str]
    names: dict[str, str]
    """Where its verdicts go."""

    def ask(self, path: str, body: object = None) -> tuple[int, Any]:
        """Status and JSON of one question."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}{path}", data, {"Content-Type": "application/json"}
        )
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
                return int(answer.status), json.loads(answer.read())
        except urllib.error.HTTPError as error:
            return error.code, json.loads(error.read())

    def good(self, path: str, body: object = None) -> Any:
        status, answer = self.ask(path, body)
        assert status == 200, answer
        return answer


@pytest.fixture(scope="module", params=["local", pytest.param("kafka", marks=pytest.mark.kafka)])
def scene(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, cache: Path
) -> Iterator[QueriedService]:
    folder = tmp_path_factory.mktemp("query")
    local = request.param == "local"
    address = str(folder / "log") if local else request.getfixturevalue("broker").address
    place = TopicPlace(address, f"q{secrets.token_hex(4)}")
    program = Program(folder, cache, place)
    names = {"publish_to": "other"} if local else {"verdicts_topic": f"{place.prefix}-court"}
    elsewhere = [word for name, value in names.items() for word in (f"--{name.replace('_', '-')}", value)]
    program.good("topics", "create", "--partitions", 1, *elsewhere)
    file = pages.write(folder / "pages.jsonl", COUNT)
    state = str(folder / "state")
    asking = ("--roles", "query", "--query-port", "0", "--state", state, *elsewhere)
    with program.serve(*elsewhere) as service, Deduper(cache=cache) as deduper:
        program.good("feed", file)
        with program.serve(*asking) as first:  # it takes up from a snapshot what another had kept
            first.ready()
            assert first.end() == 0
        with program.serve(*asking) as asked:
            asked.ready()
            assert len(list(deduper.stream(read_pages([str(file)], 1 << 20)))) == COUNT
            limits = PageLimits(max_record_bytes=1 << 20)
            texts = [
                page.text for record in read_pages([str(file)], 1 << 20) if (page := decode(record, limits)).text
            ]
            live = deduper.explain("…").live_pages
            scene = QueriedService(program, folder, asked, asked.query_port(), deduper, texts, names)
            asked.until(lambda: scene.ask("/ready")[1].get("live_pages") == live, "it knows all live pages")
            yield scene
            assert asked.end() == 0
        assert service.end() == 0


def matched(scene: QueriedService, text: str) -> list[tuple[str, int, float | None, str]]:
    return [tuple(match) for match in scene.deduper.match(text)]


def test_texts_match_as_in_the_judge_and_add_nothing(scene: QueriedService) -> None:
    rng = random.Random(5)
    texts = [pages.edited(rng, rng.choice(scene.texts), rng.randrange(3)) for _ in range(60)] + ["太短"]
    before = scene.good("/ready")
    answer = scene.good("/match", {"texts": texts, "limit": 1000})
    assert answer["policy"] == before["policy"]
    for text, result in zip(texts, answer["results"], strict=True):
        found = [(m["id"], m["distance"], m["similarity"], m["cluster_id"]) for m in result["matches"]]
        assert found == matched(scene, text)
        assert result["reason"] == ("few_words" if text == "太短" else None)
    assert sum(bool(result["matches"]) for result in answer["results"]) > 30
    assert scene.good("/ready") == before


def test_html_is_compared_by_its_extracted_text(scene: QueriedService) -> None:
    text = max(scene.texts, key=len)
    page = f"<html><head><title>x</title></head><body><article><p>{text}</p></article></body></html>"
    [result] = scene.good("/match", {"pages": [{"html": page}]})["results"]
    assert result["matches"][0]["similarity"] == 1
    assert scene.ask("/match", {"pages": [{"html": page, "text": text}]})[0] == 422


def test_fingerprints_match_with_their_sketch_as_texts_do_and_without_by_distance(scene: QueriedService) -> None:
    text = max(scene.texts, key=len)
    columns = scene.deduper.explain(text).columns
    sketch = [f"{word:016x}" for word in columns.sketch[0].tolist()]
    one = {"fingerprint": f"{int(columns.fingerprint[0]):016x}"}
    answer = scene.good("/match/fingerprints", {"fingerprints": [one | {"sketch": sketch}, one], "limit": 1000})
    with_sketch, without = answer["results"]
    assert [(m["id"], m["similarity"]) for m in with_sketch["matches"]] == [
        (found[0], found[2]) for found in matched(scene, text)
    ]
    assert {m["id"] for m in with_sketch["matches"]} <= {m["id"] for m in without["matches"]}
    assert {m["similarity"] for m in without["matches"]} == {None}
    short = {"fingerprints": [one | {"sketch": sketch[:1]}]}
    assert scene.ask("/match/fingerprints", short)[0] == 422


def test_a_page_has_its_published_cluster_and_verdict(scene: QueriedService) -> None:
    with scene.program.place.open(**scene.names) as log:
        verdicts = [json.loads(value) for value in all_verdicts(log)]
    newest = {verdict["id"]: verdict for verdict in verdicts}
    merged = {old for verdict in verdicts for old in verdict["merged_clusters"]}
    near = [v for v in newest.values() if v["verdict"] == "near_duplicate" and v["cluster_id"] not in merged]
    for verdict in near[:10]:
        answer = scene.good(f"/page?id={verdict['id']}&limit=1000")
        assert answer["page"]["fingerprint"] == verdict["fingerprint"]
        assert answer["cluster"]["id"] == answer["page"]["cluster_id"] == verdict["cluster_id"]
        assert verdict["id"] in {member["id"] for member in answer["cluster"]["members"]}
        assert answer["cluster"]["canonical"] == answer["cluster"]["members"][0]["id"]
        cluster = scene.good(f"/cluster/{verdict['cluster_id']}?limit=1000")
        assert cluster == answer["cluster"]
    assert near
    assert scene.ask("/page?id=nowhere")[0] == scene.ask("/cluster/999999")[0] == 404


def test_tokens_are_jiebas_and_weights_are_those_of_the_command(scene: QueriedService) -> None:
    for mode, text, tokens in (  # jieba's own examples
        ("accurate", "我来到北京清华大学", "我 来到 北京 清华大学"),
        ("full", "我来到北京清华大学", "我 来到 北京 清华 清华大学 华大 大学"),
        (
            "search",
            "小明硕士毕业于中国科学院计算所",
            "小明 硕士 毕业 于 中国 科学 学院 科学院 中国科学院 计算 计算所",
        ),
    ):
        assert scene.good("/tokens", {"texts": [text, ""], "mode": mode})["results"][0] == tokens.split()
    text = "他来到了网易杭研大厦，小明硕士毕业于中国科学院计算所"
    [rows] = scene.good("/tokens", {"texts": [text], "mode": "weights", "top": 3})["results"]
    printed = json.loads(scene.program.run("tokens", "--recipe", "default", "--top", 3, "--json", text).stdout)
    assert [[row["word"], row["times"], row["weight"]] for row in rows] == printed


def test_the_command_asks_the_same(scene: QueriedService) -> None:
    api = ("--api", f"http://127.0.0.1:{scene.port}")
    text = max(scene.texts, key=len)
    done = scene.program.run("match", text, *api, "--json", "--limit", 1000)
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert [m["id"] for m in answer["matches"]] == [found[0] for found in matched(scene, text)]
    done = scene.program.run("match", "-i", scene.folder / "pages.jsonl", *api)
    assert done.returncode == 0, done.stderr
    printed = done.stdout.decode()
    assert " bits  cluster " in printed
    assert "not compared: few_words" in printed
    nobody = scene.program.run("match", text, "--api", "http://127.0.0.1:9")
    assert nobody.returncode == 1
    assert b"serve --roles query" in nobody.stderr
    assert len(nobody.stderr.splitlines()) == 1
    bare = scene.program.run("match", text, "--api", f"127.0.0.1:{scene.port}")
    assert bare.returncode == 2
    assert bare.stderr.decode().endswith(f": write http://127.0.0.1:{scene.port}\n")


def test_with_the_files_of_the_pages_it_says_how_much_of_each_text_is_in_the_other(scene: QueriedService) -> None:
    files, api = scene.folder / "pages.jsonl", ("--api", f"http://127.0.0.1:{scene.port}")
    told = [page for line in files.read_bytes().splitlines() if (page := parsed(line))]
    texts = {page["id"]: page["text"] for page in told if isinstance(page.get("text"), str) and "id" in page}
    asked = next(text for text in texts.values() if len(matched(scene, text)) > 2)
    done = scene.program.run("match", asked, *api, "--json", "--with", files)
    assert done.returncode == 0, done.stderr
    matches = json.loads(done.stdout)["matches"]
    known = [match for match in matches if match["id"] in texts]
    assert len(known) > 1
    for match in known:
        other = texts[match["id"]]
        exact = (jaccard(asked, other), share(asked, other), share(other, asked))
        assert (match["jaccard"], match["of_page"], match["of_other"]) == pytest.approx(exact, abs=1e-4)
    shown = scene.program.run("match", "-i", files, *api, "--with", files).stdout.decode()
    assert f"  {known[0]['id']}  true J {known[0]['jaccard']:.4f}: " in shown
    (scene.folder / "none.jsonl").write_bytes(b'{"id":"nobody","text":"alone"}')
    none = scene.program.run("match", asked, *api, "--json", "--with", scene.folder / "none.jsonl").stdout
    assert {match["jaccard"] for match in json.loads(none)["matches"]} == {None}
    both = scene.program.run("match", "-i", "-", *api, "--with", "-")
    assert (both.returncode, b"both stdin" in both.stderr) == (2, True)


def parsed(line: bytes) -> dict[str, Any] | None:
    try:
        return json.loads(line)
    except ValueError:
        return None


def test_a_page_that_is_judged_over_the_api_is_known_once_its_verdict_is_committed(scene: QueriedService) -> None:
    text = pages.text(random.Random(secrets.token_hex(4)), 80)
    body = {"id": f"judged-{secrets.token_hex(4)}", "text": text}
    verdict = scene.good("/judge?timeout=60", body)
    assert (verdict["id"], verdict["verdict"]) == (body["id"], "new")
    again = scene.good("/judge?timeout=60", {"url": "https://b.example/", "text": text})
    assert (again["verdict"], again["near_duplicate_of"]) == ("near_duplicate", body["id"])
    scene.asked.until(
        lambda: len(scene.good("/match", {"texts": [text]})["results"][0]["matches"]) == 2, "both are matched"
    )
    assert scene.ask("/judge", {"text": text})[0] == 400


def test_the_page_of_the_api_is_drawn_with_every_question(scene: QueriedService, tmp_path: Path) -> None:
    with chromium(tmp_path) as browser:
        browser.open(f"http://127.0.0.1:{scene.port}/")
        paths = scene.good("/openapi.json")["paths"]

        def shown() -> set[str]:
            return {text.replace("\u200b", "") for text in browser.texts(".opblock-summary-path")}

        browser.until(lambda: paths.keys() == shown(), "every question is there")
        browser.click(".opblock-summary-path", list(paths).index("/ready"))
        browser.click(".try-out__btn")
        browser.click(".execute")
        answers = ".response-col_description"
        browser.until(lambda: any('"live_pages"' in text for text in browser.texts(answers)), "the answer is there")
        refused = [
            one["message"] for one in browser.driver.get_log("browser") if "Content Security" in one["message"]
        ]
        assert not refused


def test_forbidden_requests_are_refused_and_the_docs_page_loads_nothing_from_elsewhere(
    scene: QueriedService,
) -> None:
    assert scene.ask("/match", {"texts": ["x"], "more": 1})[0] == 422
    assert scene.ask("/match", {"texts": ["x"] * 300})[0] == 422
    large = http.client.HTTPConnection("127.0.0.1", scene.port, timeout=PATIENCE_S)
    large.request(
        "POST", "/match", body=iter([b" " * (1 << 20)] * 17), headers={"Content-Type": "application/json"}
    )
    assert large.getresponse().status == 413
    large.close()
    with urllib.request.urlopen(f"http://127.0.0.1:{scene.port}/docs", timeout=PATIENCE_S) as answer:
        assert not re.findall(r"(?:src|href)=\"(?!/|data:,)", answer.read().decode())
    paths = scene.good("/openapi.json")["paths"]
    assert {"/match", "/match/fingerprints", "/page", "/cluster/{cluster_id}", "/tokens", "/judge"} <= paths.keys()
    assert scene.asked.metric('simstream_query_seconds_count{asked="match"}') > 0
    scene.asked.until(
        lambda: "; query: follows, 0 frames behind" in scene.asked.get("/health/ready")[1], "it has read all frames"
    )
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = scene.program.on_log("serve", "--roles", "query", "--http-port", 0, "--query-port", port)
    assert done.returncode == 2
    assert b"--query-port" in done.stderr
