"""The Spark job in local mode: the same clusters as `dedup`, of files of several kinds."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from importlib import resources
from pathlib import Path
from typing import Any

import pytest

from simstream.text.recipe import PRESETS
from tests import corpora
from tests.archives import answer, warc
from tests.e2e.harness import Program, command_line, environment

pytest.importorskip("pyspark")
pq = pytest.importorskip("pyarrow.parquet")
PATIENCE_S = 500.0
"""A Java machine and its workers start, on a machine that others use too."""


@pytest.fixture(autouse=True, scope="module")
def java() -> None:
    """Skip where there is no Java; in CI, fail."""
    if shutil.which("java") is None:
        advice = "Spark needs: apt-get install openjdk-17-jre-headless"
        if os.environ.get("CI") == "true":
            pytest.fail(advice)
        pytest.skip(advice)


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

    arguments = ("spark", *names, "-o", "out", "--master", "local[2]")
    done = subprocess.run(
        command_line(*arguments),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        cwd=tmp_path,
        env=environment(cache),
        timeout=PATIENCE_S,
        check=False,
    )
    said = done.stderr.decode()
    groups: dict[int, set[str]] = {}
    canonical = {}
    for row in pq.read_table(tmp_path / "out" / "clusters").to_pylist():
        groups.setdefault(row["cluster"], set()).add(row["id"])
        canonical[row["cluster"]] = row["canonical"]
    assert {(canonical[cluster], frozenset(group)) for cluster, group in groups.items()} == expected, said
    assert f"{len(expected)} clusters in out" in said
    assert done.returncode == 1
    assert "crawl.warc is damaged" in said
    assert "pages of it were read: get these files again" in said
