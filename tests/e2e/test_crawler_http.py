"""A crawler in any language: one process on a local log, and programs in JavaScript and Java that ask it."""

from __future__ import annotations

import contextlib
import json
import re
import shutil
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from urllib.parse import urljoin

import msgspec
import pytest

from simstream import Deduper
from simstream.crawlers.address_kinds import kind_of
from simstream.model import Verdict
from simstream.tools.patterns.address import PageAddress
from simstream.tools.patterns.pattern import AddressPattern, PartKind, PatternSet
from tests.bench.crawl_site import CrawlSite, SiteServer, SiteSize
from tests.e2e.harness import PATIENCE_S, ROOT, Program, Service, environment
from tests.kafka_fixtures import TopicPlace
from tests.missing import skip_or_fail
from tests.web_server import LoopbackServer, serving

EXAMPLES = ROOT / "examples"
PAGES = EXAMPLES / "pages.jsonl"
TOKEN = "a-token-of-at-least-sixteen-letters"
WITHOUT_PAUSES = (
    'data:text/javascript,import timers from "node:timers/promises";'
    'import { syncBuiltinESMExports } from "node:module";'
    "timers.setTimeout = async () => {}; syncBuiltinESMExports();"
)
"""A module that Node imports first: programs then wait for nothing."""


@dataclass
class LocalService:
    service: Service
    address: str
    cache: Path
    expected: list[Verdict]
    log: Path

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

    def judge(
        self, body: bytes, token: str = TOKEN, media: str = "application/x-ndjson", timeout: int = 60, **more: str
    ) -> tuple[int, bytes]:
        headers = {"Content-Type": media, "Authorization": f"Bearer {token}", **more}
        asked = urllib.request.Request(f"{self.address}/judge?timeout={timeout}", body, headers)
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
        yield LocalService(service, f"http://127.0.0.1:{service.query_port()}", cache, expected, folder / "log")
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


def test_javascript_prints_the_pages_worth_keeping_in_every_crawl(place: LocalService) -> None:
    for _ in range(2):  # in the second crawl the pages are `unchanged`, and copies stay copies
        done = place.run(needed("node"), EXAMPLES / "judge_pages.mjs", place.address, PAGES, JUDGE_TOKEN=TOKEN)
        assert done.returncode == 0, done.stderr
        assert done.stdout.split() == [one.id for one in place.expected if one.verdict == "new"]
        assert done.stderr.splitlines() == [
            f"{one.id} = {one.canonical}" if one.canonical else f"{one.id}: {one.verdict}"
            for one in place.expected
            if one.verdict != "new"
        ]
    refused = place.run("node", EXAMPLES / "judge_pages.mjs", place.address, PAGES)
    assert refused.returncode == 1
    assert refused.stderr == "the service wants its token: set JUDGE_TOKEN to it\n"
    assert len(refused.stderr.splitlines()) == 1


class _Moody(BaseHTTPRequestHandler):
    """A service that is away at first, then late for every second page, then prompt."""

    server: LoopbackServer
    away = 503
    """The status of its first answer."""

    def do_POST(self) -> None:
        pages = [
            json.loads(line)["id"] for line in self.rfile.read(int(self.headers["content-length"])).split(b"\n")
        ]
        asked = self.server.asked
        asked.append((self.path, pages))
        late = pages[1::2] if len(asked) == 2 else []
        lines: list[dict[str, object]] = [
            {"line": at, "status": 504, "detail": "late"} if page in late else {"id": page, "canonical": page}
            for at, page in enumerate(pages, 1)
        ]
        if len(asked) == 1:
            lines = [{"detail": "busy"}]
        self.send_response(self.away if len(asked) == 1 else 200)
        self.end_headers()
        self.wfile.write("".join(json.dumps(line) + "\n" for line in lines).encode())


@pytest.mark.parametrize("status", [503, 429, 408])
def test_javascript_asks_again_for_what_has_no_verdict(
    place: LocalService, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, status: int
) -> None:
    monkeypatch.setattr(_Moody, "away", status)
    (tmp_path / "pages.jsonl").write_text("".join(json.dumps({"id": one, "text": "x"}) + "\n" for one in "abcd"))
    with serving(LoopbackServer(_Moody)) as server:
        address = f"{server.url}/behind/"  # with a path, and a slash at its end
        done = place.run(needed("node"), EXAMPLES / "judge_pages.mjs", address, tmp_path / "pages.jsonl")
    assert (done.returncode, done.stdout.split()) == (0, [*"abcd"])
    busy, late = done.stderr.splitlines()
    assert busy.startswith(f'4 pages have no verdict ({status}: {{"detail": "busy"}}')
    assert late == "2 pages have no verdict (late): waiting"
    assert server.asked == [("/behind/judge?timeout=30", [*pages]) for pages in ("abcd", "abcd", "bd")]
    for wrong in ("127.0.0.1:9470", "no address"):
        done = place.run("node", EXAMPLES / "judge_pages.mjs", wrong, tmp_path / "pages.jsonl")
        assert (done.returncode, len(done.stderr.splitlines())) == (1, 1)


def test_javascript_sends_no_more_at_once_than_the_service_takes(place: LocalService, tmp_path: Path) -> None:
    lines = [json.dumps({"id": f"large-{number}", "text": "x " * 300_000}) for number in range(30)]  # 18 MB
    (tmp_path / "pages.jsonl").write_text("\n".join(lines))
    command = (needed("node"), EXAMPLES / "judge_pages.mjs", place.address, tmp_path / "pages.jsonl")
    done = place.run(*command, JUDGE_TOKEN=TOKEN)
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr.splitlines() == [f"large-{number}: too_short" for number in range(30)]


def test_javascript_gives_a_page_that_no_request_can_hold_its_answer_and_the_others_their_verdicts(
    place: LocalService, tmp_path: Path
) -> None:
    texts = [
        "The ferry to the north shore leaves an hour later from today until spring.",
        "x " * (9 << 20),
        "few words",
    ]
    lines = [json.dumps({"id": f"huge-{number}", "text": text}) for number, text in enumerate(texts)]
    (tmp_path / "pages.jsonl").write_text("\n\n".join(lines))
    command = (needed("node"), EXAMPLES / "judge_pages.mjs", place.address, tmp_path / "pages.jsonl")
    done = place.run(*command, JUDGE_TOKEN=TOKEN)
    assert (done.returncode, done.stdout.split()) == (1, ["huge-0"])
    assert done.stderr.splitlines() == ["huge-2: too_short", "page 2: the page is larger than 10485760 bytes"]
    (tmp_path / "pages.jsonl").write_text(f"{lines[2]}\n{{broken")
    done = place.run(*command, JUDGE_TOKEN=TOKEN)
    assert (done.returncode, done.stderr.startswith("line 2 is no page: ")) == (1, True)


def asked_in_vain(command: str, program: Path) -> tuple[str, subprocess.CompletedProcess[str]]:
    """Let a program send the pages to a service that takes requests and never answers: its address, what came."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"http://127.0.0.1:{silent.getsockname()[1]}"
        line = [needed(command), program, address, PAGES]
        return address, subprocess.run(line, capture_output=True, text=True, timeout=PATIENCE_S, check=False)


@pytest.mark.long
def test_javascript_does_not_wait_for_ever_for_a_service_that_takes_a_request_and_never_answers(
    tmp_path: Path,
) -> None:
    program = (EXAMPLES / "judge_pages.mjs").read_text("utf-8")
    quick = program.replace("ANSWER_SECONDS = 120", "ANSWER_SECONDS = 0.3").replace(
        "MOST_PAUSES = 4", "MOST_PAUSES = 1"
    )
    assert quick.count("0.3") == quick.count("MOST_PAUSES = 1") == 1
    (tmp_path / "judge_pages.mjs").write_text(quick)
    _, done = asked_in_vain("node", tmp_path / "judge_pages.mjs")
    assert done.returncode == 1
    waiting, failed = done.stderr.splitlines()
    assert waiting == "30 pages have no verdict (no answer in time): waiting"
    assert failed == "30 pages (1, 2, 3, 4, 5, …): no answer in time"


def test_javascript_finds_the_plain_addresses_that_simstream_finds(place: LocalService, tmp_path: Path) -> None:
    site, other = "https://a.example", "https://b.example:8080"
    patterns = [
        AddressPattern(site, PartKind.PARAMETER, "sid"),
        AddressPattern(site, PartKind.PARAMETER, "utm_medium&utm_source"),
        AddressPattern(site, PartKind.PARAMETER, "view", below="article"),
        AddressPattern(site, PartKind.PATH_PARAMETER, "jsessionid"),
        AddressPattern(site, PartKind.SEGMENT, "print", to="article"),
        AddressPattern(site, PartKind.SEGMENT, "amp"),
        AddressPattern(other, PartKind.SEGMENT, "打印"),
        AddressPattern(other, PartKind.PARAMETER, ""),
    ]
    paths = ("", "/", "/article/7", "/print/7/", "/print/article/7", "/amp/amp/7", "/amp/list//7", "/a-b-c/amp")
    paths += (
        "/7;jsessionid=4/x;jsessionid=5;y=2",
        "/打印/页",
        "/article;x=1/7",
        "/print",
        "/amp/print/7",
        "/a" * 17,
    )
    queries = (
        "",
        "?",
        "?sid=4&b=2&a=1&&a=0",
        "?utm_source=x&utm_medium=y&utm_term=z",
        "?utm_source=x",
        "?view=1#top",
    )
    queries += ("?=4&sid", "?a?b=1&sid=2?3", "?" + "&".join(f"p{n}=1" for n in range(17)), "?x=" + "y" * 2_048)
    sites = (site, "HTTPS://A.example:443", "http://a.example", other, "https://u@a.example", "ftp://a.example")
    sites += ("https://a.example@evil.example", " https://a.ex\tample", "https://a.example:0443")
    paths += ("/" + "a" * 32 + "/amp", "/" + "🚋" * 17 + "/amp", "/amp;" + ";x=1" * 20, "/²/print", "/打印/amp;")
    urls = [f"{one}{path}{query}" for one in sites for path in paths for query in queries]
    entries = [{**msgspec.structs.asdict(one)} for one in patterns]
    (tmp_path / "patterns.json").write_text(json.dumps({"format": "simstream-patterns/1", "patterns": entries}))
    (tmp_path / "urls").write_text("\n".join(urls) + "\n", encoding="utf-8")
    (tmp_path / "examples").symlink_to(EXAMPLES)
    with (tmp_path / "urls").open(encoding="utf-8") as addresses:
        command = [needed("node"), tmp_path / "examples" / "plain_address.mjs", tmp_path / "patterns.json"]
        done = subprocess.run(
            command, stdin=addresses, capture_output=True, text=True, timeout=PATIENCE_S, check=True
        )
    plain = [PatternSet(patterns).plain(url) for url in urls]
    normal = [PageAddress.parse(url) for url in urls]
    whole = [one.site + one.rest if one else url for one, url in zip(normal, urls, strict=True)]
    expected = [found.text if found else other for found, other in zip(plain, whole, strict=True)]
    assert len([one for one in plain if one and one.patterns]) > 100
    assert done.stdout.splitlines() == expected


CRAWLED = SiteSize(articles=24, archived=16, mirrors=0, sessions=4, months=20, tags=8, per_archive=4)


def test_a_crawler_in_javascript_finds_every_article_in_every_crawl_and_few_copies(
    place: LocalService, tmp_path: Path
) -> None:
    with SiteServer(CRAWLED) as served:
        whole = _all_addresses(served.site)

        def crawl(*more: object) -> int:
            served.site.forget()
            command = (needed("node"), EXAMPLES / "crawler.mjs", place.address, served.start)
            done = place.run(*command, *more, JUDGE_TOKEN=TOKEN)
            assert done.returncode == 0, done.stderr
            count = len(served.site.fetched)
            assert re.fullmatch(rf"{count} pages were fetched, \d+ addresses were not\n", done.stderr)
            assert served.site.missed() == set()
            assert len(done.stdout.splitlines()) < 0.5 * len(served.site.fetched)
            return len(served.site.fetched)

        first, second = crawl(), crawl()
        assert max(first, second) < 0.65 * whole
        log, patterns = place.log, tmp_path / "patterns.json"
        done = place.run(
            sys.executable, "-m", "simstream", "patterns", "--log", log, "--prefix", "crawl", "-o", patterns
        )
        assert done.returncode == 0, done.stderr
        assert crawl(patterns) < 0.9 * min(first, second)


@pytest.mark.parametrize(
    ("start", "said"),
    [
        ("nonsense", "nonsense is no address of a site: give one such as https://a.example/"),
        ("http://127.0.0.1:1/", "http://127.0.0.1:1/ has no HTML page, or does not answer"),
    ],
)
def test_a_crawler_in_javascript_names_a_site_that_is_none(place: LocalService, start: str, said: str) -> None:
    done = place.run(needed("node"), EXAMPLES / "crawler.mjs", place.address, start, JUDGE_TOKEN=TOKEN)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.splitlines()[-1] == said


@pytest.mark.long
def test_a_crawler_in_javascript_ends_if_the_service_is_gone(place: LocalService) -> None:
    with SiteServer(CRAWLED) as served:
        nowhere = "http://127.0.0.1:1"
        command = (needed("node"), "--import", WITHOUT_PAUSES, EXAMPLES / "crawler.mjs", nowhere, served.start)
        done = place.run(*command, JUDGE_TOKEN=TOKEN)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith(f"{nowhere} gives no verdicts: fetch failed")


class _BusySite(BaseHTTPRequestHandler):
    """A site with a file without end, and with a page that is there only if it is asked for again."""

    server: LoopbackServer

    def do_GET(self) -> None:
        self.server.asked.append(self.path)
        self.send_response(429 if self.path == "/busy" and self.server.asked.count("/busy") == 1 else 200)
        self.send_header("content-type", "video/mp4" if self.path == "/file" else "text/html")
        self.end_headers()
        links = "".join(f'<a href="{path}">x</a>' for path in ("/file", "/busy"))
        self.wfile.write((links if self.path == "/" else "x").encode())
        with contextlib.suppress(OSError):
            while self.path == "/file":
                self.wfile.write(bytes(1 << 16))


def test_a_crawler_in_javascript_reads_no_file_and_asks_again_for_a_busy_page(place: LocalService) -> None:
    with serving(LoopbackServer(_BusySite)) as server:
        start = f"{server.url}/"
        command = (needed("node"), "--import", WITHOUT_PAUSES, EXAMPLES / "crawler.mjs", place.address, start)
        done = place.run(*command, JUDGE_TOKEN=TOKEN)
    assert (done.returncode, done.stdout.split()) == (0, [start, f"{start}busy"])
    assert done.stderr == "3 pages were fetched, 0 addresses were not\n"
    assert sorted(server.asked) == ["/", "/busy", "/busy", "/file"]


def _all_addresses(site: CrawlSite) -> int:
    """How many pages a crawl fetches that follows every link within the host."""
    start = f"http://{site.hosts[0]}/"
    known, queue = {start}, [start]
    while queue:
        url = queue.pop()
        page = site.get(0, url.removeprefix(start[:-1]))
        found = {urljoin(url, link) for link in (*(page.links if page else ()), "/", "/list/0")} - known
        queue += [link for link in found if link.startswith(start)]
        known |= found
    return len([url for url in known if url.startswith(start)])


def test_javascript_gives_addresses_the_kinds_that_python_gives_them(tmp_path: Path) -> None:
    urls = ["https://A.example/", "https://a.example/about", "https://a.example/article/17?sid=4&b=&sid=5"]
    urls += ["https://a.example/2026/03/some-long-title-of-7-words/", "https://a.example/tag/harbour/page/2#top"]
    urls += [
        "https://a.example:8080/x/9f8e7d6c5b4a/view",
        "http://[broken",
        "https://a.example/a-b-c/d/page-12.html",
    ]
    urls += ["https://a.example/view.php?do=show&n=4&b=a-b_c&c=%E5%A4%A7%E6%A1%A5&d=&e=a%20b&f=" + "x" * 17]
    code = f"""
        import {{ kindOf }} from {json.dumps((EXAMPLES / "crawl_queue.mjs").as_uri())};
        for (const url of {json.dumps(urls)}) {{
            console.log(kindOf(url));
            console.log(kindOf(url, {{ withName: true }}));
            console.log(kindOf(url, {{ withName: true, withWords: true }}));
        }}
    """
    (tmp_path / "kinds.mjs").write_text(code)
    done = subprocess.run(
        [needed("node"), tmp_path / "kinds.mjs"], capture_output=True, text=True, timeout=PATIENCE_S, check=True
    )
    expected = [(kind_of(url), kind_of(url, True), kind_of(url, True, with_words=True)) for url in urls]
    assert done.stdout.splitlines() == [kind for kinds in expected for kind in kinds]


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
    assert (refused.returncode, refused.stderr) == (1, "the service wants its token: set JUDGE_TOKEN to it\n")
    nobody = place.run(*command[:2], "http://127.0.0.1:9", tmp_path / "pages.jsonl")
    assert (nobody.returncode, nobody.stderr) == (1, "no service answers at http://127.0.0.1:9\n")


@pytest.mark.long
def test_java_does_not_wait_for_ever_for_an_answer(tmp_path: Path) -> None:
    program = (EXAMPLES / "JudgePages.java").read_text("utf-8")
    quick = program.replace("Duration.ofSeconds(120)", "Duration.ofSeconds(5)")
    assert quick.count("ofSeconds(5)") == 1
    (tmp_path / "JudgePages.java").write_text(quick)
    address, done = asked_in_vain("java", tmp_path / "JudgePages.java")
    said = f"the service at {address} gives no answer in time: send the pages again later\n"
    assert (done.returncode, done.stderr) == (1, said)


def test_the_commands_of_the_document_do_what_it_says(place: LocalService) -> None:
    text = (ROOT / "docs" / "how-to" / "crawler-http.md").read_text(encoding="utf-8")
    [lines] = re.findall(r"<<END\n(.*?)\nEND\n", text, re.DOTALL)
    status, answer = place.judge(lines.encode())
    assert status == 200
    assert [json.loads(line)["verdict"] for line in answer.splitlines()] == ["new", "near_duplicate"]
    [roles] = re.findall(r"--roles (\S+)", text)
    assert roles == "fingerprint,judge,query"
    assert place.judge(lines.encode(), "wrong")[0] == 401
    [single] = re.findall(r"application/json' -d '(.*\"url\".*)'\n", text)
    status, answer = place.judge(single.encode(), media="application/json")
    assert (status, json.loads(answer)["verdict"]) == (200, "too_short")


def test_a_body_that_is_no_page_gets_a_sentence_that_says_what_to_send(place: LocalService) -> None:
    page = b'{"id": "a", "text": "one two", "contents": "x"}'
    for body, media, more, status, said in (
        (page, "application/json", {}, 422, "a page has no other fields than id, url"),
        (page, "application/x-ndjson", {}, 200, "a page has no other fields than id, url"),
        (b"[]", "application/json", {}, 422, "send several as application/x-ndjson"),
        (b'{"id": "a", "text": 4}', "application/json", {}, 422, "text: Input should be a valid string"),
        (page, "application/x-www-form-urlencoded", {}, 415, "send the header content-type: application/json or"),
        (page, "application/x-ndjson", {"Content-Encoding": "gzip"}, 415, "without content-encoding"),
        (b'{"id": "a", "text": "%s"}' % (b"x" * 12_000_000), "application/x-ndjson", {}, 200, '"status":413'),
        (b'{"id": "a", "text": "%s"}' % (b"x" * 12_000_000), "application/json", {}, 413, "send a shorter page"),
    ):
        found, answer = place.judge(body, media=media, **more)
        assert (found, said in answer.decode()) == (status, True), (body[:40], media, answer)


def test_a_thousand_pages_in_one_request_have_the_verdicts_of_a_judge(place: LocalService) -> None:
    assert place.judge(PAGES.read_bytes())[0] == 200  # also where no other test has sent them
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
