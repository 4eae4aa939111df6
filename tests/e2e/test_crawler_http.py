"""A crawler in any language: one process on a local log, and programs in JavaScript and Java that ask it."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from simstream import Deduper
from simstream.model import Verdict
from tests.e2e.harness import PATIENCE_S, ROOT, Program, Service, environment
from tests.kafka_fixtures import TopicPlace
from tests.missing import skip_or_fail

EXAMPLES = ROOT / "examples"
PAGES = EXAMPLES / "pages.jsonl"
TOKEN = "a-token-of-at-least-sixteen-letters"


@dataclass
class LocalService:
    service: Service
    address: str
    cache: Path
    expected: list[Verdict]

    def run(self, *command: object, **variables: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(word) for word in command],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            env=environment(self.cache, **variables),
            timeout=PATIENCE_S,
            check=False,
        )

    def judge(self, body: bytes, token: str = TOKEN) -> tuple[int, bytes]:
        headers = {"Content-Type": "application/x-ndjson", "Authorization": f"Bearer {token}"}
        asked = urllib.request.Request(f"{self.address}/judge?timeout=60", body, headers)
        try:
            with urllib.request.urlopen(asked, timeout=PATIENCE_S) as answer:
                return int(answer.status), answer.read()
        except urllib.error.HTTPError as error:
            return error.code, error.read()


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory, cache: Path) -> Iterator[LocalService]:
    folder = tmp_path_factory.mktemp("crawl")
    program = Program(folder, cache, TopicPlace(str(folder / "log"), "crawl"))
    program.good("topics", "create")
    (folder / "token").write_text(TOKEN)
    roles = ("--roles", "fingerprint,judge,query", "--query-port", 0, "--token-file", folder / "token")
    with Deduper(cache=cache) as deduper:
        expected = deduper.judge([json.loads(line) for line in PAGES.read_bytes().splitlines()])
    with program.serve(*roles, "--state", folder / "state") as service:
        service.ready()
        yield LocalService(service, f"http://127.0.0.1:{service.query_port()}", cache, expected)
        assert service.end() == 0
    with program.serve(*roles, "--state", folder / "state") as again:  # both roles go on from their snapshots
        again.ready()
        assert again.end() == 0
    assert {"manifest", "query"} <= {path.stem for path in (folder / "state").iterdir()}
    assert "manifest" in {path.stem for path in (folder / "state" / "query").iterdir()}


def needed(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        skip_or_fail(f"this test needs {name}")
    return found


def test_javascript_prints_the_pages_worth_keeping(place: LocalService) -> None:
    done = place.run(needed("node"), EXAMPLES / "judge_pages.mjs", place.address, PAGES, JUDGE_TOKEN=TOKEN)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [one.id for one in place.expected if one.verdict != "near_duplicate"]
    assert done.stderr.splitlines() == [
        f"{one.id} = {one.near_duplicate_of}" for one in place.expected if one.verdict == "near_duplicate"
    ]
    refused = place.run("node", EXAMPLES / "judge_pages.mjs", place.address, PAGES)
    assert refused.returncode == 1
    assert "401" in refused.stderr


def test_java_prints_the_answer_of_each_page(place: LocalService, tmp_path: Path) -> None:
    page = {"id": "java-1", "text": place.expected[0].id + " one two three four five six seven eight nine ten"}
    lines = [json.dumps(page), "{", json.dumps({**page, "id": "java-2"})]
    (tmp_path / "pages.jsonl").write_text("\n".join(lines))
    command = (needed("java"), EXAMPLES / "JudgePages.java", place.address, tmp_path / "pages.jsonl")
    done = place.run(*command, JUDGE_TOKEN=TOKEN)
    assert done.returncode == 0, done.stderr
    first, broken, second = map(json.loads, done.stdout.splitlines())
    assert (first["id"], first["verdict"], second["near_duplicate_of"]) == ("java-1", "new", "java-1")
    assert (broken["line"], broken["status"]) == (2, 422)
    refused = place.run(*command, JUDGE_TOKEN="another")
    assert refused.returncode == 1
    assert "401" in refused.stderr


def test_the_commands_of_the_document_do_what_it_says(place: LocalService) -> None:
    text = (ROOT / "docs" / "how-to" / "crawler-http.md").read_text(encoding="utf-8")
    [lines] = re.findall(r"<<END\n(.*?)\nEND\n", text, re.DOTALL)
    status, answer = place.judge(lines.encode())
    assert status == 200
    assert [json.loads(line)["verdict"] for line in answer.splitlines()] == ["new", "near_duplicate"]
    [roles] = re.findall(r"--roles (\S+)", text)
    assert roles == "fingerprint,judge,query"
    assert place.judge(lines.encode(), "wrong")[0] == 401


def test_a_thousand_pages_in_one_request_have_the_verdicts_of_a_judge(place: LocalService) -> None:
    pages = [json.loads(line) for line in PAGES.read_bytes().splitlines()]
    many = [{**page, "id": f"t{number}", "url": None} for number in range(34) for page in pages][:1000]
    many = [{**page, "id": f"{page['id']}-{number}"} for number, page in enumerate(many)]
    status, answer = place.judge("\n".join(map(json.dumps, many)).encode())
    assert status == 200
    found = [json.loads(line) for line in answer.splitlines()]
    assert [one["id"] for one in found] == [page["id"] for page in many]
    firsts = {one.canonical or one.id for one in place.expected if one.verdict in ("new", "near_duplicate")}
    assert {one["canonical"] for one in found if one["verdict"] == "near_duplicate"} <= firsts
    assert sum(one["verdict"] == "near_duplicate" for one in found) > 900
