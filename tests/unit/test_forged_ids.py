"""Ids that were made to collide under MurmurHash3: each stays a page of its own."""

from __future__ import annotations

import json
from hashlib import blake2b
from pathlib import Path

import mmh3
import pytest

from simstream import Deduper
from simstream.cli.main import invoke
from simstream.wire.identity_hash import identity_of

VICTIM = "https://victim.example/news/2026/03/02/bridge-reopens"
FORGED = "https://evil.example/p?q=aaaaaaabJ_k4T@O8uYa+IVk@ETT8Q~~'24ZwAo:"
"""Found in 18 s on one core."""
STORY = (
    "The night train stops at the mill village again after forty years, and the baker opens before dawn for it. "
    "Two volunteers have swept the platform, mended the clock and painted the bench by the waiting room green."
)
SPAM = "Cheap pills and casino bonus codes: buy seven products today, free delivery, best prices, no prescription."


def test_an_identity_is_the_blake2b_of_the_id() -> None:
    assert mmh3.hash_bytes(VICTIM, 0, True) == mmh3.hash_bytes(FORGED, 0, True), "the attack on format 1"
    assert identity_of(VICTIM.encode()) == blake2b(VICTIM.encode(), digest_size=16).digest()
    assert identity_of(VICTIM.encode()) != identity_of(FORGED.encode())


@pytest.mark.parametrize(
    "forged",
    [
        {"text": "", "status": 404},
        {"text": SPAM},
        {"text": STORY},
    ],
    ids=["gone", "another text", "the same text"],
)
def test_a_forged_id_cannot_withdraw_replace_or_succeed_its_victim(cache: Path, forged: dict) -> None:
    with Deduper(cache=cache, workers=0) as deduper:
        deduper.judge([{"url": VICTIM, "text": STORY}])
        [attack] = deduper.judge([{"url": FORGED, **forged}])
        [mirror] = deduper.judge([{"url": "https://mirror.example/1", "text": STORY}])
    assert attack.verdict != "unchanged"
    assert (mirror.verdict, mirror.near_duplicate_of, mirror.canonical) == ("near_duplicate", VICTIM, VICTIM)


def test_keep_writes_the_victims_line(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SIMSTREAM_CACHE", str(cache))
    lines = [{"id": VICTIM, "text": STORY}, {"id": FORGED, "text": SPAM}]
    source, kept = tmp_path / "pages.jsonl", tmp_path / "kept.jsonl"
    source.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert invoke(["dedup", str(source), "--keep", str(kept), "-o", str(tmp_path / "verdicts.jsonl")]) == 0
    assert [json.loads(line) for line in kept.read_text().splitlines()] == lines
