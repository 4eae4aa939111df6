"""Spark in local mode: the same clusters as `dedup`, of files of several kinds, and of a DataFrame."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from importlib import resources
from pathlib import Path
from typing import Any

import pytest

from deploy.server_process import QUICK_JAVA
from simstream.text.recipe import PRESETS
from tests import corpora
from tests.archives import answer, warc
from tests.e2e.harness import ROOT, Program, environment
from tests.missing import skip_or_fail

pytest.importorskip("pyspark")
pq = pytest.importorskip("pyarrow.parquet")
PATIENCE_S = 500.0
"""A Java machine and its workers start, on a machine that others use too."""
QUICK_SPARK = {"SPARK_SUBMIT_OPTS": " ".join(QUICK_JAVA)}


@pytest.fixture(autouse=True, scope="module")
def java() -> None:
    """Skip where there is no Java; in CI, fail."""
    if shutil.which("java") is None:
        skip_or_fail("Spark needs: apt-get install openjdk-17-jre-headless")


def collection(folder: Path) -> list[str]:
    """Files of the demo's pages, of copies of some, and of an archive; where the corpora are, of news as well."""
    demo = (resources.files("simstream.sources") / "demo_pages.jsonl").read_bytes()
    pages = [json.loads(line) for line in demo.splitlines() if line.startswith(b'{"id"')]
    (folder / "demo.jsonl").write_bytes(demo)
    texts = [page for page in pages if isinstance(page.get("text"), str)]
    write(folder / "copies.jsonl", [{**page, "id": f"{page['id']}-copy"} for page in texts[::3]])
    bodies = (f"<p>{page['text']}</p>".encode() for page in texts[::5])
    archive = b"".join(warc(answer(body), number) for number, body in enumerate(bodies))
    (folder / "crawl.warc").write_bytes(archive[:-50])
    names = ["demo.jsonl", "copies.jsonl", "crawl.warc"]
    if corpora.folder() is not None:
        news = [{"id": str(number), "text": text} for number, text in enumerate(corpora.texts("zh_news_xwlb", 12))]
        for number in range(2):
            write(folder / f"news{number}.jsonl", news[number::2])
            names.append(f"news{number}.jsonl")
    return names


def write(path: Path, pages: list[dict[str, Any]]) -> None:
    path.write_text("".join(json.dumps(page) + "\n" for page in pages))


@pytest.mark.long
def test_a_collection_has_the_clusters_of_dedup(alone: Program, cache: Path, tmp_path: Path) -> None:
    names = collection(tmp_path)
    outputs = ("-o", "verdicts.jsonl", "--clusters", "clusters.jsonl")
    dedup = alone.run("dedup", *names, *outputs, "--distance", PRESETS["default"].distance)
    assert dedup.returncode == 1  # the archive breaks off
    found = [json.loads(line) for line in (tmp_path / "clusters.jsonl").read_bytes().splitlines()]
    expected = {(group["canonical"], frozenset(group["pages"])) for group in found}
    assert len(expected) > 20

    program = alone.run("spark", "--program").stdout.decode().strip()
    arguments = (*names, "-o", "out")
    done = subprocess.run(
        [Path(sys.executable).with_name("spark-submit"), "--master", "local[2]", program, *arguments],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        cwd=tmp_path,
        env=environment(cache, PYSPARK_PYTHON=sys.executable, **QUICK_SPARK),
        timeout=PATIENCE_S,
        check=False,
    )
    said = (done.stdout + done.stderr).decode()  # spark-submit makes one stream of both
    groups: dict[int, set[str]] = {}
    canonical = {}
    for row in pq.read_table(tmp_path / "out" / "clusters").to_pylist():
        groups.setdefault(row["cluster"], set()).add(row["id"])
        canonical[row["cluster"]] = row["canonical"]
    assert {(canonical[cluster], frozenset(group)) for cluster, group in groups.items()} == expected, said
    assert f"{len(expected)} clusters in out" in said
    assert done.returncode == 1
    assert "crawl.warc is damaged" in said
    assert re.search(r"\(pages of it that were read: \d+\): get these files again", said)


def without_this_python(env: dict[str, str]) -> dict[str, str]:
    """An environment whose `python3` is another one, as where no virtual environment is active."""
    here = str(Path(sys.executable).parent)
    path = os.pathsep.join(one for one in env["PATH"].split(os.pathsep) if one != here)
    assert shutil.which("python3", path=path) not in (None, sys.executable)
    return env | {"PATH": path}


@pytest.mark.long
def test_a_frame_has_the_clusters_of_dedup(alone: Program, cache: Path, tmp_path: Path) -> None:
    demo = (resources.files("simstream.sources") / "demo_pages.jsonl").read_bytes()
    pages = [json.loads(line) for line in demo.splitlines() if line.startswith(b'{"') and line.endswith(b"}")]
    pages = [page for page in pages if isinstance(page.get("text", ""), str) and page.get("url")]
    pages += [{**page, "id": f"{page.get('id')}{number}"} for number, page in enumerate(pages) if number % 3 == 0]
    for second, page in enumerate(pages):
        page |= {"id": page.get("id") or page["url"], "time": second + 1}
        page |= {"address": page["id"], "body": page.get("text"), "odd.one": "x"}
    write(tmp_path / "pages.jsonl", pages)
    write(tmp_path / "ms.jsonl", [{**page, "time": page["time"] * 1000} for page in pages])
    options = ("-o", "verdicts.jsonl", "--final", "--versions", "--distance", PRESETS["default"].distance)
    alone.dedup("ms.jsonl", *options)
    verdicts = [json.loads(line) for line in (tmp_path / "verdicts.jsonl").read_bytes().splitlines()]
    failed = {page["time"] * 1000 for page in pages if page.get("status", 200) >= 500}
    last = {row["id"]: row for row in verdicts if row["time"] not in failed}  # a failed fetch is no version
    (tmp_path / "spark-defaults.conf").write_text(
        "spark.master local[2]\nspark.sql.shuffle.partitions 3\nspark.ui.enabled false\n"
        "spark.driver.host 127.0.0.1\nspark.driver.bindAddress 127.0.0.1\n"
    )
    [document] = re.findall(r"```python\n(.*?)```", (ROOT / "docs/how-to/spark.md").read_text(), re.DOTALL)
    script, example = Path(__file__).with_name("spark_frames.py"), ROOT / "examples" / "spark_frames.py"
    done = subprocess.run(
        [sys.executable, script, "pages.jsonl", "found", document, example, "unique"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        cwd=tmp_path,
        env=without_this_python(environment(cache, SPARK_CONF_DIR=str(tmp_path), **QUICK_SPARK)),
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()[-5000:]
    said = done.stdout.decode()
    found = {row.pop("id"): row for row in pq.read_table(tmp_path / "found").to_pylist()}
    assert found.keys() == last.keys()
    for name, row in last.items():
        assert found[name]["canonical"] == row["final_canonical"], (name, row, found[name])
        assert found[name]["cluster_size"] == row["final_size"], (name, row, found[name])
        word = {"unchanged": "new"}.get(row["verdict"], row["verdict"])
        if row["final_canonical"] is not None:
            word = "new" if row["final_canonical"] == name else "near_duplicate"
        assert found[name]["verdict"] == word, (name, row)
    assert sum(row["verdict"] == "near_duplicate" for row in found.values()) > 40
    assert "no id: the DataFrame has no column id or url" in said
    assert "no text: the DataFrame has no column text or html: name it with text_field; it has " in said
    assert "two names: Spark does not tell the columns id and ID apart: rename one of them\n" in said
    assert "a day: the column time has values of the type duration[us] that cannot be read: leave " in said
    assert re.search(r"a month: the DataFrame cannot be read as Arrow \(.*YearMonthInterval.*\): leave ", said)
    assert re.search(r"no time: 2 rows have the id '.+', and there is no column time", said)
    assert "rows of two calls at once: 1 2\n" in said
    assert "rows of a later call: 3\n" in said
    assert "kept besides its result: 0\n" in said
    assert "by other names: True" in said
    assert re.search(r"\d+ of \d+ pages kept in unique", said)
    kept = pq.read_table(tmp_path / "unique")
    assert 20 < kept.num_rows < len(last)


@pytest.mark.long
def test_a_field_that_no_page_has_is_told_as_dedup_tells_it(alone: Program, tmp_path: Path) -> None:
    write(tmp_path / "p.jsonl", [{"id": "a", "body": "x"}])
    dedup = alone.run("dedup", "p.jsonl", "-o", "verdicts.jsonl")
    done = alone.run("spark", "p.jsonl", "-o", "out")
    assert dedup.returncode == done.returncode == 2
    assert done.stderr.splitlines()[-1] == dedup.stderr.splitlines()[-1]
