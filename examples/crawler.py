"""A crawler loop: fetch pages, ask a running service for each verdict, follow links of copies last.

python examples/crawler.py kafka://127.0.0.1:9092 https://a.example/
"""

from __future__ import annotations

import re
import sys
from collections import Counter, deque
from http.client import HTTPException
from urllib.parse import quote, urljoin
from urllib.request import urlopen

from simstream import Client, RawPage, SimstreamError, VerdictLate

MAX_PAGES = 200
LINK = re.compile(rb"""<a\s[^>]*href=["']([^"'#]+)""", re.IGNORECASE)


def fetch(url: str) -> RawPage:
    """Return the page as it came: bytes, type and status."""
    with urlopen(url, timeout=10) as answer:
        return RawPage(url, answer.read(), answer.headers.get("Content-Type", "text/html"), status=answer.status)


def crawl(client: Client, start: str) -> Counter[str]:
    """Crawl from one address within its site; return how many pages got which verdict."""
    waiting, last, known, kinds = deque([start]), deque[str](), {start}, Counter[str]()
    followed: dict[str, str] = {}  # the first page of each cluster; others stand for themselves
    while (waiting or last) and kinds.total() < MAX_PAGES:
        url = (waiting or last).popleft()
        try:
            verdict = client.submit(page := fetch(url)).result()
        except (OSError, ValueError, HTTPException, VerdictLate) as error:  # a site, or a service that is late
            print(f"{url}: {error}")
            continue
        kinds[verdict.verdict] += 1
        print(url, verdict.verdict, verdict.near_duplicate_of or "")
        is_copy = followed.setdefault(verdict.cluster_id or verdict.id, verdict.id) != verdict.id
        for link in LINK.findall(page.body):
            target = quote(urljoin(url, link.decode("utf-8", "replace")), safe="%/:?#[]@!$&'()*+,;=~")
            if target.startswith(urljoin(start, "/")) and target not in known:
                known.add(target)
                (last if is_copy else waiting).append(target)
    return kinds


def main(log: str, start: str) -> None:
    with Client(log, timeout=60) as client:
        print(*(f"{number} {kind}" for kind, number in sorted(crawl(client, start).items())), sep=", ")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    try:
        main(*sys.argv[1:])
    except SimstreamError as error:  # such as a broker that does not answer
        sys.exit(str(error))
