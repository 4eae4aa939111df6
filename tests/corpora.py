"""The evaluation corpora as tests read them: texts of the folder that SIMSTREAM_CORPORA names."""

from __future__ import annotations

import json
import lzma
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

REVISIONS = ("zh_news_xwlb", "zh_lctt_revisions", "zh_msdocs_revisions")
"""The corpora of pages, 48,000 in all; each has a `docs.jsonl.xz`."""


def folder() -> Path | None:
    """Where the corpora lie; None where SIMSTREAM_CORPORA is not set or names no folder."""
    named = os.environ.get("SIMSTREAM_CORPORA", "")
    return Path(named) if named and Path(named).is_dir() else None


def docs(name: str, step: int = 1) -> Iterator[dict[str, Any]]:
    """Every `step`-th page of one corpus. Raises FileNotFoundError without the corpora."""
    root = folder()
    if root is None:
        raise FileNotFoundError("SIMSTREAM_CORPORA names no folder")
    with lzma.open(root / name / "docs.jsonl.xz", "rt", encoding="utf-8") as lines:
        for number, line in enumerate(lines):
            if number % step == 0:
                yield json.loads(line)


def texts(name: str, step: int = 1) -> Iterator[str]:
    """The texts of `docs`."""
    for doc in docs(name, step):
        yield doc["text"]
