"""Cuts an address into the parts that patterns name."""

from __future__ import annotations

from typing import Final, NamedTuple, Self
from urllib.parse import urlsplit

MAX_ADDRESS_CHARS: Final = 2_048
"""A longer address has no patterns: it is neither learned from nor skipped."""
MAX_PARTS: Final = 16
"""So many segments of a path, and so many parameters, may an address with patterns have."""
MAX_NAME_CHARS: Final = 64
_PORTS: Final = {"http": ":80", "https": ":443"}


class PageAddress(NamedTuple):
    """The parts of an address. Two addresses that differ in nothing else are one.

    Not counted: the fragment, the order of parameters with different names, empty parameters, slashes at the end
    of the path, the usual port, and the case of scheme and host. Nothing is decoded.
    """

    site: str
    """Scheme, host and port: `https://a.example`."""
    path: tuple[str, ...]
    """The segments of the path; empty for the front page."""
    query: tuple[str, ...]
    """The parameters with their values, sorted by name."""

    @classmethod
    def parse(cls, url: str) -> Self | None:
        """Return the parts of a URL.

        None if it is not http or https, has no host, is too long, has too many parts, or has a user name. Cost:
        linear in MAX_ADDRESS_CHARS, about 5 us.
        """
        if len(url) > MAX_ADDRESS_CHARS:
            return None
        try:
            parts = urlsplit(url)
        except ValueError:
            return None
        if parts.scheme not in _PORTS or not parts.netloc or "@" in parts.netloc:
            return None
        site = f"{parts.scheme}://{parts.netloc.lower().removesuffix(_PORTS[parts.scheme])}"
        return cls.cut(site, f"{parts.path}?{parts.query}")

    @classmethod
    def cut(cls, site: str, rest: str) -> Self | None:
        """Return the parts of a site's path with its query; None if there are too many."""
        path, _, query = rest.partition("?")
        segments = path.split("/")[1:]
        while segments and not segments[-1]:
            segments.pop()
        parameters = [part for part in query.split("&") if part]
        if len(segments) > MAX_PARTS or len(parameters) > MAX_PARTS:
            return None
        return cls(site, tuple(segments), tuple(sorted(parameters, key=name_of)))

    @property
    def rest(self) -> str:
        """Path and query as one string; `cut` makes the same parts of it."""
        path = "".join(f"/{segment}" for segment in self.path) or "/"
        return f"{path}?{'&'.join(self.query)}" if self.query else path

    @property
    def section(self) -> str:
        """The first segment of the path without its parameters, if it is a name; else nothing."""
        first = self.path[0].partition(";")[0] if self.path else ""
        return first if is_name(first) else ""


def name_of(parameter: str) -> str:
    """Return the name of a parameter `name=value`."""
    return parameter.partition("=")[0]


def is_name(segment: str) -> bool:
    """Return whether a segment may name a form of pages, such as `print`: not a number, a date or a title."""
    return (
        0 < len(segment) <= MAX_NAME_CHARS // 2 and segment.count("-") <= 1 and not any(map(str.isdigit, segment))
    )
