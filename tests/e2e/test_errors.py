"""Wrong use and wrong surroundings: one line that says what to do, the designed exit code, no traceback."""

from __future__ import annotations

import fcntl
import gzip
import json
import lzma
import os
import re
import signal
import socket
import struct
import subprocess
import sys
import termios
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO

import pytest

from tests.e2e.harness import PATIENCE_S, Done, Program, command_line, environment
from tests.waiting import until

NOWHERE = ("--log", "kafka://127.0.0.1:1")


def one_line(done: subprocess.CompletedProcess[bytes], code: int) -> str:
    """The one line of an error: `simstream: what happened: what to do`."""
    text = done.stderr.decode()
    assert done.returncode == code, text
    assert "Traceback" not in text
    lines = [line for line in text.splitlines() if line.startswith("simstream: ")]
    if len(lines) == 2 and re.fullmatch(r"simstream: no broker answers at \S+; waiting up to 15 s", lines[0]):
        del lines[0]  # said while there is still hope
    assert len(lines) == 1, text
    assert lines[0].count(": ") >= 2, f"it does not say what to do: {lines[0]}"
    return lines[0]


@pytest.fixture
def some(alone: Program) -> Path:
    path = alone.folder / "some.jsonl"
    path.write_text('{"id":"a","text":"x"}\n')
    return path


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["no-such-command"], "no-such-command"),
        (["dedup", "--no-such-flag", "some.jsonl"], "--no-such-flag"),
        (["dedup"], "INPUT"),
        (["dedup", "missing.jsonl"], "missing.jsonl"),
        (["dedup", "some.jsonl", "--recipe", "nonsense"], "nonsense"),
        (["dedup", "some.jsonl", "--recipe", "missing.toml"], "missing.toml"),
        (["dedup", "some.jsonl", "--window", "soon"], "window"),
        (["dedup", "some.jsonl", "--window", "0h"], "window"),
        (["dedup", "some.jsonl", "--window", "1h"], "time"),
        (["dedup", "some.jsonl", "--link", "all"], "link"),
        (["dedup", "some.jsonl", "--distance", "-1"], "distance"),
        (["dedup", "some.jsonl", "--distance", "64"], "give a whole number from 0 to 16, or auto"),
        (["dedup", "some.jsonl", "--distance", "few"], "distance"),
        (["dedup", "some.jsonl", "--similarity", "1.5"], "similarity"),
        (["dedup", "some.jsonl", "--similarity", "much"], "similarity"),
        (["dedup", "some.jsonl", "--recipe", "google2007", "--similarity", "0.5"], "sketch"),
        (["dedup", "some.jsonl", "--config", "missing.toml"], "missing.toml"),
        (["dedup", "page.pdf"], "page.pdf"),
        (["serve", "--roles", "cook"], "cook"),
        (["serve", "--http-port", "70000"], "http_port"),
        (["serve", "--threads", "0"], "threads"),
        (["serve", "--http-port", "0", "--log", "http://x"], "http://x"),
        (["serve", "--prefix", "a b"], "prefix"),
        (["topics", "create", "--partitions", "0"], "partitions"),
        (["tokens", "x", "--mode", "fast"], "fast"),
        (["tokens", "x", "--top", "3", "--mode", "full"], "--top"),
        (["tokens", "x", "-i", "some.jsonl"], "--input"),
        (["explain"], "page"),
        (["explain", "a", "-i", "some.jsonl", "--log", "x"], "--log"),
        (["explain", "a", "b", "-i", "some.jsonl", "--ordinal", "0"], "--ordinal"),
        (["explain", "a", "-i", "missing.jsonl"], "missing.jsonl"),
        (["explain", "a", "-i", "some.jsonl", "--window", "1h"], "time"),
        (["evaluate"], "evaluate"),
        (["source", "mend"], "mend"),
    ],
)
@pytest.mark.usefixtures("some")
def test_wrong_use_ends_with_2_and_one_line_that_names_it(alone: Program, arguments: list[str], word: str) -> None:
    (alone.folder / "page.pdf").write_bytes(b"%PDF-1.7\n")
    assert word in one_line(alone.run(*arguments), 2)


@pytest.mark.parametrize(
    ("content", "word"),
    [
        ("distance = 'few'", "distance"),
        ("no_such = 1", "no_such"),
        ("[frame]\nmax_pages = 0", "frame.max_pages"),
        ("[frame]\nno_such = 0", "frame.no_such"),
        ("frame = 3", "frame"),
        ("kafka = 3", "kafka"),
        ("give_up_after = 'later'", "give_up_after"),
        ("stop_timeout = 10", "stop_timeout"),
        ("this is no TOML", "TOML"),
    ],
)
def test_wrong_settings_in_the_file_end_with_2_and_are_named(alone: Program, content: str, word: str) -> None:
    (alone.folder / "simstream.toml").write_text(content)
    assert word in one_line(alone.run("config"), 2)


@pytest.mark.parametrize("name", ["SIMSTREAM_DISTANCE", "SIMSTREAM_FRAME_MAX_BYTES", "SIMSTREAM_EXTRACT_WORKERS"])
def test_a_wrong_variable_is_named_with_where_it_came_from(alone: Program, name: str) -> None:
    assert name in one_line(alone.run("config", **{name: "x"}), 2)


@pytest.mark.parametrize("command", [("dedup", "pages.jsonl"), ("status",), ("news",), ("serve",)])
def test_commands_refuse_a_misspelt_variable(alone: Program, command: tuple[str, ...]) -> None:
    line = one_line(alone.run(*command, SIMSTREAM_DISTANC="3"), 2)
    assert "SIMSTREAM_DISTANC belongs to no setting: use SIMSTREAM_DISTANCE" in line


@pytest.mark.parametrize("name", ["a.jsonl.gz", "a.csv.xz", "a.jsonl.zst"])
def test_the_error_names_a_file_that_does_not_begin_as_its_ending_says(alone: Program, name: str) -> None:
    path = alone.folder / name
    path.write_text("id,text\n")
    assert f"{name} does not begin as its ending says" in one_line(alone.run("dedup", path), 1)


@pytest.mark.parametrize(
    ("name", "content", "todo"),
    [
        ("a.jsonl", gzip.compress(b'{"id": "a"}\n', mtime=0), "a.jsonl.gz"),
        ("a.csv", lzma.compress(b"id,text\n"), "a.csv.xz"),
        ("a.jsonl", b"WARC/1.0\r\n", "a.warc"),
    ],
)
@pytest.mark.parametrize("command", [("dedup",), ("feed", "--log", "log")])
def test_a_file_of_another_format_is_refused_before_its_bytes_count_as_pages(
    alone: Program, command: tuple[str, ...], name: str, content: bytes, todo: str
) -> None:
    path = alone.folder / name
    path.write_bytes(content)
    alone.run("topics", "create", "--log", "log")
    line = one_line(alone.run(*command, path), 1)
    assert "and its name does not say so: rename it to " in line
    assert line.endswith(todo)


@pytest.mark.parametrize("why", ["no permission", "a link to itself"])
def test_an_unreadable_file_ends_with_2(alone: Program, why: str) -> None:
    path = alone.folder / "secret.jsonl"
    if why == "a link to itself":
        path.symlink_to(path)
    else:
        path.write_text("{}\n")
        path.chmod(0)
        if os.access(path, os.R_OK):
            pytest.skip("this user may read everything")
    assert "secret.jsonl" in one_line(alone.run("dedup", path), 2)


def test_a_file_that_is_damaged_from_its_beginning_ends_with_1(alone: Program) -> None:
    path = alone.folder / "torn.jsonl.gz"
    path.write_bytes(b"\x1f\x8b\x08\x00 no gzip at all")
    assert "torn.jsonl.gz" in one_line(alone.run("dedup", path), 1)


def test_a_damaged_file_ends_with_1_and_keeps_the_verdicts_before_it(alone: Program) -> None:
    path, much = alone.folder / "torn.jsonl.gz", "x" * 400_000  # more than is unpacked at once
    pages = [{"id": "a", "text": "one two"}, {"id": "b", "text": much}, {"id": "c", "text": much}]
    path.write_bytes(gzip.compress("".join(json.dumps(page) + "\n" for page in pages).encode())[:-8])
    done = alone.run("dedup", path, "--distance", 8)
    assert "torn.jsonl.gz" in one_line(done, 1)
    assert json.loads(done.stdout.splitlines()[0])["id"] == "a"


def test_an_output_that_cannot_be_written_is_one_line(alone: Program, some: Path) -> None:
    line = one_line(alone.run("dedup", some, "-o", alone.folder / "no" / "such" / "folder"), 2)
    assert "such" in line


def test_an_output_that_takes_no_more_is_one_line(alone: Program, cache: Path) -> None:
    some = alone.folder / "whole.jsonl"
    some.write_text(json.dumps({"id": "a", "text": "one two three four five six seven eight nine ten"}) + "\n")
    for options in (("-o", "/dev/full"), ("-o", "/dev/null", "--keep", "/dev/full")):
        line = one_line(alone.run("dedup", some, *options), 1)
        assert "writing to /dev/full failed (No space left on device)" in line
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            command_line("dedup", some),
            stdout=full,
            stderr=subprocess.PIPE,
            env=environment(cache),
            check=False,
        )
    assert "writing to stdout failed" in one_line(done, 1)


@pytest.fixture(scope="module")
def unanswered(cache: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Done]:
    """What commands say that wait for 15 s for a broker, all at once."""
    alone = Program(tmp_path_factory.mktemp("unanswered"), cache)
    (alone.folder / "some.jsonl").write_text('{"id": "a", "text": "x"}\n')
    asked = ["topics create", "feed some.jsonl", "verdicts", "source rewind", "explain a"]
    asked += ["status --http 127.0.0.1:2", "status --http 127.0.0.1:2 --json"]
    began = time.monotonic()
    with ThreadPoolExecutor(len(asked)) as pool:
        found = dict(zip(asked, pool.map(lambda line: alone.run(*line.split(), *NOWHERE), asked), strict=True))
    assert time.monotonic() - began < 40
    return found


@pytest.mark.long
def test_an_unreachable_broker_ends_with_1_and_its_address(unanswered: dict[str, Done]) -> None:
    waited = {line: done for line, done in unanswered.items() if not line.startswith("status")}
    assert len(waited) == 5
    for done in waited.values():
        assert "127.0.0.1:1" in one_line(done, 1)


@pytest.mark.parametrize(
    "place",
    [
        ("--log", "kafka://bob:SECRET@127.0.0.1:1"),
        ("--log", "kafka://127.0.0.1:1,bob:SECRET@127.0.0.1:2"),
        ("--log", "http://bob:SECRET@127.0.0.1:1"),
        ("--bootstrap-servers", "bob:SECRET@127.0.0.1:1"),
        ("--log", "kafka://bob%3ASECRET%40127.0.0.1:1"),
        ("--log", "kafka://bob:SECRET@127.0.0.1:1", "--bootstrap-servers", "127.0.0.1:1"),
        ("--log", "bob%3ASECRET%40127.0.0.1:1"),
        ("--bootstrap-servers", "bob%3ASECRET%40127.0.0.1:1"),
    ],
)
def test_a_password_in_an_address_is_refused_and_never_shown(alone: Program, place: tuple[str, ...]) -> None:
    asked = ["serve", "-v", "--http-port", "0"], ["verdicts", "-vv"], ["topics", "create", "-v"], ["config"]
    for command in asked:
        done = alone.run(*command, *place)
        assert done.returncode == 2
        assert b"names a user" in done.stderr
        assert b"SECRET" not in done.stderr + done.stdout


def test_a_replay_that_waits_for_a_broker_ends_at_once_by_ctrl_c(alone: Program, cache: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        silent.settimeout(PATIENCE_S)
        line = command_line("replay", "--to", "x", "--log", f"kafka://127.0.0.1:{silent.getsockname()[1]}")
        with (
            subprocess.Popen(line, stderr=subprocess.PIPE, env=environment(cache), cwd=alone.folder) as waiting,
            silent.accept()[0],
        ):
            waiting.send_signal(signal.SIGINT)
            assert waiting.wait(10) == 130


def test_a_command_that_is_told_to_end_by_sigterm_leaves_nothing_behind(alone: Program, cache: Path) -> None:
    numbers, found = alone.folder / "numbers", alone.folder / "found"
    numbers.write_text("".join(f"{number}\n" for number in range(200_000)))
    line = command_line("find-clusters", "-b", 8, "-d", 3, "-i", numbers, "-o", found)
    with subprocess.Popen(line, stderr=subprocess.PIPE, text=True, env=environment(cache)) as finding:
        until(lambda: list(alone.folder.glob("found*")), "the output is begun")
        finding.send_signal(signal.SIGTERM)
        assert finding.wait(PATIENCE_S) == 130
        assert finding.stderr is not None
        assert finding.stderr.read().endswith("\nsimstream: interrupted\n")
    assert not list(alone.folder.glob("found*"))


@pytest.mark.long
def test_status_asks_the_processes_also_where_no_broker_answers(unanswered: dict[str, Done]) -> None:
    shown, as_json = (done for line, done in unanswered.items() if line.startswith("status"))
    assert (as_json.returncode, shown.returncode) == (1, 1)
    found = json.loads(as_json.stdout)
    assert not found["reached"]
    assert "no Kafka broker answered at 127.0.0.1:1" in found["wrong"][0]["what"]
    assert found["wrong"][1]["what"].startswith("nothing answers at 127.0.0.1:2")
    text = shown.stdout.decode()
    assert "process " in text
    assert "none" not in text, "of the log nothing is known"


def test_a_service_without_a_broker_gives_up_with_1(alone: Program) -> None:
    done = alone.run("serve", "--http-port", 0, *NOWHERE, SIMSTREAM_GIVE_UP_AFTER="1s")
    assert "127.0.0.1:1" in one_line(done, 1)


@pytest.mark.parametrize(
    "command", [["serve", "--http-port", "0"], ["feed", "some.jsonl"], ["verdicts"], ["explain", "a"]]
)
def test_a_missing_topic_ends_with_1_and_the_command_that_makes_it(program: Program, command: list[str]) -> None:
    (program.folder / "some.jsonl").write_text('{"id":"a","text":"x"}\n')
    done = program.on_log(*command)
    assert "topics create" in one_line(done, 1)
    assert b"recipe" not in done.stderr, "nothing is compiled for it"
    assert not done.stdout, "nothing of a result is begun"


def test_debug_gives_the_traceback_and_the_line(alone: Program) -> None:
    done = alone.run("dedup", "missing.jsonl", "--debug")
    assert done.returncode == 2
    text = done.stderr.decode()
    assert "Traceback (most recent call last)" in text
    assert text.splitlines()[-1].startswith("simstream: missing.jsonl")


def unread(pipe: int) -> int:
    """How many bytes of a pipe its reader has not read yet."""
    return struct.unpack("i", fcntl.ioctl(pipe, termios.FIONREAD, bytes(4)))[0]


def wait_until_read(pipe: IO[bytes]) -> None:
    """Wait until a process has read all that was written to it."""
    pipe.flush()
    until(lambda: not unread(pipe.fileno()), "all is read")


def test_ctrl_c_on_an_endless_input_ends_with_130(alone: Program, cache: Path) -> None:
    verdicts = alone.folder / "verdicts.jsonl"
    process = subprocess.Popen(
        command_line("dedup", "-", "-o", verdicts),
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=alone.folder,
        env=environment(cache),
    )
    assert process.stdin is not None
    try:
        for number in range(5_000):
            process.stdin.write(b'{"id":"%d","text":"x"}\n' % number)
        wait_until_read(process.stdin)
        process.send_signal(signal.SIGINT)
        process.wait(20)
        assert process.stderr is not None
        assert only_interrupted(process.stderr.read())
    finally:
        process.kill()
    assert process.returncode == 130


_MISSING_SIGNALS = """
import signal, sys, threading, time
threading.Thread(target=time.sleep, args=(600,), daemon=True).start()
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])  # the thread takes the signal, and no read is broken off
from simstream.cli.main import run
run()
"""


@pytest.mark.parametrize("command", ["dedup -", "tokens", "explain a -i -", "find-all -b 4 -d 3 -i - -o -"])
def test_ctrl_c_ends_a_read_that_the_signal_does_not_break_off(alone: Program, cache: Path, command: str) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", _MISSING_SIGNALS, *command.split()],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        cwd=alone.folder,
        env=environment(cache),
    ) as process:
        assert process.stdin is not None
        assert process.stderr is not None
        try:
            process.stdin.write(b"7\n")
            wait_until_read(process.stdin)
            time.sleep(0.1)  # it waits for the next line
            process.send_signal(signal.SIGINT)
            assert process.wait(20) == 130
            assert only_interrupted(process.stderr.read())
        finally:
            process.kill()


def only_interrupted(said: bytes) -> bool:
    """Whether a command says only that it was interrupted, but perhaps before that it compiles."""
    lines = [line for line in said.decode().splitlines() if line and not line.startswith("simstream: compiling")]
    return lines == ["simstream: interrupted"]


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["dedup", "--help"], ["config"]])
def test_output_that_nobody_reads_is_no_error(alone: Program, cache: Path, arguments: list[str]) -> None:
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(
        command_line(*arguments),
        stdout=write,
        stderr=subprocess.PIPE,
        env=environment(cache),
        cwd=alone.folder,
        timeout=60,
        check=False,
    )
    os.close(write)
    assert done.stderr == b""
    assert done.returncode == 128 + signal.SIGPIPE


def test_a_named_pipe_whose_reader_goes_away_is_an_output_that_fails(alone: Program, some: Path) -> None:
    pipe = alone.folder / "pipe"
    os.mkfifo(pipe)
    with ThreadPoolExecutor(1) as pool:
        opening = pool.submit(lambda: pipe.open("rb").close())
        many = alone.folder / "many.jsonl"
        many.write_text(some.read_text() * 20_000)
        line = one_line(alone.run("dedup", many, "--versions", "-o", pipe), 1)
        opening.result(20)
    assert "Broken pipe" in line


def test_standard_input_that_cannot_be_read_is_one_line(alone: Program, cache: Path) -> None:
    read, write = os.pipe()
    done = subprocess.run(
        command_line("tokens"), stdin=write, capture_output=True, env=environment(cache), timeout=60, check=False
    )
    os.close(read)
    os.close(write)
    assert "Bad file descriptor" in one_line(done, 1)


def test_a_reader_that_goes_away_is_no_error(alone: Program, cache: Path, tmp_path: Path) -> None:
    path = tmp_path / "many.jsonl"
    path.write_text("".join(f'{{"id":"{i}","text":"x"}}\n' for i in range(20_000)))
    line = " ".join([*command_line("dedup", path), "| head -1; exit ${PIPESTATUS[0]}"])
    done = subprocess.run(
        ["bash", "-c", line], capture_output=True, env=environment(cache), cwd=alone.folder, timeout=60, check=False
    )
    assert done.stderr == b""
    assert done.stdout.count(b"\n") == 1
    assert done.returncode == 128 + signal.SIGPIPE
