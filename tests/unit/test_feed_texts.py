"""Two texts side by side: rows hold all of both, begin together, and a text that cannot be read is given up."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from simstream.errors import LogError
from simstream.feeds import comparison
from simstream.feeds.comparison import PageTexts, side_by_side
from simstream.model import Record
from simstream.wire.page import PageLimits

TEXT = st.lists(
    st.sampled_from(["One is here. ", "Two! ", "三。", "四，五。", "six 6.5 ", "\n", "Seven;", "eight "]),
    max_size=40,
).map("".join)


def whole(pieces: list[dict[str, Any]]) -> str:
    return "".join(piece["text"] for piece in pieces)


@given(TEXT, TEXT)
@example("三。One.", "三。\nOne.")
def test_rows_hold_both_texts_and_rows_without_a_difference_are_equal(a: str, b: str) -> None:
    rows = side_by_side(a, b)["rows"]
    assert "".join(whole(row["a"]) for row in rows) == a
    assert "".join(whole(row["b"]) for row in rows) == b
    for row in rows:
        if row["same"]:
            assert not any(piece["differs"] for piece in row["a"] + row["b"])
            assert "".join(whole(row["a"]).split()) == "".join(whole(row["b"]).split())


def test_a_new_row_begins_after_the_sentence_in_which_a_change_ends() -> None:
    rows = side_by_side("A one. B two. C three. D four. E five.", "A one. B 2. C three. D four. New. E five.")[
        "rows"
    ]
    assert [(row["same"], whole(row["a"]), whole(row["b"])) for row in rows] == [
        (True, "A one. ", "A one. "),
        (False, "B two. ", "B 2. "),
        (True, "C three. ", "C three. "),
        (False, "D four. ", "D four. New. "),
        (True, "E five.", "E five."),
    ]


class SilentLog:
    """A log whose broker went away after it had said where the topic ends."""

    def end_offsets(self, topic: str) -> dict[int, int]:
        return {0: 10}

    def open_reader(self, topic: str, start: int) -> Any:
        return self

    def __enter__(self) -> SilentLog:
        return self

    def __exit__(self, *_: object) -> None: ...

    def passed(self, ends: Any) -> bool:
        return False

    def poll(self, limit: int, timeout: float) -> list[Any]:
        return []


class OneRecordLog(SilentLog):
    """A log with one page."""

    def __init__(self, text: str) -> None:
        self._value = json.dumps({"id": "a", "text": text}).encode()

    def poll(self, limit: int, timeout: float) -> list[Any]:
        return [Record("pages", 0, 3, None, self._value)]


def test_texts_with_half_a_surrogate_pair_are_compared() -> None:
    log: Any = OneRecordLog("One is here. \ud800 Two is \ude00 here.")
    version: Any = SimpleNamespace(source="0/3")
    [row] = PageTexts(log, PageLimits(1 << 20)).compare(("a", version), ("a", version))["rows"]
    assert whole(row["a"]) == "One is here. \ufffd Two is \ufffd here."
    assert msgspec.json.encode(row)


def test_a_text_that_no_broker_gives_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(comparison, "READ_S", 0.1)
    log: Any = SilentLog()
    version: Any = SimpleNamespace(source="0/3")
    with pytest.raises(LogError, match="in time"):
        PageTexts(log, PageLimits(1 << 20)).compare(("a", version), ("b", version))
