"""Encodes the pages that a program sends as records of `pages`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from types import MappingProxyType
from typing import Any, NamedTuple

from simstream.errors import UsageError
from simstream.model import Record
from simstream.sources.fields import encoded
from simstream.text.extraction.extract import without_lone_surrogates
from simstream.wire.page import FETCHED, PAGE_HEADERS, RAW_TYPES, PageLimits, decode, media_type

Headers = tuple[tuple[str, bytes], ...]
_LIMITS = PageLimits()
_ADVICE = "give at least one of `id` and `url`"


@dataclass(frozen=True, slots=True)
class RawPage:
    """A page as it was fetched. The service decodes the bytes and reads the HTML, as a browser does.

    Examples:
        >>> from simstream import Client, RawPage
        >>> page = RawPage("https://a.example/1", b"<p>Too short.", "text/html; charset=utf-8", status=200)
        >>> with Client("kafka://127.0.0.1:9092") as client:
        ...     client.submit(page).result().verdict
        'too_short'
    """

    url: str
    body: bytes
    content_type: str = "text/html"
    """`text/html` or `text/plain`, with the charset if the server named one; blank counts as `text/html`. Other
    types, JSON among them, become `unreadable`."""
    id: str | None = None
    """The page's name; by default the URL."""
    time: datetime | str | int | None = None
    """When it was fetched: ISO 8601 or ms since 1970, UTC without a zone; by default now."""
    status: int | None = None
    """The HTTP status. A page with a status other than 2xx is `too_short`, whatever its body and type are."""


Submitted = Mapping[str, Any] | RawPage
"""A RawPage, or the fields of a JSON page: `id`, `url`, `title`, `text` or `html`, `time`, `status`."""


class SendablePage(NamedTuple):
    """A record that is ready to be appended, and the key that its verdict will have."""

    key: bytes
    value: bytes
    headers: Headers
    verdict_key: bytes


def sendable(page: Submitted, headers: Mapping[str, str | bytes] = MappingProxyType({})) -> SendablePage:
    """Return the record of a page, keyed by its id as `simstream feed` keys it, with further headers.

    Raises UsageError for a page without id and URL, or with a field that JSON cannot hold, and for a header that
    would say something of the page itself.
    """
    further = _further(headers) if headers else ()
    if isinstance(page, RawPage):
        _check(page)
        return _made(page.id or page.url, page.body, (*_headers(page), *further))
    if not isinstance(page, Mapping):
        raise UsageError(
            f"a page is a {type(page).__name__}, not a mapping", "give a mapping of its fields, or a RawPage"
        )
    for name, value in page.items():
        if isinstance(value, bytes | bytearray | memoryview):  # JSON would hold them as Base64
            raise UsageError(f"the field {name!r} is bytes, not a str", "decode them, or give a RawPage")
    try:
        value = encoded(page)
    except (TypeError, ValueError, RecursionError) as error:
        raise UsageError(
            f"a page cannot be written as JSON ({error})", "give only text, numbers and lists"
        ) from None
    own = page.get("id")
    if isinstance(own, int) and not isinstance(own, bool):
        own = str(own)
    return _made(own or page.get("url"), value, further)


def _check(page: RawPage) -> None:
    """Raise UsageError for a value of another type than its field."""
    kinds = {"url": str, "body": bytes, "content_type": str, "id": str | None, "status": int | None}
    for name, kind in kinds.items():
        if not isinstance(value := getattr(page, name), kind):
            raise UsageError(
                f"the page's {name} is a {type(value).__name__}", "see RawPage for the types of its fields"
            )


def _made(name: Any, value: bytes, headers: Headers) -> SendablePage:
    if not name:
        raise UsageError("a page has neither id nor URL", _ADVICE)
    if not isinstance(name, str):
        raise UsageError(f"a page's id is a {type(name).__name__}, not a str", _ADVICE)
    key = name.encode("utf-8", "surrogatepass")
    shown = decode(Record("", 0, 0, key, None), _LIMITS).id  # an id that cannot be written is shown otherwise
    return SendablePage(key, value, headers, shown.encode())


def _further(headers: Mapping[str, str | bytes]) -> Headers:
    for name, value in headers.items():
        if not isinstance(name, str) or not isinstance(value, str | bytes):
            raise UsageError(f"the header {name!r} is a {type(value).__name__}", "give names and values as text")
        if name != without_lone_surrogates(name):
            raise UsageError(f"the header {name!r} has a lone surrogate", "give it another name")
        if name.lower() in PAGE_HEADERS:
            raise UsageError(f"the header {name!r} belongs to the page itself", "give a RawPage, or leave it out")
    return tuple(
        (name, value.encode("utf-8", "replace") if isinstance(value, str) else value)
        for name, value in headers.items()
    )


def _headers(page: RawPage) -> Headers:
    media = page.content_type.encode("utf-8", "replace")
    if (kind := media_type(media)) not in RAW_TYPES:
        media = FETCHED.encode() + media.strip() if kind else RAW_TYPES[0].encode()
    headers = [("content-type", media), ("url", page.url.encode("utf-8", "replace"))]
    if page.time is not None:
        when = page.time.isoformat() if isinstance(page.time, datetime) else str(page.time)
        headers.append(("time", when.encode("utf-8", "replace")))
    if page.status is not None:
        headers.append(("status", str(page.status).encode()))
    return tuple(headers)
