"""The command line's entrance: exit codes, one line, nothing heavy imported."""

from __future__ import annotations

import io
import json
import logging
import os
import pty
import re
import resource
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn, cast

import click
import pytest
from rich.cells import cell_len

from simstream.cli import dead_letters, main, match, options, verdict_table, verdicts
from simstream.cli.main import COMMANDS, invoke
from simstream.cli.output import print_json
from simstream.cli.progress import counting, say
from simstream.cli.serve import OPEN_FILES, allow_open_files
from simstream.errors import BrokerUnreachable, SettingsError
from simstream.log import open_log
from simstream.model import Record
from simstream.settings import Settings
from simstream.telemetry.logging import JsonFormatter
from simstream.tools.dead_letters.letters import DeadLetter
from simstream.tools.match_questions import PageQuestion
from simstream.wire import verdict as wire
from simstream.wire.page import PageLimits
from tests.e2e.harness import command_line, environment
from tests.unit.test_verdict import EXAMPLE, verdict

NO_ROOM = (
    "simstream: the system gives no more memory or threads: "
    "raise the container's limits of memory and pids, `ulimit -v` or `ulimit -u`\n"
)


class TerminalText(io.TextIOWrapper):
    """Text that calls itself a terminal."""

    def isatty(self) -> bool:
        return True


def raising(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    def callback() -> None:
        raise error

    command = click.Command("config", callback=callback)
    monkeypatch.setattr(main.main, "get_command", lambda context, name: command)


@pytest.mark.parametrize(
    ("error", "code", "line"),
    [
        (SettingsError("distance is 99", "use 0 to 63"), 2, "simstream: distance is 99: use 0 to 63\n"),
        (BrokerUnreachable("no broker", "start one"), 1, "simstream: no broker: start one\n"),
        (
            OSError(28, "no room", "/full/x"),
            1,
            "simstream: the system refused: no room (/full/x): make room, or check the permissions\n",
        ),
        (ImportError("x.so: failed to map segment from shared object"), 1, NO_ROOM),
        (RuntimeError("can't start new thread"), 1, NO_ROOM),
        (MemoryError(), 1, NO_ROOM),
        (ValueError("odd\nthing"), 1, "simstream: ValueError: odd thing: run again with --debug and report it\n"),
        (click.UsageError("wrong."), 2, "simstream: wrong: see `simstream config --help`\n"),
    ],
)
def test_an_error_is_one_line_and_its_exit_code(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], error: Exception, code: int, line: str
) -> None:
    raising(monkeypatch, error)
    assert invoke(["config"]) == code
    assert capsys.readouterr().err == line


def hidden_interrupt() -> SystemError:
    """What the interpreter raises if a library returns a value although Ctrl-C was raised within it."""
    error = SystemError("a call returned a result with an exception set")
    error.__cause__ = KeyboardInterrupt()
    return error


@pytest.mark.parametrize("error", [KeyboardInterrupt(), hidden_interrupt()])
def test_an_interrupt_is_130(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], error: BaseException
) -> None:
    raising(monkeypatch, error)
    assert invoke(["config"]) == 130
    assert capsys.readouterr().err.strip() == "simstream: interrupted"


def test_debug_shows_the_traceback_before_the_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    raising(monkeypatch, SettingsError("what", "todo"))
    assert invoke(["config", "--debug"]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert lines[0].startswith("Traceback")
    assert lines[-1] == "simstream: what: todo"


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_command_has_a_help_page(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert invoke([name, "--help"]) == 0
    assert "Usage: simstream " + name in capsys.readouterr().out


@pytest.mark.skipif(len(os.sched_getaffinity(0)) == 1, reason="with one core numpy starts no thread anyway")
def test_numpy_starts_no_threads_of_its_own() -> None:
    program = (
        "import os\nfrom simstream.cli import main\n"
        "def count(_):\n    import numpy\n    print(len(os.listdir('/proc/self/task')))\n    return 0\n"
        "main.invoke = count\nmain.run()"
    )
    of_blas = ("OPENBLAS_NUM_THREADS", "GOTO_NUM_THREADS", "OMP_NUM_THREADS")
    variables = {name: value for name, value in os.environ.items() if name not in of_blas}
    done = subprocess.run(
        [sys.executable, "-c", program], env=variables, capture_output=True, text=True, check=True
    )
    assert done.stdout == "1\n"


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["dedup", "--help"], ["config", "--help"]])
def test_nothing_heavy_is_imported_for_little(arguments: list[str]) -> None:
    code = (
        "import sys\nfrom simstream.cli.main import invoke\n"
        f"assert invoke({arguments!r}) == 0\n"
        "heavy = {'numba', 'numpy', 'jieba', 'confluent_kafka', 'resiliparse', 'prometheus_client'}\n"
        "print(sorted(heavy & set(sys.modules)), file=sys.stderr)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr.strip() == "[]"


NO_PATHS = {
    *("", "10m", "2h|TIME", "72h", "ADDRESS", "F", "HOST", "HOST:PORT", "HOST:PORT,…", "ID", "J", "K", "FROM-TO"),
    *(
        "LEVEL",
        "N",
        "NAME",
        "NAME,…",
        "NAME|FILE.toml",
        "PORT",
        "PREFIX",
        "S",
        "SHARE",
        "SIZE",
        "TIME",
        "URL",
        "WORD",
    ),
    *("all|fingerprint,judge,query,match", "any|canonical"),
}
"""The metavars of what is no path, or is refused elsewhere."""


def test_every_metavar_is_known_as_that_of_a_path_or_of_something_else() -> None:
    def metavars(command: click.Command) -> set[str]:
        found = {main._metavar_of(param) for param in command.params}
        if isinstance(command, click.Group):
            context = click.Context(command)
            for name in command.list_commands(context):
                found |= metavars(command.get_command(context, name) or command)
        return found

    assert metavars(main.main) == NO_PATHS | set(main._PATH_METAVARS)


def test_every_command_that_reads_pages_takes_the_names_of_their_fields() -> None:
    context, without = click.Context(main.main), []
    for name in main.main.list_commands(context):
        command = main.main.get_command(context, name)
        assert command is not None
        if any("INPUT" in (param.metavar or "") for param in command.params):
            without += [name] * ("text_field" not in {param.name for param in command.params})
    assert without == []


def test_pages_of_other_fields_are_read_by_every_command_that_shows_words(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path, cache: Path
) -> None:
    monkeypatch.setenv("SIMSTREAM_CACHE", str(cache))
    pages, table, fields = tmp_path / "p.jsonl", tmp_path / "own.idf", ["--text-field", "body", "--id-field", "doc"]
    words = "night train stops again mill village after forty years"
    pages.write_text(json.dumps({"doc": "a", "body": words}), encoding="utf-8")
    assert invoke(["train-idf", str(pages), "-o", str(table), "--min-pages", "1", *fields]) == 0
    assert {line.split()[0] for line in table.read_text(encoding="utf-8").splitlines()} == set(words.split())
    assert invoke(["tokens", "-i", str(pages), "--recipe", "default", "--json", *fields]) == 0
    assert {word for word, *_ in json.loads(capsys.readouterr().out)} == set(words.split())
    found = {"id": "a", "distance": 0, "similarity": 1.0, "cluster_id": "0"}
    answer = json.dumps({"results": [{"matches": [found]}]}).encode()
    monkeypatch.setattr("simstream.cli.match.open_url", lambda *_, **__: io.BytesIO(answer))
    assert invoke(["match", "-i", str(pages), "--with", str(pages), "--json", *fields]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["id"], told["matches"][0]["jaccard"]) == ("a", 1.0)
    assert invoke(["demo", str(pages), "--quiet", *fields]) == 0
    assert re.search(r"\bnew +1 ", capsys.readouterr().out)


@pytest.mark.parametrize("name", ["own.idf.gz", "own.XZ", "own.zst"])
@pytest.mark.parametrize("command", ["train-idf", "patterns"])
def test_what_is_only_read_plain_is_not_written_compressed(
    command: str, name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pages = tmp_path / "pages.jsonl"
    pages.touch()
    assert invoke([command, str(pages), "-o", str(tmp_path / name)]) == 2
    ending = Path(name).suffix.lower()
    [line] = capsys.readouterr().err.splitlines()
    assert f"{name} names a compressed file" in line
    assert line.endswith(f": leave out {ending}")
    assert list(tmp_path.iterdir()) == [pages]


@pytest.mark.parametrize("is_first", [False, True])
def test_the_demo_says_no_time_that_compiling_took(
    is_first: bool, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SIMSTREAM_CACHE", str(cache))
    monkeypatch.setattr("simstream.text.fingerprinter.compiled", lambda _: not is_first)
    pages = tmp_path / "pages.jsonl"
    pages.write_text(json.dumps({"id": "a", "text": "night train stops again mill village"}))
    assert invoke(["demo", str(pages), "--quiet"]) == 0
    took = "" if is_first else r", in \d+\.\d s"
    assert re.search(rf"1 verdict, published once{took}\.\n", capsys.readouterr().out)


def test_the_demo_has_its_own_index_whatever_the_settings_say_of_matchers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SIMSTREAM_SHARDS", "4")
    pages = tmp_path / "pages.jsonl"
    pages.write_text(json.dumps({"id": "a", "text": "night train stops again mill village"}))
    assert invoke(["demo", str(pages), "--quiet"]) == 0
    assert "1 page, 1 verdict" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [
        (["dedup", "", "-o", "v.jsonl"], "INPUT"),
        (["dedup", "p.jsonl", ""], "INPUT"),
        (["dedup", "p.jsonl", "-o", ""], "-o / --output"),
        (["dedup", "p.jsonl", "--keep="], "--keep"),
        (["evaluate", "p.jsonl", "-o", ""], "-o / --output"),
        (["serve", "--state", ""], "--state"),
        (["config", "--config", ""], "--config"),
        (["patterns", ""], "VERDICTS"),
        (["demo", ""], "INPUT"),
        (["state", "verify", ""], "DIR"),
        (["state", "upgrade", "old", ""], "NEW"),
        (["source", "skip", "--state", ""], "--state"),
    ],
)
def test_an_empty_path_is_refused_by_its_name(
    capsys: pytest.CaptureFixture[str], arguments: list[str], shown: str
) -> None:
    assert invoke(arguments) == 2
    assert capsys.readouterr().err.startswith(f"simstream: {shown} is empty: name a file or a folder")


def test_a_line_of_the_table_shows_what_matters() -> None:
    shown = click.unstyle(verdict_table.line(wire.decode(EXAMPLE))).split()
    assert shown[:5] == ["42", "near_duplicate", "0.8906", "3", "17"]
    assert shown[-3:] == ["https://b.example/7", "=", "https://a.example/1"]


@pytest.mark.parametrize("columns", [40, 60, 80, 82, 83, 92, 251])
def test_long_names_keep_their_ends_in_a_narrow_terminal(monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
    monkeypatch.setattr(verdict_table, "_room", lambda start: columns - len(start))
    story = verdict(id="https://a.example/2026/磨坊重新开张-12", near_duplicate_of="b/7")
    _, wrapped, names = click.unstyle(verdict_table.line(story)).rpartition("\n")
    assert bool(wrapped) == (columns < 83), "only a terminal too narrow for two names gets a second line"
    assert cell_len(names) <= columns
    indent = 10 if wrapped else len(verdict_table.HEAD)
    shown, room = names[indent:], columns - indent
    name, _, other = shown.partition("  =  ")
    assert (name.endswith("-12"), other) == (True, "b/7")
    assert ("…" in shown) == (room < 46)


@pytest.mark.parametrize(("columns", "cells"), [(80, 32), (103, 44), (104, 24)])
def test_two_long_names_have_the_room_that_a_narrow_terminal_has(
    monkeypatch: pytest.MonkeyPatch, columns: int, cells: int
) -> None:
    monkeypatch.setattr(verdict_table, "_room", lambda start: columns - len(start))
    names = f"https://a.example/{'x' * 80}", f"https://b.example/{'y' * 80}"
    shown = click.unstyle(verdict_table.line(verdict(id=names[0], near_duplicate_of=names[1])))
    assert f"…{'x' * (cells - 1)}  =  …{'y' * (cells - 1)}" in shown


MATCH = b'{"id": "a\\u001b[2Jb", "similarity": 1, "distance": 0, "cluster_id": "7"}'


def test_the_matches_that_a_service_names_cannot_steer_the_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    answer = io.BytesIO(b'{"results": [{"reason": null, "matches": [%s]}]}' % MATCH)
    monkeypatch.setattr("simstream.cli.match.open_url", lambda *_, **__: answer)
    assert invoke(["match", "some text"]) == 0
    assert capsys.readouterr().out == "text  1.0000   0 bits  cluster 7  a\ufffd[2Jb\n"


def test_a_page_that_was_not_read_says_why_in_json_too(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "pages.jsonl").write_text('{"id": "a", "text": 5}\nno JSON\n')
    answer = b'{"results": [{"reason": "few_words", "matches": []}, {"reason": "few_words", "matches": []}]}'
    monkeypatch.setattr("simstream.cli.match.open_url", lambda *_, **__: io.BytesIO(answer))
    assert invoke(["match", "-i", str(tmp_path / "pages.jsonl"), "--json"]) == 0
    told = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [page["reason"] for page in told] == ["wrong_type", "bad_json"]
    assert all(list(page) == ["id", "reason", "matches"] for page in told)


@pytest.mark.parametrize(
    "api", ["http://[::1", "http://127.0.0.1:9470/ x", "http://", "http://a:b", "http://a:99999"]
)
def test_an_api_that_is_no_address_is_refused(capsys: pytest.CaptureFixture[str], api: str) -> None:
    assert invoke(["match", "some text", "--api", api]) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert line == f"simstream: --api is {api!r}, which is no address: write http://HOST:PORT"


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (b"SSH-2.0-OpenSSH\r\n", "does not answer (SSH-2.0-OpenSSH"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n", "does not answer (IncompleteRead"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{", "does not answer "),
        (b"HTTP/1.1 503 Away\r\nContent-Length: 100\r\n\r\n{", "refused the question (503)"),
    ],
)
def test_a_server_of_another_kind_is_named_in_one_line(
    capsys: pytest.CaptureFixture[str], answer: bytes, said: str
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            with server.accept()[0] as wire, wire.makefile("rb") as asked:
                while length := asked.readline().strip():
                    if length.lower().startswith(b"content-length:"):
                        size = int(length.split(b":")[1])
                asked.read(size)
                wire.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        url = f"http://127.0.0.1:{server.getsockname()[1]}"
        assert invoke(["match", "some text", "--api", url]) == 1
        thread.join()
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith(f"simstream: {url} {said}")
    assert "report it" not in line


@pytest.mark.parametrize(
    "answer",
    [
        b"null",
        b"[]",
        b"{}",
        b"<html>",
        b"[" * 100_000 + b"]" * 100_000,
        b'{"results": []}',
        b'{"results": [{}]}',
        b'{"results": [{"matches": [{"id": "a"}]}]}',
    ],
)
def test_an_answer_that_is_none_is_named_in_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], answer: bytes
) -> None:
    monkeypatch.setattr("simstream.cli.match.open_url", lambda *_, **__: io.BytesIO(answer))
    assert invoke(["match", "some text"]) == 1
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith("simstream: http://127.0.0.1:9470 does not answer as a role `query` does (")


def test_a_service_that_is_not_there_is_named_without_the_number_of_the_error(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert invoke(["match", "some text", "--api", "http://127.0.0.1:1"]) == 1
    said = "simstream: http://127.0.0.1:1 does not answer (Connection refused): start `simstream serve"
    assert capsys.readouterr().err.startswith(said)


@pytest.mark.parametrize("name", ["tokens", "match"])
def test_a_text_without_quotes_is_told_what_it_needs(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert invoke([name, "hello", "world"]) == 2
    what = f"Got unexpected extra argument (world): put the text in quotes, or see `simstream {name} --help`"
    assert capsys.readouterr().err == f"simstream: {what}\n"


def test_a_list_without_failed_pages_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with open_log(str(tmp_path)) as log:
        log.create_topics(1)
    for flags, said in (((), "no failed page to list\n"), (("--json",), "")):
        assert invoke(["dead-letters", "list", "--log", str(tmp_path), *flags]) == 0
        assert capsys.readouterr().out == said


def test_a_warning_of_a_command_that_writes_no_log_is_a_line_as_all_others(tmp_path: Path) -> None:
    with options.open_log(Settings(log=str(tmp_path))):
        assert logging.lastResort is not None
        assert logging.lastResort.format(logging.makeLogRecord({"msg": "x\x1b"})) == "simstream: x\ufffd"
        alike = [logging.makeLogRecord({"msg": "frame %d", "levelno": logging.WARNING}) for _ in range(99)]
        assert 0 < sum(map(bool, map(logging.lastResort.filter, alike))) < 99


@pytest.mark.parametrize("name", ["dead-letters", "source", "state", "topics"])
def test_a_group_says_whole_sentences_of_its_commands_at_80_columns(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert invoke([name, "--help"]) == 0
    lines = capsys.readouterr().out.partition("Commands:\n")[2].splitlines()
    assert lines
    assert [line for line in lines if not line.endswith(".") or line.endswith("...")] == []


@pytest.mark.parametrize(
    ("variables", "colours"),
    [({}, True), ({"NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False), ({"NO_COLOR": ""}, True)],
)
def test_a_table_has_colours_unless_the_user_or_the_terminal_refuses_them(
    variables: dict[str, str], colours: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    for name, value in ({"TERM": "xterm"} | variables).items():
        monkeypatch.setenv(name, value)
    shown = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", TerminalText(shown, write_through=True))
    command = click.Command("config", callback=lambda: click.echo(verdict_table.line(verdict())))
    monkeypatch.setattr(main.main, "get_command", lambda context, name: command)
    assert invoke(["config"]) == 0
    assert (b"near_duplicate" in shown.getvalue(), b"\x1b" in shown.getvalue()) == (True, colours)


def test_an_id_cannot_steer_the_terminal() -> None:
    shown = click.unstyle(verdict_table.line(verdict(id="a\x1b[2Jb\rc\nd\u202ee")))
    assert "\x1b" not in shown
    assert "\r" not in shown
    assert "\n" not in shown
    assert "\u202e" not in shown


def test_what_a_stranger_wrote_steers_no_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    raising(monkeypatch, SettingsError("there are \x1b[31mRED\x07 and \u202eback", "todo"))
    assert invoke(["config"]) == 2
    say("passed over: 1 image/\x1b]0;owned\x07\nand more")
    assert capsys.readouterr().err.splitlines() == [
        "simstream: there are \ufffd[31mRED\ufffd and \ufffdback: todo",
        "simstream: passed over: 1 image/\ufffd]0;owned\ufffd",
        "and more",
    ]


def test_a_sentence_has_a_line_of_its_own_above_a_running_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    shown = io.BytesIO()
    monkeypatch.setattr(sys, "stderr", TerminalText(shown))
    with counting("reading", 2) as heard:
        heard(1)
        say("passed over: 1 page")
    before, after = shown.getvalue().split(b"simstream: passed over: 1 page")
    assert before.endswith(b"\r\x1b[2K"), "the bar's line is erased first"
    assert after.startswith(b"\n")


@pytest.mark.parametrize(
    ("arguments", "worker"),
    [
        ("fingerprint p.jsonl", "simstream.deduper.fingerprinting.RecordFingerprinter.batches"),
        ("feed p.jsonl --log log", "simstream.tools.feed.feed.feed"),
        ("train-idf p.jsonl -o idf", "simstream.tools.train_idf.training.TrainingRun.run"),
        ("match text --with p.jsonl", "simstream.tools.matched_texts.MatchedTexts.read"),
        ("dedup p.jsonl", "simstream.deduper.fingerprinting.RecordFingerprinter.batches"),
        ("explain a -i p.jsonl", "simstream.deduper.fingerprinting.RecordFingerprinter.batches"),
    ],
)
def test_ctrl_c_ends_a_bar_before_it_is_reported(
    arguments: str, worker: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def interrupted(_: object, records: Iterator[Record], *others: object, **named: object) -> NoReturn:
        next(records)
        raise KeyboardInterrupt

    shown = io.BytesIO()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(worker, interrupted)
    monkeypatch.setattr(
        "simstream.cli.match.open_url", lambda *_, **__: io.BytesIO(b'{"results":[{"matches":[]}]}')
    )
    monkeypatch.setattr(sys, "stderr", TerminalText(shown))
    Path("p.jsonl").write_text('{"id": "a", "text": "the night train"}\n' * 2)
    assert invoke(arguments.split()) == 130
    bar, _, after = shown.getvalue().partition(b"simstream: interrupted")
    assert bar.endswith((b"\n\x1b[?25h", b"\x1b[2K")), "the bar's line is ended or erased, and the cursor is back"
    assert after == b"\n"


@pytest.mark.parametrize(
    ("closed", "arguments", "code", "said"),
    [
        (2, "dedup p.jsonl -o v.jsonl", 0, b""),
        (2, "dedup p.jsonl", 0, b'"verdict"'),
        (1, "dedup p.jsonl -o v.jsonl", 0, b"1 new"),
        (1, "dedup p.jsonl", 1, b" (Bad file descriptor): send it elsewhere\n"),
        (1, "--version", 1, b" (Bad file descriptor): send it elsewhere\n"),
        (0, "dedup p.jsonl", 0, b'"verdict"'),
    ],
)
def test_a_program_without_a_standard_stream_does_its_work(
    closed: int, arguments: str, code: int, said: bytes, tmp_path: Path, cache: Path
) -> None:
    text = "The night train stops at the mill village again after forty years, before dawn."
    (tmp_path / "p.jsonl").write_text(json.dumps({"id": "a", "text": text}) + "\n")
    done = subprocess.run(
        command_line(*arguments.split()),
        cwd=tmp_path,
        env=environment(cache),
        capture_output=True,
        preexec_fn=lambda: os.close(closed),
        timeout=60,
        check=False,
    )
    assert (done.returncode, b"Traceback" in done.stderr) == (code, False), done.stderr
    assert said in done.stdout + done.stderr
    if "-o" in arguments:
        assert b'"verdict":"new"' in (tmp_path / "v.jsonl").read_bytes()


@pytest.mark.parametrize("encoding", ["latin-1", "ascii:surrogateescape"])
def test_what_stdout_has_no_character_for_is_an_escape(cache: Path, encoding: str) -> None:
    done = subprocess.run(
        command_line("plan", "--pages", "10M"),
        env=environment(cache) | {"PYTHONIOENCODING": encoding},
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert rb"\u2192" in done.stdout


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize(
    "arguments", ["--version", "dedup --help", "config", "plan --pages 9", "plan --pages 9 --json"]
)
def test_a_full_stdout_is_named_in_one_line(cache: Path, arguments: str, unbuffered: str) -> None:
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            command_line(*arguments.split()),
            env=environment(cache) | {"PYTHONUNBUFFERED": unbuffered},
            stdout=full,
            stderr=subprocess.PIPE,
            timeout=60,
            check=False,
        )
    said = (
        b"simstream: writing to stdout failed (No space left on device): free space there, or send it elsewhere\n"
    )
    assert (done.returncode, done.stderr) == (1, said)


def test_serve_may_open_as_many_files_as_the_system_allows() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))
    try:
        allow_open_files()
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == (min(OPEN_FILES, hard), hard)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.parametrize("is_terminal", [True, False])
def test_a_long_id_of_a_failed_page_loses_its_middle_on_a_terminal(
    monkeypatch: pytest.MonkeyPatch, is_terminal: bool
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: is_terminal)
    record = Record("t", 0, 0, None, b"{}", (("added", b""),))
    letter = DeadLetter(record, 0, "bad_id", "the id is too long", "t", 0, 0, 2, False, False, 1)
    page_id = "a" * 500 + "b" * 500
    shown = f"{'a' * 50}…{'b' * 49}" if is_terminal else page_id
    assert dead_letters._line(letter, page_id).endswith(f"  {shown}: the id is too long")


@pytest.mark.parametrize("is_terminal", [True, False])
def test_every_command_writes_json_that_cannot_steer_a_terminal_and_leaves_pipes_alone(
    monkeypatch: pytest.MonkeyPatch, is_terminal: bool
) -> None:
    class Stream(io.TextIOWrapper):
        def isatty(self) -> bool:
            return is_terminal

    evil = "a\x9bb\u202e"
    out, log = Stream(io.BytesIO(), "utf-8"), Stream(io.BytesIO(), "utf-8")
    monkeypatch.setattr(sys, "stdout", out)
    monkeypatch.setattr(sys, "stderr", log)
    print_json(evil)
    match._show(PageQuestion(evil, {}), {"matches": []}, as_json=True)
    letter = DeadLetter(
        Record("t", 0, 0, evil.encode(), b"{}", (("added", b""),)), 0, "", "", "t", 0, 0, 2, False, False, 1
    )
    click.echo(dead_letters._shown(letter, PageLimits(), show=False, as_json=True))
    click.echo(JsonFormatter().format(logging.makeLogRecord({"msg": evil})))
    assert invoke(["tokens", "--json", evil]) == 0
    out.flush()
    verdicts._show([Record("t", 0, 0, b"", json.dumps(evil, ensure_ascii=False).encode())], True, False)
    lines = cast(io.BytesIO, out.buffer).getvalue().splitlines()
    assert len(lines) == 6
    for line in lines:
        assert line.isascii() is is_terminal
        assert (rb"\u009b" if is_terminal else "\x9b".encode()) in line
        assert b"\\u202e" in json.dumps(json.loads(line)).encode()


def test_ids_in_json_cannot_steer_a_terminal_and_keep_their_values(tmp_path: Path) -> None:
    evil = "a\x9b31m\x7f\u202eb"
    (tmp_path / "pages.jsonl").write_text(json.dumps({"id": evil, "text": "short"}), "utf-8")
    ours, theirs = pty.openpty()
    try:
        line, environ = command_line("dedup", "pages.jsonl"), environment(tmp_path)
        subprocess.run(line, cwd=tmp_path, env=environ, stdout=theirs, stderr=subprocess.DEVNULL, check=True)
        shown = os.read(ours, 1 << 16).partition(b"\n")[0]
    finally:
        os.close(ours)
        os.close(theirs)
    assert shown.isascii()
    assert b"\\u009b31m\\u007f\\u202eb" in shown
    assert json.loads(shown)["id"] == evil
    piped = subprocess.run(line, cwd=tmp_path, env=environ, capture_output=True, check=True).stdout
    assert json.loads(piped) == json.loads(shown)
    assert "\x9b" in piped.decode()
