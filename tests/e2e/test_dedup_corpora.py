"""`dedup` over real pages, checked by a quadratic look at what it printed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests import corpora

pytestmark = pytest.mark.corpora
GOOGLE_DISTANCE = 3


def dedup(tmp_path: Path, *arguments: str) -> list[dict]:
    out = tmp_path / "verdicts.jsonl"
    command = [sys.executable, "-m", "simstream", "dedup", *arguments, "-o", str(out)]
    subprocess.run(command, check=True, timeout=300)
    return [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()]


def test_every_news_page_gets_one_verdict_in_order_and_google2007_agrees_with_a_quadratic_check(tmp_path) -> None:
    news = corpora.folder() / "zh_news_xwlb" / "docs.jsonl.xz"
    verdicts = dedup(tmp_path, "--recipe", "google2007", str(news))
    assert [v["id"] for v in verdicts] == [page["id"] for page in corpora.docs("zh_news_xwlb", 1)]
    assert [v["ordinal"] for v in verdicts] == list(range(len(verdicts)))
    prints = np.array([int(v["fingerprint"] or "0", 16) for v in verdicts], np.uint64)
    live = np.array([v["fingerprint"] is not None for v in verdicts])
    found = 0
    for i, verdict in enumerate(verdicts):
        if verdict["fingerprint"] is None:
            assert verdict["verdict"] == "too_short"
            continue
        distances = np.bitwise_count(prints[:i] ^ prints[i]).astype(np.int64)
        distances[~live[:i]] = 99
        if i and distances.min() <= GOOGLE_DISTANCE:
            closest = int(distances.argmin())  # the earliest of the least distance
            expected = ("near_duplicate", verdicts[closest]["id"], int(distances[closest]))
            found += 1
        else:
            expected = ("new", None, None)
        assert (verdict["verdict"], verdict["near_duplicate_of"], verdict["distance"]) == expected
    assert found > 100


def test_each_gb18030_copy_of_a_page_has_the_fingerprint_of_its_utf_8_original(tmp_path) -> None:
    html = corpora.folder() / "html_pages"
    verdicts = {v["id"]: v for v in dedup(tmp_path, str(html))}
    manifest = html / "zh_html_encodings" / "manifest.jsonl"
    pairs = 0
    for line in manifest.read_text(encoding="utf-8").splitlines():
        entry = json.loads(line)
        if original := entry.get("dup_of"):
            copy = verdicts[str(html / "zh_html_encodings" / entry["file"])]
            twin = next(v for key, v in verdicts.items() if key.endswith(original.split("/")[-1]) and "gne/" in key)
            assert copy["fingerprint"] == twin["fingerprint"], entry["file"]
            pairs += copy["fingerprint"] is not None
    assert pairs >= 50
