"""Reads the stop-word lists and weight tables that a recipe names, shipped or a user's own."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Final

from simstream.errors import InputError, InputMissing

SHIPPED: Final = ("zh", "en", "web")
"""Stop words of Chinese and English, and remains of addresses and markup: `tables/stop_zh.txt`,
`tables/stop_en.txt`."""
MAX_IDF: Final = 700.0
"""The greatest weight. Beyond it a share of pages underflows to 0."""
_TABLES: Final = Path(__file__).parent / "tables"


def read_content(name: str) -> bytes:
    """Return the bytes of a file, or of the shipped list of this name. Raises InputMissing."""
    path = _TABLES / f"stop_{name}.txt" if name in SHIPPED else Path(name)
    try:
        return path.read_bytes()
    except OSError as error:
        shipped = "" if path.suffix else f", or use a shipped list of stop words: {', '.join(SHIPPED)}"
        raise InputMissing(
            f"{path} cannot be read ({error.strerror})", f"correct its path in the recipe{shipped}"
        ) from error


def content_digest(name: str) -> str:
    """Return 16 hex digits over the content of a file or a shipped list. Raises InputMissing."""
    return blake2b(read_content(name), digest_size=8).hexdigest()


def stop_words(names: Sequence[str]) -> list[str]:
    """Return the words of files and shipped lists, one a line. Skips empty lines and lines that begin with #.

    Raises InputMissing if a file cannot be read, and InputError if one is not UTF-8.
    """
    lines = [line.strip() for name in names for line in _text(name, read_content(name)).splitlines()]
    return [line for line in lines if line and not line.startswith("#")]


def idf_rows(name: str, content: bytes) -> list[tuple[str, float]]:
    """Yield word and inverse document frequency of each line of a table in jieba's format.

    Raises InputError for the first line in another format, or if there is no line at all.
    """
    rows = []
    for number, line in enumerate(_text(name, content).split("\n"), 1):
        word, _, text = line.strip().rpartition(" ")
        if not word and not text:
            continue
        idf = _number(text)
        if not word or idf is None:
            raise InputError(
                f"line {number} of {name} is not a word with a weight", "write both, with a space between"
            )
        rows.append((word, idf))
    if not rows:
        raise InputError(f"{name} has no weights", "give one word and its weight a line")
    return rows


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if abs(value) <= MAX_IDF else None


def _text(name: str, content: bytes) -> str:
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{name} is not UTF-8", "write it in UTF-8") from error
