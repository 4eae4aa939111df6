"""Parses amounts on the command line, such as 10M pages or 64GB of memory."""

from __future__ import annotations

import re
from typing import Final

from simstream.errors import UsageError

_AMOUNT: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?)([a-zA-Z]*)")
_COUNTS: Final = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "b": 10**9}
_BYTES: Final = {"": 1, "b": 1} | {
    f"{letter}{end}": 1 << 10 * n for n, letter in enumerate("kmgt", 1) for end in ("", "b", "ib")
}
MAX_VALUE: Final = 1 << 62


def count(option: str, text: str) -> int:
    """A number such as 250000, 1_000_000, 10M or 8G; raises UsageError."""
    return _amount(option, text, _COUNTS, "a number such as 250000, 10M or 8G")


def nbytes(option: str, text: str) -> int:
    """Bytes such as 512MB, 64GB or 1.5TB, each unit 1,024 of the one before; raises UsageError."""
    return _amount(option, text, _BYTES, "bytes such as 512MB or 64GB")


def _amount(option: str, text: str, units: dict[str, int], wanted: str) -> int:
    found = _AMOUNT.fullmatch(text.strip().replace("_", "").replace(",", ""))
    unit = units.get(found[2].lower()) if found else None
    # 30 digits are more than MAX_VALUE, and int() refuses thousands of them in another way.
    value = 0 if found is None or unit is None or len(text) > 30 else int(float(found[1]) * unit)
    if not 0 < value <= MAX_VALUE:
        raise UsageError(f"{option} {text[:40]!r} is no amount", f"give {wanted}")
    return value
