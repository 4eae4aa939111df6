"""A crawler loop: fetch pages, ask a running service for each verdict, follow links of copies last.

python examples/crawler.py kafka://127.0.0.1:9092 https://a.example/
"""

from __future__ import annotations

import re
import sys
from collections import Counter, deque
from html import unescape
from http.client import HTTPException
from urllib.parse import quote, urljoin
from urllib.request import urlopen

from simstream import Client, RawPage, RecordTooLarge, SimstreamError, VerdictLate

MAX_PAGES, MAX_BYTES = 200, 4 << 20
LINK = re.compile(rb"""<a\s[^>]*href=["']([^"'#]+)""", re.IGNORECASE)


def fetch(url: str) -> RawPage:
    """Return the page as it came: bytes, type and status."""
    with urlopen(url, timeout=10) as got:
        kind = got.headers.get("Content-Type", "text/html")
        return RawPage(got.url, got.read(MAX_BYTES), kind, status=got.status)


def crawl(client: Client, start: str) -> Counter[str]:
    """Crawl from one address within its site; return how many pages got which verdict."""
    waiting, last, known, kinds, site = deque([start]), deque[str](), {start}, Counter[str](), ""
    followed: dict[str, str] = {}  # the first page of each cluster; others stand for themselves
    while (waiting or last) and kinds.total() < MAX_PAGES:
        url = (waiting or last).popleft()
        try:
            verdict = client.submit(page := fetch(url)).result()
        except (OSError, ValueError, HTTPException, RecordTooLarge, VerdictLate) as error:  # others may be judged
            print(f"{url}: {error}")
            continue
        kinds[verdict.verdict] += 1
        site = site or urljoin(page.url, "/")  # the first page may be redirected
        print(url, verdict.verdict, verdict.near_duplicate_of or "")
        is_copy = followed.setdefault(verdict.cluster_id or verdict.id, verdict.id) != verdict.id
        for link in LINK.findall(page.body):
            target = urljoin(page.url, unescape(link.decode("utf-8", "replace")))
            target = quote(target, safe="%/:?#[]@!$&'()*+,;=~")
            if target.startswith(site) and target not in known:
                known.add(target)
                (last if is_copy else waiting).append(target)
    return kinds


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    try:
        with Client(sys.argv[1], timeout=60) as client:
            print(*(f"{number} {kind}" for kind, number in sorted(crawl(client, sys.argv[2]).items())), sep=", ")
    except SimstreamError as error:  # such as a broker that does not answer
        sys.exit(str(error))
