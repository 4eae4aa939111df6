"""A site with all that wastes a crawler's time, served on loopback.

It has mirrors, printer versions, forms to share an article, session ids, a calendar that goes on and on and whose
days are empty, tags, pages of one template, and an archive: numbered pages under one introduction, on which alone
some of the articles stand.
The first fetch of what a page holds is useful, in whatever form it comes; every other is useless.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urljoin, urlsplit

from tests.bench.crawl_text import MONTHS, PLACES
from tests.bench.crawl_text import article as made_article

EVERYWHERE = ("/", "/list/0")
"""What every page links to."""
Article = Callable[[int], tuple[str, list[str]]]
"""Title and paragraphs of an article, by its number."""


@dataclass(frozen=True)
class SiteSize:
    """How much of each there is."""

    articles: int = 60
    """Articles that lists and other articles link to."""
    archived: int = 40
    """Articles that only the archive links to."""
    mirrors: int = 2
    sessions: int = 3
    """A visitor without a session id gets a new one in the links of each page, up to this many."""
    months: int = 60
    """Days of the calendar. It could go on for ever, but a crawl without simstream has to end."""
    days: int = 3
    """Of a month, each with a page of its own."""
    tags: int = 30
    """Every second one has articles; all have the same text."""
    per_list: int = 10
    per_archive: int = 5

    @property
    def total(self) -> int:
        """All articles."""
        return self.articles + self.archived


@dataclass
class SitePage:
    """The page at an address: its content, and the parts of its HTML."""

    content: str
    title: str
    paragraphs: list[str]
    links: list[str] = field(default_factory=list)


class CrawlSite:
    """The pages at all addresses, and the fetches so far. Each host has all of them."""

    def __init__(self, size: SiteSize, hosts: list[str], article: Article = made_article) -> None:
        self.size = size
        self.hosts = hosts
        self._text = article
        self._lock = threading.Lock()
        self.fetched: list[SitePage] = []
        self._fetched_urls: set[str] = set()
        self._linked_urls: set[str] = set()

    def get(self, host: int, target: str) -> SitePage | None:
        """Return the page at a path with its query, or None. Counts the fetch."""
        page = self._page(host, target)
        if page is not None:
            url = f"http://{self.hosts[host]}{target}"
            with self._lock:
                self.fetched.append(page)
                self._fetched_urls.add(url)
                self._linked_urls.update(urljoin(url, link) for link in (*page.links, *EVERYWHERE))
        return page

    def forget(self) -> None:
        """Start the counts again."""
        with self._lock:
            self.fetched, self._fetched_urls, self._linked_urls = [], set(), set()

    def articles_found(self) -> set[str]:
        """Return the fetched articles, in any form."""
        return {page.content for page in self.fetched if page.content.startswith("article ")}

    def useless(self) -> int:
        """How many fetches brought nothing new."""
        return len(self.fetched) - len({page.content for page in self.fetched})

    def unfetched(self) -> set[str]:
        """Return the addresses that fetched pages link to and that were not fetched."""
        return self._linked_urls - self._fetched_urls

    def missed(self) -> set[str]:
        """The articles that were not fetched in any form."""
        return {f"article {number}" for number in range(self.size.total)} - self.articles_found()

    def _page(self, host: int, target: str) -> SitePage | None:
        parts = urlsplit(target)
        words = parts.path.strip("/").split("/")
        session = int(parse_qs(parts.query).get("sid", ["0"])[0])
        match words:
            case [""]:
                return self._home(host)
            case ["list", number]:
                return self._list(int(number))
            case ["article", number]:
                return self._article(int(number), session)
            case ["archive", number]:
                return self._archive(int(number))
            case ["print", number]:
                title, paragraphs = self._text(int(number))
                return SitePage(f"article {number}", f"Print: {title}", paragraphs, [f"/article/{number}", "/"])
            case ["share", number]:
                return self._share(int(number))
            case ["calendar", number]:
                return self._month(int(number))
            case ["calendar", number, day]:
                return self._day(int(number), int(day))
            case ["tag", number]:
                return self._tag(int(number))
        return None

    def _home(self, host: int) -> SitePage:
        welcome = "Stories from the towns along the river, collected by their readers and told again every Sunday."
        others = [f"http://{name}/" for name in self.hosts if name != self.hosts[host]]
        links = ["/list/0", "/archive/1", "/calendar/0", "/tag/0", *others]
        return SitePage("home", "River stories", [welcome], links)

    def _list(self, number: int) -> SitePage:
        first = number * self.size.per_list
        shown = range(first, min(first + self.size.per_list, self.size.articles))
        teasers = [self._text(one)[1][0][:120] for one in shown]
        after = [f"/list/{number + 1}"] if first + self.size.per_list < self.size.articles else []
        links = [f"/article/{one}" for one in shown if one % 3] + after  # every third is linked from its neighbour
        return SitePage(f"list {number}", f"All stories, page {number + 1}", teasers, links)

    def _archive(self, number: int) -> SitePage:
        """From 1 on; the older the articles, the higher the number."""
        said = (
            "Everything that was ever told along the river, the newest first. Our archive goes back to the flood. "
            "Librarians of three towns put it in order, who worked on it for two winters without pay. Whatever is "
            "older than a year may be copied freely as long as its teller is named; for pictures please ask."
        )
        first = (number - 1) * self.size.per_archive
        shown = range(first, min(first + self.size.per_archive, self.size.archived))
        links = [f"/article/{self.size.articles + one}" for one in shown]
        pages = -(-self.size.archived // self.size.per_archive)
        links += [f"/archive/{one}" for one in (number - 1, number + 1) if 1 <= one <= pages]
        return SitePage(f"archive {number}", f"Archive, page {number}", [said], links)

    def _article(self, number: int, session: int) -> SitePage:
        title, paragraphs = self._text(number)
        near = [one % self.size.articles for one in (number - 1, number + 1, number + 7)]
        near = near if number < self.size.articles else []
        links = [f"/article/{one}" + (f"?sid={session}" if session else "") for one in near]
        links += [f"/print/{number}", f"/share/{number}", "/", f"/tag/{number % self.size.tags}", "/calendar/0"]
        if session < self.size.sessions:
            links.append(f"/article/{number}?sid={session + 1}")
        return SitePage(f"article {number}", title, paragraphs, links)

    def _share(self, number: int) -> SitePage:
        said = (
            "Tell a friend about this story. We send one letter with its address and your greeting, keep neither "
            "name nor address longer than a day, and give them to nobody. Write at most three hundred characters; "
            "addresses of other sites are taken out. Whoever does not want such letters can tell us with one click."
        )
        return SitePage("share", f"Share: {self._text(number)[0]}", [said], [f"/article/{number}", "/"])

    def _month(self, number: int) -> SitePage:
        when = f"{MONTHS[number % 12]} {2026 + number // 12}"
        said = (
            f"There are no public meetings in {when}. The council chamber is closed for visitors while the floor "
            "is mended, and the reading room keeps its usual hours on weekdays. Proposals for meetings are taken "
            "at the counter on the ground floor, or by letter, at least three weeks ahead."
        )
        links = [f"/calendar/{one}" for one in (number - 1, number + 1) if abs(one) <= self.size.months]
        links += [f"/calendar/{number}/{day}" for day in range(self.size.days)]
        return SitePage("calendar", f"Calendar: {when}", [said], links)

    def _day(self, month: int, day: int) -> SitePage:
        said = (
            "There is nothing in the diary for this day. Readers who know of a fair, a concert or a meeting that "
            "belongs here may tell the editors, who ask the organisers before they enter it, so that nobody stands "
            "before a locked door; what is entered by noon can be read in the evening."
        )
        return SitePage("day", f"{day + 1} {MONTHS[month % 12]}", [said], [f"/calendar/{month}", "/"])

    def _tag(self, number: int) -> SitePage:
        said = (
            f"Stories about {PLACES[number % len(PLACES)]} stand here as soon as there are some. Would you like to "
            "write one? "
            "Send your story with your name and a picture to the editors, who read everything that reaches them "
            "before the end of a month and answer within two weeks, whether they print it or not."
        )
        links = [f"/tag/{(number * 2 + one) % self.size.tags}" for one in (1, 2)]
        if number % 2:
            return SitePage("tag", f"Tag {number}", [said], links)
        links += [f"/article/{one}" for one in range(number, self.size.articles, self.size.tags)]
        return SitePage(f"tag {number}", f"Tag {number}", [said], links)


def html(page: SitePage, host: str) -> bytes:
    """The page as its host dresses it."""
    body = "".join(f"<p>{text}</p>" for text in page.paragraphs)
    links = "".join(f'<li><a href="{link}">{link}</a></li>' for link in page.links)
    return (
        f"<!doctype html><html><head><meta charset=utf-8><title>{page.title} - {host}</title></head><body>"
        f"<nav><a href='/'>Home</a> <a href='/list/0'>Stories</a></nav><main><h1>{page.title}</h1>{body}</main>"
        f"<ul>{links}</ul><footer>Served by {host}</footer></body></html>"
    ).encode()


class SiteServer:
    """The site on loopback, the mirrors on addresses of their own."""

    def __init__(self, size: SiteSize, article: Article = made_article) -> None:
        self._servers = [
            ThreadingHTTPServer((f"127.0.0.{host + 1}", 0), _handler(self, host))
            for host in range(size.mirrors + 1)
        ]
        names = [f"{server.server_address[0]}:{server.server_address[1]}" for server in self._servers]
        self.site = CrawlSite(size, names, article)
        self._threads = [threading.Thread(target=server.serve_forever, args=(0.05,)) for server in self._servers]
        self.answers = threading.Event()
        """Cleared while the site keeps its visitors waiting."""
        self.answers.set()

    @property
    def start(self) -> str:
        """The address of the original's front page."""
        return f"http://{self.site.hosts[0]}/"

    def __enter__(self) -> SiteServer:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.answers.set()
        for server, thread in zip(self._servers, self._threads, strict=True):
            server.shutdown()
            thread.join()
            server.server_close()


def _handler(served: SiteServer, host: int) -> type[BaseHTTPRequestHandler]:
    class SiteHandler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            served.answers.wait()
            page = served.site.get(host, self.path)
            body = b"" if page is None else html(page, served.site.hosts[host])
            self.send_response(404 if page is None else 200)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *arguments: object) -> None:
            """Say nothing."""

    return SiteHandler
