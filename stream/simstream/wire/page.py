"""Reads a record of `pages`: id, URL, time, text or HTML; decides which page is unreadable, failed or gone.

The fast path is one msgspec decode. If msgspec refuses a value, the standard library's slower decoder reads it
again. That decoder tells a wrong type from broken JSON, and still finds the page's id. If a topic has its fields
elsewhere (`wire/field_paths`) or another format (`wire/registered`), the whole value is decoded, and the same
checks follow.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Final, NamedTuple

import msgspec

from simstream.model import MAX_ID_BYTES, MAX_URL_BYTES, Page, PageKind, Record
from simstream.utf8_html import Utf8Html
from simstream.wire.bad_value import BadValueError
from simstream.wire.field_paths import FieldPaths
from simstream.wire.identity_hash import identity_of, replace_bad_id
from simstream.wire.json_tree import slow_tree_of, tree_of

JSON_TYPE = "application/json"
RAW_TYPES = ("text/html", "text/plain")
FETCHED = "fetched-"
"""A client puts it before other types of fetched bytes: JSON of a web server is no page with fields of ours."""
NO_TIME = -1
"""The timestamp of a record from a file. A page that keeps it had no readable `time`."""
MAX_TIME_MS = 253_402_300_799_999
"""The last millisecond of the year 9999, the last year with four digits; a later time counts as absent."""
FIRST_LIKELY_MS: Final = 10**11
"""A time before it lies before March 1973, if it is in ms. Seconds since 1970 are less until the year 5138."""

PAGE_HEADERS = ("content-type", "url", "time", "status", "damaged")
"""The headers that say something of a page; all others are the sender's own."""
_MS_DIGITS: Final = 13
"""Times from 2001 to 2286 have so many. Fewer may be a year, a date or seconds; more, `20261130180000`."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
GONE = (404, 410)
"""The statuses of pages that are gone."""
_EMPTY = "the value is empty (0 bytes)"
_NO_TEXT = "the page has neither `text` nor `html`"


@dataclass(frozen=True, slots=True)
class PageLimits:
    """The limits of a page's record. A record with a value longer than `max_record_bytes` is `unreadable`, and its
    value is not read."""

    max_record_bytes: int = 1 << 20
    paths: FieldPaths | None = None
    """Where the value has the fields; None: each has its own name, and no other place is looked at."""
    read: Callable[[bytes], dict[str, object]] | None = None
    """Reads a value of another format than JSON, and raises BadValueError; None: values are JSON."""
    html_by_kernels: bool = False
    """Whether long HTML in JSON is read by kernels and comes as Utf8Html: for programs that have loaded kernels."""


_SPACE: Final = " \t\r\n"
_SPACE_BYTES: Final = _SPACE.encode()
_STATUS_TEXT: Final = r"^[ \t\r\n]*([0-9]{1,9}[ \t\r\n]*)?$"
"""A status as text, or blank text. Matches in linear time, also a stranger's megabyte of spaces."""


class PageFields(msgspec.Struct, gc=False):
    """The fields of a JSON page that simstream knows; a null counts as absent."""

    id: str | int | None = None
    """The name of the page; a record with a key is named by its key."""
    url: str | None = None
    """The address of the page; it is the id of a page without one."""
    title: str | None = None
    """Shown by the news page."""
    text: str | None = None
    """The text that is judged."""
    html: str | None = None
    """The page as HTML, if it has no `text`: its main content is judged."""
    time: int | float | str | None = None
    """ISO 8601 (UTC if it names no zone), or milliseconds since 1970. Without it, or if its text
    cannot be read, the time of the record counts. If a record in Kafka has none, the time at which it is read
    counts."""
    status: int | Annotated[str, msgspec.Meta(pattern=_STATUS_TEXT)] | None = None
    """The HTTP status, as a number or as text; a page with any but 2xx is `too_short`. Blank text counts as
    absent."""


class _LongPageFields(PageFields, gc=False):
    """The fields of a page whose HTML is not made a Python string."""

    html: msgspec.Raw = msgspec.Raw()  # type: ignore[assignment]  # it replaces `str | None`


class _PageNames(msgspec.Struct, gc=False):
    id: str | int | None = None
    url: str | None = None


_decode_fields = msgspec.json.Decoder(PageFields).decode
_decode_long_fields = msgspec.json.Decoder(_LongPageFields).decode
_decode_naming = msgspec.json.Decoder(_PageNames).decode
_LONG_BYTES: Final = 16 << 10
"""For fewer bytes, and for ASCII, kernels gain nothing."""
_HEAD_BYTES: Final = 4096
"""Kernels read the HTML only if its name comes so early: to search a long text for it would cost too much."""
_STRINGS = ("id", "url", "title", "text", "html")


def decode(record: Record, limits: PageLimits) -> Page:
    """Return the page in a record. Never raises because of the record's content.

    A page without an id and a URL gets the id `topic/partition/offset`. Its time is its own `time`, else the
    record's timestamp. If `text` or `raw` is set, `kind` is READABLE; the text may still turn out to be too short.
    Otherwise `kind`, `reason` and the sentence `detail` say why not. Cost: about 5 us for a page of 2 KB.
    """
    value = record.value
    headers = _headers(record) if record.headers else {}
    paths = limits.paths
    if paths is not None and paths.id_header is not None and headers.get(paths.id_header):
        record = msgspec.structs.replace(record, key=headers[paths.id_header])
    if value is None:
        return _close(_name(record, None, headers.get("url")), PageKind.WITHDRAWN)
    media = headers.get("content-type", b"")
    kind = media_type(media) if media else JSON_TYPE
    url = headers.get("url") if kind != JSON_TYPE else None
    if "damaged" in headers:
        return _refuse(_name(record, None, url), "damaged", headers["damaged"].decode("utf-8", "replace"))
    is_fetched = kind not in ("", JSON_TYPE) and (
        kind in RAW_TYPES or limits.read is None or kind.startswith(FETCHED)
    )
    if not value and not is_fetched:
        return _refuse(_name(record, None, url), "empty_value", _EMPTY)
    if is_fetched:
        return _from_raw(record, value, headers, kind, limits.max_record_bytes)
    if len(value) > limits.max_record_bytes:
        return _refuse_size(_name(record, None, url), len(value), limits.max_record_bytes)
    if limits.read is not None or paths is not None:
        return _from_tree(record, value, limits)
    return _from_json(record, value, limits.html_by_kernels)


def own_name(value: bytes) -> bytes | None:
    """Return the id of a JSON page, else its URL, as `decode` takes it; None if `decode` would use the position.

    A value that `decode` finds broken has no name. Cost: about 1 us for a good page.
    """
    naming: PageFields | _PageNames
    try:
        if not value.isascii():
            value.decode()
        naming = _decode_naming(value)
    except RecursionError:
        return None
    except ValueError:
        try:
            naming, _ = _fields_of(value)
        except BadValueError:
            return None
    return _utf8(naming.id) or _utf8(naming.url)


def title_at(value: bytes, limits: PageLimits) -> str:
    """Return the title of a page whose value is decoded as a whole; "" if there is none."""
    try:
        fields, _ = _fields_at(value, limits)
    except BadValueError:
        return ""
    return fields.title or ""


class FoundFields(NamedTuple):
    """What a page has of the fields that simstream knows."""

    names: set[str]
    """The fields that have a value of the right type."""
    is_error: bool
    """Whether the page's status is not 2xx, so that it needs no text."""


def named_fields(record: Record, limits: PageLimits) -> FoundFields | None:
    """Return which fields a record has; None if it is no page that is read by paths."""
    paths, headers = limits.paths, _headers(record) if record.headers else {}
    is_json = limits.read is not None or media_type(headers.get("content-type", b"")) in ("", JSON_TYPE)
    if paths is None or not is_json or "damaged" in headers:
        return None
    if not record.value or len(record.value) > limits.max_record_bytes:
        return None
    try:
        fields, _ = _fields_at(record.value, limits)
    except BadValueError:
        return None
    found = {name for name in PageFields.__struct_fields__ if getattr(fields, name) not in (None, "")}
    if paths.id_header is not None:
        found = found - {"id"} | ({"id"} if headers.get(paths.id_header) else set())
    status = status_of(fields.status)
    return FoundFields(found, isinstance(status, int) and not 200 <= status < 300)


def time_ms(value: int | float | str | None) -> int | None:
    """Return a page's `time` in ms since 1970. The value is ISO 8601 (UTC without a zone), or a number of ms, also
    as text of 13 digits.

    Returns None if it is absent, cannot be read, or lies before 1970 or after the year 9999.
    """
    try:
        if isinstance(value, str):
            text = value.strip()
            if len(text) == _MS_DIGITS and text.isascii() and text.isdigit():
                return int(text)
            moment = datetime.fromisoformat(text)
            since = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)) - _EPOCH
            result = (since.days * 86_400 + since.seconds) * 1000 + since.microseconds // 1000
        elif value is None:
            return None
        else:
            result = int(value)
    except (ValueError, OverflowError):
        return None
    return result if 0 <= result <= MAX_TIME_MS else None


def _from_json(record: Record, value: bytes, html_by_kernels: bool) -> Page:
    wrong = ""
    try:
        fields, is_ascii = None, value.isascii()
        if html_by_kernels and not is_ascii and len(value) >= _LONG_BYTES and b'"html"' in value[:_HEAD_BYTES]:
            fields = _fields_by_kernels(value)
        if fields is None:
            if not is_ascii:
                value.decode()  # the fast decoder does not check the fields that it skips
            fields = _decode_fields(value)
    except RecursionError:
        return _refuse(_name(record, None, None), "bad_json", "the JSON is nested too deeply")
    except ValueError:
        try:
            fields, wrong = _fields_of(value)
        except BadValueError as error:
            return _refuse(_name(record, None, None), error.reason, f"{error}{_hint(value)}")
    return _from_fields(record, fields, wrong, _NO_TEXT)


def _fields_by_kernels(value: bytes) -> PageFields | None:
    """Return the fields of a value with HTML as Utf8Html.

    Returns None if Python's decoder must decide: there is no HTML or a text besides, or the HTML is no string or
    has a lone surrogate, or something is no UTF-8. Raises what the decoder raises. Cost: for 100 KB of Chinese HTML
    half of the other way's, and half of that with the GIL.
    """
    from simstream.kernels.text.json_string import string_in_utf8  # clients and producers need no numba

    fields = _decode_long_fields(value)
    html = memoryview(fields.html)
    if fields.text is not None or bytes(html[:1]) != b'"':
        return None
    utf8 = string_in_utf8(html, value)
    return None if utf8 is None else msgspec.structs.replace(fields, html=Utf8Html(utf8))


def _hint(value: bytes) -> str:
    """Return a question about a value that is no JSON but may come from a serializer with a schema registry."""
    return "; it begins as a schema registry's values do: is pages_format missing?" if value[:1] == b"\0" else ""


def _from_tree(record: Record, value: bytes, limits: PageLimits) -> Page:
    """Return the page in a value that is decoded as a whole. Cost for JSON: about twice that of `_from_json`."""
    paths = limits.paths
    try:
        fields, wrong = _fields_at(value, limits)
    except BadValueError as error:
        hint = _hint(value) if limits.read is None else ""
        return _refuse(_name(record, None, None), error.reason, f"{error}{hint}")
    if paths is not None and paths.names_id and (named := _utf8(fields.id)):
        record = msgspec.structs.replace(record, key=named)
    return _from_fields(record, fields, wrong, paths.explain_no_text() if paths else _NO_TEXT)


def _fields_at(value: bytes, limits: PageLimits) -> tuple[PageFields, str]:
    """Return the fields of a value, and a sentence about fields of a wrong type, or "". Raises BadValueError."""
    tree = (limits.read or tree_of)(value)
    return _sort_out(limits.paths.find_fields(tree, len(value)) if limits.paths else tree, limits.paths)


def _from_fields(record: Record, fields: PageFields, wrong: str, no_text: str) -> Page:
    """Return the page with these fields. `wrong` is a sentence about fields of a wrong type, `no_text` about a page
    without text and HTML."""
    page = _name(record, _utf8(fields.id), _utf8(fields.url))
    own = time_ms(fields.time)
    if own is not None:
        page.time = own
    if wrong:
        return _refuse(page, "wrong_type", wrong)
    status = status_of(fields.status)
    if isinstance(status, int) and not 200 <= status < 300:
        return _failed(page, status)
    if page.kind is not PageKind.READABLE:
        return page
    if fields.text is not None:
        page.text = fields.text
    elif fields.html is not None:
        page.raw = fields.html
        page.content_type = "text/html"
    else:
        return _refuse(page, "no_text", no_text)
    return page


def _from_raw(record: Record, value: bytes, headers: dict[str, bytes], kind: str, most: int) -> Page:
    """Return the page of fetched bytes, at most `most`. An error page may have no body, a longer one, or one of
    another type."""
    page = _name(record, None, headers.get("url"))
    if "time" in headers:
        text = headers["time"].decode("latin-1").strip()
        own = time_ms(int(text) if text.isascii() and text.isdigit() and len(text) < 18 else text)
        page.time = page.time if own is None else own
    status = headers.get("status", b"").strip(_SPACE_BYTES)
    if status and not status.removeprefix(b"-").isdigit():
        return _refuse(page, "wrong_type", "`status` is of the wrong type (str)")
    if status and not 200 <= int(status[:9]) < 300:
        return _failed(page, int(status[:9]))
    if not value:
        return _refuse(page, "empty_value", _EMPTY)
    if len(value) > most:
        return _refuse_size(page, len(value), most)
    if kind not in RAW_TYPES:
        known = RAW_TYPES if kind.startswith(FETCHED) else (JSON_TYPE, *RAW_TYPES)
        what = f"content-type {kind.removeprefix(FETCHED)[:100]!r} is none of {', '.join(known)}"
        return _refuse(page, "bad_content_type", what)
    if page.kind is PageKind.READABLE:
        page.raw = value
        page.content_type = headers["content-type"].decode("latin-1").strip()
    return page


def media_type(content_type: bytes) -> str:
    """Return the type without its parameters, in lower case; "" if there is none."""
    return content_type.split(b";", 1)[0].strip().lower().decode("latin-1")


def _headers(record: Record) -> dict[str, bytes]:
    """Return the headers by their names in lower case. If a name comes twice, the last counts, as in Kafka's
    clients."""
    return {name.lower(): value for name, value in record.headers if value is not None}


def _name(record: Record, own_id: bytes | None, url: bytes | None) -> Page:
    """Return the page with id, identity, URL and the record's time; UNREADABLE if the id or URL breaks the
    limits."""
    key = record.key
    raw = key or own_id or url or f"{record.topic}/{record.partition}/{record.offset}".encode()
    bad = _trouble(raw, MAX_ID_BYTES)
    page = Page(
        id=replace_bad_id(raw) if bad else raw.decode(),
        identity=identity_of(raw),
        offset=record.offset,
        time=record.timestamp,
        partition=record.partition,
        key_differs=bool(key and own_id and key != own_id),
    )
    if url:
        bad_url = _trouble(url, MAX_URL_BYTES)
        if bad_url:
            _refuse(page, "long_url", f"the URL {bad_url}")
        else:
            page.url = url.decode()
    if bad and not (page.reason and raw == url and len(raw) > MAX_URL_BYTES):
        page.kind = PageKind.READABLE  # report a bad id first, unless it is a URL that is itself too long
        _refuse(page, "bad_id", f"the id {bad}")
    return page


def _trouble(raw: bytes, limit: int) -> str:
    """Return why these bytes cannot be an id or URL; empty if they can."""
    if len(raw) > limit:
        return f"has {len(raw)} bytes, and at most {limit} are allowed"
    try:
        raw.decode()
    except UnicodeDecodeError as error:
        return f"is not valid UTF-8 (at byte {error.start})"
    return ""


def _utf8(name: str | int | None) -> bytes | None:
    """Return the bytes of a JSON string or whole number. A lone surrogate gives invalid UTF-8, which a later check
    refuses."""
    if name is None or name == "":
        return None
    text = str(name)
    try:
        return text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass")


def _refuse(page: Page, reason: str, detail: str) -> Page:
    """Make the page UNREADABLE, unless it already is for another reason."""
    if page.kind is not PageKind.UNREADABLE:
        page.kind, page.reason, page.detail = PageKind.UNREADABLE, reason, detail
    return page


def _refuse_size(page: Page, size: int, most: int) -> Page:
    return _refuse(page, "too_large", f"the value has {size} bytes, and max_record_bytes is {most}")


def _failed(page: Page, status: int) -> Page:
    """Mark an error page: a page that is gone, or a failed fetch."""
    kind = PageKind.TOO_SHORT if status in GONE else PageKind.FAILED
    if page.kind is PageKind.READABLE:
        page.reason, page.detail = "http_status", f"the page was answered with status {status}"
    return _close(page, kind)


def _close(page: Page, kind: PageKind) -> Page:
    """Set the kind of a page that has nothing to compare, unless it is UNREADABLE already."""
    if page.kind is PageKind.READABLE:
        page.kind = kind
    return page


def _fields_of(value: bytes) -> tuple[PageFields, str]:
    """Return the fields from the slow decoder, and a sentence about fields of a wrong type, or "".

    Raises BadValueError.
    """
    return _sort_out(slow_tree_of(value))


def _sort_out(tree: dict[str, object], paths: FieldPaths | None = None) -> tuple[PageFields, str]:
    """Return the fields, and a sentence about fields of a wrong type, or "".

    If there are paths, a field without a path is absent if its type is wrong.
    """
    fields, wrong = PageFields(), []
    for name in PageFields.__struct_fields__:
        value = tree.get(name)
        if value is None:
            continue
        if name == "status" and (value := status_of(value)) is None:
            continue
        if name in _STRINGS:
            fits = isinstance(value, str) or (name == "id" and _is_integer(value))
        elif name == "status":
            fits = _is_integer(value)
        else:
            fits = isinstance(value, int | float | str) and not isinstance(value, bool)
        if fits:
            setattr(fields, name, value)
        elif paths is None:
            wrong.append(f"`{name}` is of the wrong type ({type(value).__name__})")
        elif name in paths.paths:
            wrong.append(f"`{name}` at {paths.paths[name]} is of the wrong type ({type(value).__name__})")
    return fields, "; ".join(wrong)


def status_of(value: object) -> object:
    """Return a status as an int, None for a blank one, and a value that is no status as it is.

    Tables with missing values write whole numbers as floats, and many crawlers write them as text.
    """
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, str) and re.search(_STATUS_TEXT, value):
        digits = value.strip(_SPACE)
        return int(digits) if digits else None
    return value


def _is_integer(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
