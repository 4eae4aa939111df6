"""`dedup` from and to an object store: the same bytes as with local files, whole or not at all."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from simstream.cli.dedup_outputs import FurtherOutputs
from simstream.cli.main import invoke
from simstream.files.zstandard import zstd
from tests.archives import PACKINGS, answer, warc
from tests.e2e.harness import ROOT, Program, command_line, environment
from tests.e2e.test_readme import lines, words
from tests.object_store import SECRET, WebServer, object_store, variables
from tests.waiting import until

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")
s3fs = pytest.importorskip("s3fs")
pytest.importorskip("moto")

DICE = random.Random(3)
WORDS = [f"word{number}" for number in range(3000)]
FIRST = [" ".join(DICE.choices(WORDS, k=120)) for _ in range(150)]
TEXTS = [*FIRST, *(f"{text} and more" for text in FIRST[::3])]
PAGES = [{"id": f"page-{number}", "text": text} for number, text in enumerate(TEXTS)]


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    with object_store(tmp_path_factory.mktemp("store")) as port:
        yield port


@pytest.fixture
def bucket(port: int, monkeypatch: pytest.MonkeyPatch) -> tuple[Any, str]:
    """The store, and the name of a new bucket."""
    for name, value in variables(port).items():
        monkeypatch.setenv(name, value)
    store = s3fs.S3FileSystem(use_listings_cache=False, skip_instance_cache=True)
    store.mkdir(name := f"lake-{time.monotonic_ns()}")
    return store, name


def write(folder: Path, ending: str) -> list[Path]:
    """Three files with the pages."""
    paths = [folder / f"part-{part}{ending}" for part in range(3)]
    for part, path in enumerate(paths):
        pages = PAGES[part::3]
        if ending == ".parquet":
            pq.write_table(pa.Table.from_pylist(pages), path, row_group_size=20)
        elif ending == ".warc.gz":
            answers = [answer(b"<p>" + page["text"].encode()) for page in pages]
            path.write_bytes(PACKINGS["gzip"](warc(one, 3 * n + part) for n, one in enumerate(answers)))
        else:
            lines = "".join(json.dumps(page) + "\n" for page in pages).encode()
            path.write_bytes(zstd.compress(lines))
    return paths


@pytest.mark.parametrize("ending", [".parquet", ".jsonl.zst", ".warc.gz"])
def test_files_of_a_store_give_the_bytes_that_local_files_give(
    alone: Program, bucket: tuple[Any, str], ending: str
) -> None:
    store, name = bucket
    (alone.folder / "in").mkdir()
    for path in write(alone.folder / "in", ending):
        store.put_file(str(path), f"{name}/in/{path.name}")
    outputs = ["-o", "v.jsonl", "--pairs", "p.parquet", "--clusters", "c.jsonl.gz", "--keep", f"keep{ending}"]
    assert (done := alone.run("dedup", f"in/*{ending}", *outputs)).returncode == 0, done.stderr
    remote = [f"s3://{name}/out/{word}" if "." in word else word for word in outputs]
    done = alone.run("dedup", f"s3://{name}/in/*{ending}", *remote)
    assert done.returncode == 0, done.stderr
    assert f"verdicts in s3://{name}/out/v.jsonl".encode() in done.stderr
    for place, local in zip(remote, outputs, strict=True):
        if "." in local:
            there = store.cat_file(place).replace(f"s3://{name}/".encode(), b"")
            assert there == (alone.folder / local).read_bytes(), local
    assert b'"near_duplicate"' in (alone.folder / "v.jsonl").read_bytes()


def test_the_addresses_of_html_files_are_listed(alone: Program, bucket: tuple[Any, str]) -> None:
    store, name = bucket
    for number, page in enumerate((PAGES[0], PAGES[0], PAGES[1])):
        store.pipe_file(f"{name}/html/{number}.html", f"<p>{page['text']}".encode())
    done = alone.run("dedup", f"s3://{name}/html/*.html", "-o", "v.jsonl", "--keep", f"s3://{name}/kept.txt")
    assert done.returncode == 0, done.stderr
    listed = store.cat_file(f"{name}/kept.txt").decode().splitlines()
    assert listed == [f"s3://{name}/html/{number}.html" for number in (0, 2)]
    web = WebServer()
    web.body = b"<p>A page."
    try:
        done = alone.run("dedup", web.address("plain/a.html?key=1"), "--keep", "kept.txt")
    finally:
        web.close()
    assert done.returncode == 2
    assert b"/plain/a.html: a part of this address may be secret" in done.stderr


def test_a_run_over_a_store_goes_on_and_refuses_a_file_that_has_changed(
    alone: Program, cache: Path, bucket: tuple[Any, str], monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    store, name = bucket
    monkeypatch.chdir(alone.folder)
    monkeypatch.setenv("SIMSTREAM_CACHE", str(cache))
    for part in range(4):
        pages = ({"id": f"{part}-{n}", "text": f"{TEXTS[n % 200]} {part} {n}"} for n in range(400))
        store.pipe_file(f"{name}/{part}.jsonl", b"".join(json.dumps(page).encode() + b"\n" for page in pages))
    command = ["dedup", f"s3://{name}/*.jsonl", "-o", f"s3://{name}/v.json", "--keep", "k.jsonl"]
    assert invoke(command) == 0
    expected = store.cat_file(f"{name}/v.json"), Path("k.jsonl").read_bytes()
    store.rm_file(f"{name}/v.json")
    command += ["--state", "state"]
    real, calls = FurtherOutputs.note_pages, [0]

    def stopped(*given: Any) -> None:
        calls[0] += 1
        if calls[0] in (3, 5):
            raise KeyboardInterrupt
        real(*given)

    monkeypatch.setattr(FurtherOutputs, "note_pages", stopped)
    assert [invoke(command) for _ in range(2)] == [130, 130]
    assert not store.exists(f"{name}/v.json")
    assert invoke(command) == 0
    assert (store.cat_file(f"{name}/v.json"), Path("k.jsonl").read_bytes()) == expected
    calls[0] = 0
    assert invoke(command) == 130
    store.pipe_file(f"{name}/3.jsonl", store.cat_file(f"{name}/3.jsonl") + b"\n")
    assert invoke(command) == 1
    assert f"with the input s3://{name}/3.jsonl, which has changed since" in capsys.readouterr().err


def test_a_run_that_is_killed_leaves_nothing_in_the_store(
    alone: Program, cache: Path, bucket: tuple[Any, str]
) -> None:
    store, name = bucket
    environ = environment(cache, TMPDIR=str(alone.folder))
    command = command_line("dedup", "-", "-o", f"s3://{name}/v.jsonl")
    with subprocess.Popen(command, stdin=subprocess.PIPE, cwd=alone.folder, env=environ) as run:
        assert run.stdin is not None
        run.stdin.write(b"".join(json.dumps(page).encode() + b"\n" for page in PAGES))
        run.stdin.flush()
        until(lambda: list(alone.folder.glob("simstream-*/v.jsonl.part")), "the output is begun")
        run.kill()
    assert store.find(name) == []
    [left] = alone.folder.glob("simstream-*/v.jsonl.part")
    done = subprocess.run(command, input=b"", cwd=alone.folder, env=environ, capture_output=True, check=True)
    assert f"simstream: {left} is of a killed command".encode() in done.stderr
    assert store.find(name) == [f"{name}/v.jsonl"]
    whole = left.rename(left.with_suffix(""))
    done = subprocess.run(command, input=b"", cwd=alone.folder, env=environ, capture_output=True, check=True)
    assert f"simstream: {whole} is whole, but its command was killed".encode() in done.stderr


def test_an_input_that_breaks_off_leaves_the_output_as_it_was(alone: Program, bucket: tuple[Any, str]) -> None:
    store, name = bucket
    store.pipe_file(f"{name}/v.jsonl", b"of an earlier run")
    web = WebServer()
    web.body = b"".join(json.dumps(page).encode() + b"\n" for page in PAGES)
    try:
        done = alone.run("dedup", web.address("short/p.jsonl?X-Amz-Signature=s"), "-o", f"s3://{name}/v.jsonl")
    finally:
        web.close()
    assert done.returncode == 1
    assert b"/short/p.jsonl cannot be read: 4 attempts failed" in done.stderr
    assert b"Signature" not in done.stderr
    assert done.stderr.count(b"\n") == 1
    assert store.cat_file(f"{name}/v.jsonl") == b"of an earlier run"


def test_ctrl_c_ends_a_run_whose_files_come_slowly_and_leaves_its_outputs(alone: Program, cache: Path) -> None:
    web = WebServer()
    web.body = b"".join(json.dumps(page).encode() + b"\n" for page in PAGES) * 3
    addresses = [web.address("ranged/a.jsonl"), *(web.address(f"stalling/{number}.jsonl") for number in range(9))]
    (alone.folder / "v.jsonl").write_bytes(b"of an earlier run")
    command = command_line("dedup", *addresses, "-o", "v.jsonl")
    try:
        with subprocess.Popen(command, stderr=subprocess.PIPE, cwd=alone.folder, env=environment(cache)) as run:
            assert web.stalled.wait(60)
            run.send_signal(signal.SIGINT)
            _, said = run.communicate(timeout=60)
    finally:
        web.close()
    assert (run.returncode, said.strip()) == (130, b"simstream: interrupted")
    assert [(path.name, path.read_bytes()) for path in alone.folder.iterdir()] == [
        ("v.jsonl", b"of an earlier run")
    ]


def test_a_store_that_refuses_or_breaks_off_ends_with_one_line_without_a_secret(
    alone: Program, bucket: tuple[Any, str]
) -> None:
    web = WebServer()
    web.body = b'{"text":"a"}\n' * 1000
    try:
        endpoint = web.address("")
        refused = alone.run("dedup", "s3://refused/p.jsonl", AWS_ENDPOINT_URL=endpoint)
        missing = alone.run("dedup", f"s3://{bucket[1]}/p.jsonl")
        broken = alone.run("dedup", "s3://short/p.jsonl", "-o", "v.jsonl", AWS_ENDPOINT_URL=endpoint)
    finally:
        web.close()
    assert (refused.returncode, missing.returncode, broken.returncode) == (2, 2, 1)
    assert b"s3://refused/p.jsonl cannot be read (Forbidden)" in refused.stderr
    assert f"s3://{bucket[1]}/p.jsonl does not exist".encode() in missing.stderr
    assert b"s3://short/p.jsonl broke off at byte" in broken.stderr
    for done in (refused, missing, broken):
        assert done.stderr.count(b"\n") == 1, done.stderr
        assert SECRET.encode() not in done.stderr
    assert os.listdir(alone.folder) == []


def test_a_file_that_the_store_does_not_take_stays_on_the_disk_and_so_do_all_others(
    alone: Program, cache: Path, bucket: tuple[Any, str]
) -> None:
    store, name = bucket
    environ = environment(cache, TMPDIR=str(alone.folder))
    command = command_line("dedup", "-", "-o", "v.jsonl", "--pairs", f"s3://{name}/pairs.jsonl")
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stderr=subprocess.PIPE, cwd=alone.folder, env=environ
    ) as run:
        until(lambda: list(alone.folder.glob("simstream-*/pairs.jsonl.part")), "the pairs are begun")
        store.rmdir(name)
        _, said = run.communicate(b"".join(json.dumps(page).encode() + b"\n" for page in PAGES), 60)
    assert run.returncode == 1
    [whole] = alone.folder.glob("simstream-*/pairs.jsonl")
    assert said.count(b"\n") == 1
    assert f"the whole file is {whole}".encode() in said
    assert len(whole.read_bytes().splitlines()) == 50
    assert len((alone.folder / "v.jsonl").read_bytes().splitlines()) == len(PAGES)


def test_the_walk_of_the_document_runs_as_it_stands(alone: Program, bucket: tuple[Any, str]) -> None:
    store, _ = bucket
    store.mkdir("corpus")
    for path in write(alone.folder, ".parquet"):
        store.put_file(str(path), f"corpus/pages/{path.name}")
    calls = [line for line in lines(ROOT / "docs/how-to/object-storage.md") if line.startswith("simstream dedup")]
    for call in calls:
        done = alone.run(*words(call))
        assert done.returncode == 0, done.stderr
    kept, verdicts = (pq.read_table(store.open(f"corpus/{name}.parquet")) for name in ("unique", "verdicts"))
    assert (kept.num_rows, verdicts.num_rows) == (150, 200)
    assert set(verdicts["final_size"].to_pylist()) == {1, 2}
    said = f"simstream: {kept.num_rows:,} of {verdicts.num_rows:,} pages kept; left out: 50 like a kept page"
    assert said.encode() in done.stderr


def test_other_commands_read_addresses_too(alone: Program, bucket: tuple[Any, str]) -> None:
    store, name = bucket
    lines = [json.dumps(page).encode() for page in PAGES[:10]]
    (alone.folder / "p.jsonl").write_bytes(b"\n".join(lines))
    store.pipe_file(f"{name}/p.jsonl", b"\n".join(lines))
    here, there = (alone.run("fingerprint", path) for path in ("p.jsonl", f"s3://{name}/*.jsonl"))
    assert here.stdout == there.stdout != b""
