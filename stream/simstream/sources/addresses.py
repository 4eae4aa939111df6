"""Addresses of files elsewhere: `s3://bucket/key`, `https://host/path`, and `file://` for local files."""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import unquote, urlsplit

from simstream.errors import UsageError

WEB: Final = ("http", "https")
_ADDRESS: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
_PATTERN: Final = re.compile(r"[*?\[]")
_SECRETS: Final = re.compile(r"(https?://)(?:[^\s/?#]*(?:@|%40))?([^\s?#]*)[^\s]*", re.IGNORECASE)


def protocol_of(path: str) -> str:
    """Return the protocol of an address in lower case; an empty string for a local path."""
    found = _ADDRESS.match(path)
    return found[1].lower() if found else ""


def is_web(path: str) -> bool:
    """Return whether this is the address of a file on a web server."""
    return protocol_of(path) in WEB


def names_web_server(address: str) -> bool:
    """Return whether this is a web address with a host, and with a port that can be if it names one."""
    try:
        parts = urlsplit(address)
        return parts.scheme in WEB and bool(parts.hostname) and parts.port != 0
    except ValueError:  # a port that is no number, or half an IPv6 address
        return False


def is_pattern(path: str) -> bool:
    """Return whether `*`, `?` or `[` in this path stand for other characters. A web server has no patterns."""
    return not is_web(path) and _PATTERN.search(path) is not None


def local_path(path: str) -> str:
    """Return the local path that a `file://` address means, and any other path unchanged. Raises UsageError."""
    if protocol_of(path) != "file":
        return path
    host, slash, rest = path.partition("://")[2].partition("/")
    if host not in ("", "localhost") or not slash:
        raise UsageError(f"{path} names no local file", "write file:/// and the whole path")
    return unquote("/" + rest, errors="surrogateescape")


def public_address(address: str) -> str:
    """Return the address for messages, names and ids: without a user, a password and a signature."""
    protocol, mark, rest = address.partition("://")
    if is_web(address):
        return public_text(address)
    host, slash, path = rest.partition("/")
    return f"{protocol}{mark}{host.rpartition('@')[2]}{slash}{path}"


def public_text(text: str) -> str:
    """Return the text with its web addresses cut to host and path: signatures stand behind the `?`."""
    return _SECRETS.sub(r"\1\2", text)
