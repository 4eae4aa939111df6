"""Reads the entries of an RSS or Atom feed, in a process of its own: `python -m simstream.tools.feed.entries`.

A feed is a stranger's, and feedparser mends broken XML with slow patterns. So the process has a limit of CPU time
and of memory, and the caller a deadline. It reads a `RssBody` from stdin, and writes a list of
`RssEntry` to stdout.
"""

from __future__ import annotations

import calendar
import resource
import subprocess
import sys
from typing import Any, Final

import msgspec

from simstream.errors import InputError, needs
from simstream.model import MAX_ID_BYTES

CPU_S: Final = 10
MEMORY_BYTES: Final = 1 << 30
DEADLINE_S: Final = 60.0
MAX_ENTRIES: Final = 1_000
"""Further entries of a feed are not read."""
_IS_NO_FEED: Final = 3
_HAS_ENTITIES: Final = 4
_WHY: Final = {
    _IS_NO_FEED: "it is neither RSS nor Atom",
    _HAS_ENTITIES: "it declares entities, which could be a bomb",
}


class RssBody(msgspec.Struct, array_like=True):
    """A feed as it came: its bytes, and its `Content-Type` and address if known."""

    body: bytes
    content_type: str | None = None
    url: str | None = None


class RssEntry(msgspec.Struct, array_like=True):
    """An entry. `text` is that of its content, else of its summary, else its title; `time` is in ms since 1970.

    A `guid` or `link` of more than MAX_ID_BYTES is empty.
    """

    guid: str
    link: str
    title: str
    text: str
    time: int | None


def read_entries(feed: RssBody, cpu_s: int = CPU_S) -> list[RssEntry]:
    """Return the entries of a feed. Raises InputError with the reason alone, and Unavailable without feedparser.

    Cost: about 0.2 s for the process.
    """
    with needs("a feed", "rss"):
        import feedparser  # noqa: F401
    try:
        done = subprocess.run(
            [sys.executable, "-m", __name__, str(cpu_s)],
            input=msgspec.msgpack.encode(feed),
            capture_output=True,
            timeout=DEADLINE_S,
        )
    except subprocess.TimeoutExpired:
        raise InputError("it takes too long to read", "check the feed") from None
    except OSError as error:
        raise InputError(
            f"no process can be started to read it ({error.strerror})",
            "see whether memory, processes and open files last",
        ) from None
    if done.returncode:
        raise InputError(_WHY.get(done.returncode, "reading it takes too much time or memory"), "check the feed")
    return msgspec.msgpack.decode(done.stdout, type=list[RssEntry])


def _main() -> int:
    resource.setrlimit(resource.RLIMIT_CPU, (int(sys.argv[1]), int(sys.argv[1])))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    feed = msgspec.msgpack.decode(sys.stdin.buffer.read(), type=RssBody)
    plain = feed.body.replace(b"\0", b"").upper()  # also in UTF-16
    if b"<!DOCTYPE" in plain and b"<!ENTITY" in plain:  # without the first, the second is text
        return _HAS_ENTITIES
    import feedparser

    headers = {"content-type": feed.content_type, "content-location": feed.url}
    parsed = feedparser.parse(
        feed.body,
        response_headers={name: value for name, value in headers.items() if value},
        sanitize_html=False,
        resolve_relative_uris=False,
    )
    if not parsed.get("version"):
        return _IS_NO_FEED
    entries = [_entry(found) for found in parsed.entries[:MAX_ENTRIES]]
    sys.stdout.buffer.write(msgspec.msgpack.encode(entries))
    return 0


def _entry(found: Any) -> RssEntry:
    bodies = [one.get("value") or "" for one in found.get("content", ())]
    title = _text(found.get("title") or "")
    text = next(filter(None, map(_text, (*bodies, found.get("summary") or ""))), "") or title
    when = found.get("published_parsed") or found.get("updated_parsed")
    time = None
    if when is not None:
        try:
            time = calendar.timegm(when) * 1000
        except (ValueError, OverflowError):
            time = None
    return RssEntry(_name(found.get("id")), _name(found.get("link")), title, text, time)


def _name(found: str | None) -> str:
    """Return a guid or link; empty if it is too long for an id. Each link may repeat the feed's base of many KB."""
    name = without_surrogates(found or "")
    return name if len(name.encode()) <= MAX_ID_BYTES else ""


def _text(html: str) -> str:
    """Return the text of a piece of HTML, with one space in place of its blanks."""
    from resiliparse.extract.html2text import extract_plain_text

    found = extract_plain_text(without_surrogates(html), main_content=False, links=False, alt_texts=False)
    return "\n".join(filter(None, (" ".join(line.split()) for line in found.splitlines())))


def without_surrogates(text: str) -> str:
    """Return the text without lone surrogates, which UTF-8 cannot hold."""
    return text.encode("utf-8", "replace").decode()


if __name__ == "__main__":
    sys.exit(_main())
