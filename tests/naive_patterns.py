"""The slow and obvious way to learn patterns of addresses: every part of every page, against every other page."""

from __future__ import annotations

from typing import NamedTuple

from simstream.tools.patterns.address import is_name


class NaivePage(NamedTuple):
    """A page as `https://site/path?query`, and its cluster; None without enough text."""

    url: str
    cluster: int | None

    @property
    def site(self) -> str:
        return "/".join(self.url.split("/")[:3])

    @property
    def segments(self) -> list[str]:
        return self.url.split("?")[0].split("/")[3:]

    @property
    def parameters(self) -> list[str]:
        return self.url.split("?")[1].split("&") if "?" in self.url else []

    @property
    def section(self) -> str:
        first = self.segments[0].split(";")[0]
        return first if is_name(first) else ""


def parts(page: NaivePage) -> list[tuple[str, str]]:
    """Kind and name of each part of an address."""
    names = list(dict.fromkeys(one.split("=")[0] for one in page.parameters))
    found = [("parameter", name) for name in names]
    sets = (names, [name for name in names if name.startswith("u_")])
    found += [("parameter", "&".join(together)) for together in sets if len(together) > 1]
    for segment in page.segments:
        found += [("path_parameter", one.split("=")[0]) for one in segment.split(";")[1:]]
        if is_name(segment) and ";" not in segment and page.segments.count(segment) == 1:
            found.append(("segment", segment))
    return list(dict.fromkeys(found))


def plain(page: NaivePage, kind: str, name: str) -> str:
    """The address without a part."""
    segments, parameters = page.segments, page.parameters
    if kind == "parameter":
        parameters = [one for one in parameters if one.split("=")[0] not in name.split("&")]
    elif kind == "segment":
        segments = [one for one in segments if one != name]
    else:
        cut = [segment.split(";") for segment in segments]
        segments = [";".join([first, *(one for one in more if one.split("=")[0] != name)]) for first, *more in cut]
    query = "?" + "&".join(parameters) if parameters else ""
    return f"{page.site}/{'/'.join(segments)}{query}"


def below(page: NaivePage, kind: str, name: str) -> str:
    return "" if kind == "segment" and page.segments[0] == name else page.section


def learn(pages: list[NaivePage], least: int) -> dict[tuple[str, str, str, str, str], tuple[int, int, int]]:
    """Patterns (site, kind, name, to, below) with pages, copies and originals. `pages`: each address once."""
    good = {}
    candidates = {
        (page.site, kind, name, to, section)
        for page in pages
        for kind, name in parts(page)
        for section in ("", page.section)
        for to in ("", *{other for one in pages for other in one.segments if is_name(other)})
        if (kind == "segment" and to != name) or not to
    }
    for site, kind, name, to, section in candidates:
        with_it = [
            page
            for page in pages
            if page.site == site
            and page.cluster is not None
            and (kind, name) in parts(page)
            and section in ("", below(page, kind, name))
        ]
        verdicts = _replaced(pages, site, name, to, section) if to else _left_out(pages, with_it, kind, name)
        clusters = {cluster for is_copy, cluster in verdicts if is_copy}
        if all(is_copy for is_copy, _ in verdicts) and len(clusters) >= least:
            good[site, kind, name, to, section] = len(with_it), len(verdicts), len(clusters)
    return {pattern: counts for pattern, counts in good.items() if not pattern[4] or (*pattern[:4], "") not in good}


def _left_out(
    pages: list[NaivePage], with_it: list[NaivePage], kind: str, name: str
) -> list[tuple[bool, int | None]]:
    found = []
    for page in with_it:
        itself = [one for one in pages if one.url == plain(page, kind, name)]
        forms = itself + [one for one in with_it if plain(one, kind, name) == plain(page, kind, name)]
        if forms[0] is not page:
            found.append((forms[0].cluster == page.cluster, page.cluster))
    return found


def _replaced(pages: list[NaivePage], site: str, name: str, to: str, section: str) -> list[tuple[bool, int | None]]:
    names = [part for page in pages if page.site == site for part in parts(page)]
    if (-names.count(("segment", to)), to) > (-names.count(("segment", name)), name):
        return []
    found = []
    for page in pages:
        for other in pages:
            mine, its = page.segments, other.segments
            if page.site != site or other.site != site or mine.count(name) != 1 or its.count(to) != 1:
                continue
            is_form = [one == name or one for one in mine] == [one == to or one for one in its]
            is_form = is_form and page.parameters == other.parameters
            is_form = is_form and section in ("", below(page, "segment", name))
            if is_form and (page.cluster, other.cluster) != (None, None):
                found.append((page.cluster == other.cluster, page.cluster))
    return found
