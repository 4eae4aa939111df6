"""Dead letters listed and replayed, over both logs: what fails for a reason that was mended gets its verdict."""

from __future__ import annotations

import json
from typing import Any

import pytest

from simstream.cli.main import invoke
from simstream.log.options import DEAD_LETTERS, PAGES
from tests.e2e.harness import Program, read_topic, watching
from tests.e2e.pages import HARBOUR

SECRET = "private-words-of-a-page"
LIMIT = 20_000
BROKEN = b'{"text": "' + SECRET.encode()
HTML = (("content-type", b"text/html; charset=utf-8"), ("url", b"https://h.example/1"))


def page(text: str) -> bytes:
    return json.dumps({"text": text}).encode()


LARGE = page(f"{HARBOUR} " * 300)
FED: list[tuple[bytes | None, bytes, tuple[tuple[str, bytes], ...]]] = [
    (b"good", page(HARBOUR), ()),
    (b"large", LARGE, (("error", b"a header of the page's own"),)),
    (b"broken", BROKEN, ()),
    (b"html", b"<p>" + HARBOUR.encode() * 300, HTML),
    (None, b"", ()),
]


class DeadLetterProgram:
    """`simstream dead-letters` over one place, in this process."""

    def __init__(self, program: Program, capsys: pytest.CaptureFixture[str]) -> None:
        self._program = program
        self._capsys = capsys

    def __call__(self, *arguments: object) -> str:
        assert invoke(["dead-letters", *map(str, arguments), *self._program.where]) == 0
        return self._capsys.readouterr().out

    def listed(self, *arguments: object) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self("list", "--json", *arguments).splitlines()]


def test_letters_are_listed_without_their_content_and_replayed_once(
    program: Program, capsys: pytest.CaptureFixture[str]
) -> None:
    letters, source = DeadLetterProgram(program, capsys), f"{program.place.prefix}.pages"
    with program.place.open() as log:
        log.create_topics(1)
        dead = log.topic(DEAD_LETTERS).name
        with log.open_appender(PAGES) as appender:
            for key, value, headers in FED:
                appender.append(value, key, headers)
    first = list(map(json.loads, program.judge(len(FED), SIMSTREAM_MAX_RECORD_BYTES=str(LIMIT))))
    assert [v["verdict"] for v in first] == ["new", *["unreadable"] * 4]

    found = letters.listed()
    assert [(one["key"], one["reason"], one["source"]["offset"], one["bytes"]) for one in found] == [
        ("large", "too_large", 1, len(LARGE)),
        ("broken", "bad_json", 2, len(BROKEN)),
        ("html", "too_large", 3, len(FED[3][1])),
        (None, "empty_value", 4, 0),
    ]
    assert {one["source"]["topic"] for one in found} == {source}
    assert [one["key"] for one in letters.listed("--reason", "too_large", "--limit", 1)] == ["html"]
    assert letters.listed("--since", "2100-01-01T00:00:00") == []
    assert len(letters.listed("--since", "1h")) == 4
    table = letters("list")
    assert f"{source}/0/4" in table
    assert SECRET not in table + json.dumps(found)
    assert SECRET in letters("list", "--show")

    dry = letters("replay", "--reason", "too_large", "--dry-run")
    assert dry.startswith(f"2 pages would be sent again to {source} (2 too_large)")
    with program.place.open() as log:
        assert len(read_topic(log, PAGES)) == len(FED)
    # The limit is raised: pages that were too large are sent again, once, however often that is asked for.
    assert letters("replay", "--reason", "too_large").startswith("2 pages sent again")
    repeated = letters("replay", "--reason", "too_large")
    assert repeated.startswith("0 pages sent again")
    assert "2 replayed before" in repeated
    with program.place.open() as log:
        again = read_topic(log, PAGES)[len(FED) :]
    assert [(r.key, r.value) for r in again] == [(b"large", LARGE), (b"html", FED[3][1])]
    assert [r.headers[:-1] for r in again] == [FED[1][2], FED[3][2]]
    assert [r.headers[-1] for r in again] == [("simstream-replayed-from", f"{dead}/0/{n}".encode()) for n in (0, 2)]
    assert letters("replay", "--reason", "bad_json").startswith("1 page sent again")

    verdicts = list(map(json.loads, program.judge(len(FED) + 3)))
    assert [v["id"] for v in verdicts[5:]] == ["large", "html", "broken"]
    assert [v["reason"] for v in verdicts[5:]] == [None, None, "bad_json"]
    # A page that failed once more is not sent round and round, unless somebody insists.
    [old, new] = letters.listed("--reason", "bad_json")
    assert (old["replayed"], new["failed_after_replay"], new["replayed"]) == (True, True, False)
    looped = letters("replay", "--reason", "bad_json")
    assert looped.startswith("0 pages sent again")
    assert "1 failed after a replay" in looped
    assert letters("replay", "--reason", "bad_json", "--again", "--limit", 1).startswith("1 page sent again")


def test_on_a_local_log_nothing_is_sent_while_a_fingerprinter_runs(on_folder: Program) -> None:
    on_folder.good("topics", "create")
    with on_folder.place.open() as log:
        with log.open_appender(PAGES) as appender:
            appender.append(b"{", b"broken")
        with watching(log) as watcher, on_folder.serve() as service:
            watcher.wait(1, service)
            done = on_folder.on_log("dead-letters", "replay")
            assert done.returncode == 1
            assert b"stop it first" in done.stderr
            assert service.end() == 0
        assert len(read_topic(log, PAGES)) == 1


def test_a_wrong_time_is_refused(alone: Program) -> None:
    done = alone.run("dead-letters", "list", "--since", "yesterday", "--log", ".")
    assert done.returncode == 2
    assert b"--since" in done.stderr
