"""Judges the pages of a body of lines (NDJSON): a verdict or an error for each line, in the order of the lines."""

from __future__ import annotations

import asyncio
import codecs
import json
from collections import deque
from collections.abc import AsyncIterator, Sequence
from typing import Any, Final

import msgspec
from fastapi.routing import APIRoute
from pydantic import ValidationError
from starlette.routing import Match

from simstream.errors import RecordTooLarge, SettingsError, SimstreamError, UsageError, VerdictLate
from simstream.queries.models import PageToJudge
from simstream.queries.request_bodies import NDJSON, explain_errors, has_few_values, media_type_of
from simstream.queries.verdict_caller import VerdictCaller

MAX_LINES: Final = 1_000
"""The most pages in one body."""
AT_ONCE: Final = 256
"""The most pages of one body that wait for their verdicts at once: it leaves room for other callers."""
MAX_STRINGS: Final = 64
"""The most strings of a line, names of fields among them. A page has 14 at most."""
MAX_OUTSIDE_BYTES: Final = 4096
"""The most bytes of a line outside of strings."""
_NO_OBJECT: Final = frozenset({"model_type", "model_attributes_type", "dict_type"})
"""Pydantic's errors for a value that is no object."""
_encode = msgspec.json.encode


class NdjsonRoute(APIRoute):
    """A route for bodies of lines alone."""

    def matches(self, scope: Any) -> tuple[Match, Any]:
        match, more = super().matches(scope)
        return (match, more) if media_type_of(scope) == NDJSON else (Match.NONE, {})


def page_lines(body: bytes) -> list[tuple[int, bytes]]:
    """Return the lines that are not blank, with their numbers from 1. Raises UsageError for more than MAX_LINES."""
    body = body.removeprefix(codecs.BOM_UTF8)
    if body.count(b"\n") > 2 * MAX_LINES:
        raise _too_many()
    lines = [(number, line) for number, line in enumerate(body.split(b"\n"), 1) if line.strip()]
    if len(lines) > MAX_LINES:
        raise _too_many()
    return lines


async def judge_lines(
    lines: Sequence[tuple[int, bytes]], judge: VerdictCaller, timeout: float
) -> AsyncIterator[bytes]:
    """Yield a line of JSON for each page, in order: its verdict, or `line`, `status` and `detail` of its error.

    Each page has `timeout` seconds from when it is sent. If the reader leaves, no more pages are sent.
    """
    waiting: deque[asyncio.Task[bytes]] = deque()
    try:
        for number, line in lines:
            waiting.append(asyncio.create_task(_judged(number, line, judge, timeout)))
            if len(waiting) == AT_ONCE:
                yield await _ready(waiting)
        while waiting:
            yield await _ready(waiting)
    finally:
        for task in waiting:
            task.cancel()


async def _ready(waiting: deque[asyncio.Task[bytes]]) -> bytes:
    """Wait for the first answer, and take all that follow it without a gap."""
    done = [await waiting[0]]
    waiting.popleft()
    while waiting and waiting[0].done():
        done.append(waiting.popleft().result())
    return b"".join(done)


async def _judged(number: int, line: bytes, judge: VerdictCaller, timeout: float) -> bytes:
    if not has_few_values(line, MAX_STRINGS, MAX_OUTSIDE_BYTES):
        return _problem(number, 422, "the line has too many values for a page: leave them out")
    try:
        page = _page_of(line)
        verdict = await judge.judge(page.model_dump(exclude_none=True), timeout)
    except ValidationError as error:
        errors = error.errors(include_url=False, include_context=False, include_input=False)
        return _problem(number, 422, explain_bad_page(errors))
    except SimstreamError as error:
        return _problem(number, status_of(error), detail_of(error))
    return _encode(verdict) + b"\n"


def _page_of(line: bytes) -> PageToJudge:
    """Return the page of a line. Raises ValidationError."""
    try:
        return PageToJudge.model_validate_json(line)
    except ValidationError as error:
        if error.errors(include_input=False, include_url=False)[0]["type"] != "json_invalid":
            raise
        try:
            tree = json.loads(line.decode())  # it takes lone surrogates, as the topic does
        except (ValueError, RecursionError):
            raise error from None
    return PageToJudge.model_validate(tree)


def explain_bad_page(errors: Sequence[Any]) -> str:
    """Return a sentence about pydantic's errors for a page. It repeats nothing that the client sent."""
    if any(one["type"] == "extra_forbidden" for one in errors):
        return f"a page has no other fields than {', '.join(PageToJudge.model_fields)}: leave them out"
    if any(one["type"] == "json_invalid" for one in errors):
        return "the page is no JSON"
    if any(one["type"] in _NO_OBJECT or not one["loc"] for one in errors):
        return f"a page is one JSON object: send several as {NDJSON}, one on each line"
    return explain_errors(errors)


def _problem(number: int, status: int, detail: str) -> bytes:
    return _encode({"line": number, "status": status, "detail": detail}) + b"\n"


def status_of(error: SimstreamError) -> int:
    """Return the HTTP status: 504 for a late verdict, 413 for a page that is too large, 400 for other errors of the
    caller, else 503."""
    if isinstance(error, VerdictLate):
        return 504
    if isinstance(error, RecordTooLarge):
        return 413
    return 400 if isinstance(error, UsageError) and not isinstance(error, SettingsError) else 503


def detail_of(error: SimstreamError) -> str:
    """Return what the caller reads: what is wrong, and what to do about it."""
    return f"{error.what}: send a shorter page" if isinstance(error, RecordTooLarge) else str(error)


def _too_many() -> UsageError:
    return UsageError(f"the body has more than {MAX_LINES:,} lines", "send fewer pages at once")
