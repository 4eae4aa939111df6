"""What README and docs say to type: examples print what they say, commands run or are taken, names are there."""

from __future__ import annotations

import contextlib
import glob
import gzip
import importlib.util
import io
import json
import lzma
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pyarrow
import pytest
from pyarrow import parquet

from tests.archives import pages as archived
from tests.chaos.scenarios import SCENARIOS
from tests.e2e.harness import ROOT, Program, environment
from tests.unit.test_deploy import check_command

DEMO = ROOT / "stream/simstream/sources/demo_pages.jsonl"
GENERATED = ROOT / "docs/reference/commands.md"
DOCUMENTS = sorted({ROOT / "README.md", ROOT / "CONTRIBUTING.md", *ROOT.glob("docs/**/*.md")} - {GENERATED})
ON_FILES = ("dedup", "fingerprint", "find-all", "find-clusters", "find-near", "explain", "tokens", "config")
"""Commands that are run as they stand, over small files. Other tests run the rest, over a broker or for longer."""
PLACEHOLDERS = {"WHERE": ["--log", "kafka://host:9092", "--prefix", "simstream"], "WORD": ["bad_json"]}
"""What stands for such a word of the runbook."""
FOR_FILES = ("README.md", "docs/how-to/*.md", "docs/tutorials/researcher.md")


def relative(path: Path) -> str:
    return str(path.relative_to(ROOT))


def blocks(path: Path, language: str = "") -> list[str]:
    """The blocks of code of a document in a language."""
    found = re.findall(r"^ *```(\w*)\n(.*?)^ *```$", path.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    return [code for named, code in found if named == language]


def lines(path: Path) -> Iterator[str]:
    """The lines of a document's blocks without a language."""
    for block in blocks(path):
        yield from (line.strip() for line in block.splitlines())


def examples(path: str, what: str) -> str:
    """The Python examples of a document in which `what` stands. A later one may use names of an earlier one."""
    return "\n".join(code for code in blocks(ROOT / path, "python") if what in code)


def words(line: str) -> list[str]:
    """The arguments of a line that calls simstream, without comment, redirection and `&`."""
    found = shlex.split(line.partition(" > ")[0], comments=True)[1:]
    return found[:-1] if found[-1:] == ["&"] else found


@pytest.mark.parametrize(("path", "more"), [("README.md", []), ("docs/how-to/python.md", ["[None, 'a']"])])
def test_the_python_examples_print_what_they_say(path: str, more: list[str]) -> None:
    code = examples(path, "Deduper()")
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code, path, "exec"), {})
    assert printed.getvalue().splitlines() == ["a new None", "b near_duplicate a", *more]


def test_the_example_of_a_frame_keeps_one_row_a_story_however_often_it_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("pandas")
    monkeypatch.chdir(tmp_path)
    code = examples("docs/how-to/python.md", "story = (") + examples("docs/how-to/python.md", "import pandas")
    for _ in range(2):  # the second time all pages are `unchanged`
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(code, "python.md", "exec"), {})
        assert printed.getvalue().splitlines()[-1] == "[7, 9]"


def test_the_example_of_html_prints_what_it_says() -> None:
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(examples("docs/how-to/python.md", "read_html("), "python.md", "exec"), {})
    address = "https://mill.example/ferry"
    assert printed.getvalue().splitlines() == [f"Ferry adrift {address}", "The ferry has been adrift since noon."]


def test_the_program_for_spark_submit_is_the_command_line(alone: Program, cache: Path) -> None:
    page = (ROOT / "docs/how-to/spark.md").read_text(encoding="utf-8")
    [program] = re.findall(r"^spark-submit .*\$\(simstream (.*?)\) ", page, re.MULTILINE)
    command = [sys.executable, alone.run(*program.split()).stdout.decode().strip(), "--help"]
    done = subprocess.run(command, env=environment(cache), capture_output=True, check=True)
    assert b"INPUT..." in done.stdout


def test_no_python_example_is_without_a_test() -> None:
    for path in DOCUMENTS:
        for code in blocks(path, "python"):
            # The last four: tests/unit/test_tokens.py, tests/e2e/test_registered_pages.py,
            # tests/e2e/test_registered_verdicts.py, tests/e2e/test_spark.py
            registered = ("AvroSerializer(", "AvroDeserializer(")
            own = ("Deduper()", "with Client(", "read_html(", "import pandas")
            tested = (*own, "MSKAuthTokenProvider", *registered, "near_duplicates(")
            assert any(part in code for part in tested), relative(path)


@pytest.fixture
def shelf(tmp_path: Path, cache: Path) -> Program:
    """A folder with small files of the names that the documents use."""
    demo = [line for line in DEMO.read_bytes().splitlines() if readable(line)]
    story = "The night ferry runs again, and half the island came down to the old harbour at dusk to see it leave."
    own = [json.dumps({"id": name, "text": story}).encode() for name in ("https://b.example/7", "b")]
    pages = b"".join(line + b"\n" for line in [*demo[:20], *own])
    (tmp_path / "crawl").mkdir()
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    files = {
        "pages.jsonl": pages,
        "pages.jsonl.xz": lzma.compress(pages),
        "new.jsonl.xz": lzma.compress(pages),
        "old.jsonl.xz": lzma.compress(demo[30] + b"\n"),
        "crawl-1.warc.gz": b"".join(map(gzip.compress, archived(range(3)))),
        "crawl/1.html": f"<article><p>{story}</p></article>".encode(),
        "queries.txt": b"1\n17\n",
        "corpus.txt.xz": lzma.compress(b"3\n18446744073709551615\n"),
        "mine.toml": b'base = "default"\n',
    }
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    for name, rows in {"pages": pages, "new": pages, "old": demo[30]}.items():
        texts = [json.loads(row)["text"] for row in rows.splitlines()]
        parquet.write_table(pyarrow.table({"text": texts}), tmp_path / f"{name}.parquet")
    return Program(tmp_path, cache)


def readable(line: bytes) -> bool:
    with contextlib.suppress(ValueError):
        return "text" in json.loads(line)
    return False


def test_commands_over_files_run_as_they_stand(shelf: Program) -> None:
    paths = [path for pattern in FOR_FILES for path in sorted(ROOT.glob(pattern))]
    calls = list(dict.fromkeys(line for path in paths for line in lines(path) if line.startswith("simstream ")))
    done = []
    for line in calls:
        if words(line)[0] not in ON_FILES or "HOST:PORT" in line or "s3://" in line:
            continue  # test_dedup_lake has a store
        arguments = [name for word in words(line) for name in glob.glob(word, root_dir=shelf.folder) or [word]]
        ended = shelf.run(*arguments)
        assert ended.returncode == 0, f"{line}: {ended.stderr.decode()}"
        if output := re.search(r" > (\S+)", line):
            (shelf.folder / output[1]).write_bytes(ended.stdout)
        done.append(words(line)[0])
    assert {"dedup", "fingerprint", "find-all", "find-clusters", "find-near", "explain", "tokens"} <= set(done)


@pytest.mark.parametrize("path", DOCUMENTS, ids=relative)
def test_the_command_line_takes_every_command_of_a_document(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    inline = [line for line in re.findall(r"`(simstream [a-z][^`\n]*)`", text) if not line.startswith("simstream.")]
    for line in [*filter(lambda line: line.startswith("simstream "), lines(path)), *inline]:
        arguments = [each for word in words(line) for each in PLACEHOLDERS.get(word, [word])]
        try:
            check_command(arguments)
        except click.MissingParameter:
            assert line in inline, line  # within a sentence a command may stand for all its calls
        except click.UsageError as error:
            raise AssertionError(f"{line}: {error.format_message()}") from error


@pytest.mark.parametrize("path", DOCUMENTS, ids=relative)
def test_what_a_document_names_is_there(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = {*re.findall(r"`make ([a-z-]+)", text), *re.findall(r"^make ([a-z-]+)", text, re.MULTILINE)}
    assert [target for target in sorted(targets) if f"\n{target}:" not in makefile] == []
    modules = set(re.findall(r"python -m ((?:tests|deploy|simstream)[\w.]*\w)", text))
    assert [name for name in sorted(modules) if importlib.util.find_spec(name) is None] == []
    named = set(re.findall(r"`((?:deploy|tests|stream|docs)/[\w/.-]+)`", text)) - {"stream/simstream/cli/NAME.py"}
    assert [name for name in sorted(named) if not (ROOT / name).exists()] == []


def test_what_can_go_wrong_names_scenarios_that_exist() -> None:
    text = (ROOT / "docs/operate/what-can-go-wrong.md").read_text(encoding="utf-8")
    rows = [line for line in text.splitlines() if line.startswith("| ") and "| what happens |" not in line]
    assert len(rows) > 60
    proofs = [row.split("|")[-2] for row in rows]
    assert [proof for proof in proofs if "`tests/" not in proof and "ONLY=" not in proof] == []
    named = {
        name
        for proof in proofs
        if "ONLY=" in proof
        for name in re.findall(r"`(?:make chaos )?(?:ONLY=)?([a-z_]+)`", proof)
    }
    assert named <= {scenario.name for scenario in SCENARIOS}
    assert {"kills", "zombies", "states", "backlog"} <= named


def test_the_browser_that_the_tests_need_comes_with_a_font_for_chinese() -> None:
    browsers = [line for line in lines(ROOT / "docs/how-to/install.md") if "chromium" in line]
    assert browsers
    assert all("fonts-noto-cjk" in line for line in browsers)
