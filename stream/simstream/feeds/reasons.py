"""Says why the news page does not answer: a code and two sentences for each reason."""

from __future__ import annotations

from typing import Final

from simstream.errors import LogError, PageUnknown, SimstreamError, UsageError

REASONS: Final = {
    "story_gone": ("this story is not on the news page", "search for it: it may have left the window"),
    "page_gone": (
        "one of these pages is not on the news page",
        "load the story again: the page may have left the window",
    ),
    "record_gone": ("the topic `pages` no longer has the page", "keep the topic `pages` longer"),
    "record_replaced": ("another page is in its place now", "check whether the topic `pages` was created again"),
    "no_broker": ("no broker answers, so no text can be read", "ask again in a moment"),
    "late_texts": ("the texts could not be read in time", "ask again in a moment"),
    "many_comparisons": ("too many comparisons are under way", "ask again in a moment"),
    "many_searches": ("too many searches are under way", "ask again in a moment"),
}
"""What happened and what to do, by the reason's code."""
NO_ANSWER: Final = "no_answer"
READING: Final = "reading"
AWAY: Final = "away"
_KINDS: Final = (("bad_question", UsageError), ("unknown_page", PageUnknown), ("log", LogError))
_REFUSALS: Final = {401: "token", 403: "origin", 421: "host"}
_CODES: Final = {what: code for code, (what, _) in REASONS.items()}
FAILED: Final = "failed"
CODES: Final = (*REASONS, NO_ANSWER, READING, AWAY, *dict(_KINDS), *_REFUSALS.values(), FAILED)
"""All codes."""


def code_of(error: SimstreamError) -> str:
    """Return the code of an error: its own reason's, or that of its kind."""
    kinds = (code for code, kind in _KINDS if isinstance(error, kind))
    return _CODES.get(error.what) or next(kinds, FAILED)


def code_of_status(status: int) -> str:
    """Return the code of an answer that has only a status: a refusal's, or the general one."""
    return _REFUSALS.get(status, FAILED)
