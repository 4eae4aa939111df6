"""Saves the waiting links of a stopped crawl in its JOBDIR, and loads them when the crawl goes on."""

from __future__ import annotations

import contextlib
import logging
import pickle
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from scrapy import Request
from scrapy.utils.job import job_dir
from scrapy.utils.request import request_from_dict

logger = logging.getLogger("simstream.crawlers")
FILE = "simstream.links"


class KeptLinks(NamedTuple):
    """The saved state of a stopped crawl."""

    requests: list[Request]
    """The waiting links, in the order in which they were held back."""
    kinds: list[tuple[str, tuple[int, ...]]]
    """The results of each kind of address, see KindYields.records."""
    clusters: list[tuple[str, bytes]]
    """The first page of each cluster, see SeenClusters.records."""
    seen: list[bytes]
    """The sets of what was seen, see SeenSet.bits; none if they are not known."""


class JobFolder:
    """The file with the waiting links in the JOBDIR. Without a JOBDIR nothing is kept.

    Requests are written like Scrapy's own queue: callbacks by name, and all by pickle.
    """

    def __init__(self, crawler: Any) -> None:
        self._crawler = crawler

    def load(self) -> KeptLinks:
        """Return the state of the earlier crawl; nothing if it cannot be read. The file stays until `save`."""
        path = self._path()
        if path is None or not path.exists():
            return KeptLinks([], [], [], [])
        try:
            kept = pickle.loads(path.read_bytes())  # trusted like Scrapy's own queue beside it
            links, kinds, clusters, packed = (*kept, [], [])[:4]  # an older version wrote the first two
            seen = [zlib.decompress(bits) for bits in packed]
        except Exception as error:  # noqa: BLE001  # a damaged pickle raises what it likes
            logger.error("the waiting links in %s cannot be read and are lost (%s)", path, error)
            return KeptLinks([], [], [], [])
        requests = []
        for link in links:
            with contextlib.suppress(Exception):  # a callback may have another name now, or its class raise
                requests.append(request_from_dict(pickle.loads(link), spider=self._crawler.spider))
        if len(requests) < len(links):
            lost = len(links) - len(requests)
            logger.error("%d of the waiting links in %s cannot be read and are lost", lost, path)
        return KeptLinks(requests, kinds, clusters, seen)

    @property
    def has_links(self) -> bool:
        """Return whether a stopped crawl has left links."""
        path = self._path()
        return path is not None and path.exists()

    def save(
        self,
        requests: Iterable[Request],
        kinds: list[tuple[str, tuple[int, ...]]],
        clusters: list[tuple[str, bytes]],
        seen: list[bytes],
    ) -> int:
        """Save the waiting links. Returns how many could not be saved: without a JOBDIR, all."""
        path, waiting = self._path(), list(requests)
        if path is None:
            return len(waiting)
        links = []
        for request in waiting:
            with contextlib.suppress(Exception):  # what a spider puts into `meta` raises what it likes
                links.append(pickle.dumps(request.to_dict(spider=self._crawler.spider)))
        part = path.with_suffix(".part")
        try:
            part.write_bytes(pickle.dumps((links, kinds, clusters, [zlib.compress(bits, 1) for bits in seen])))
            part.replace(path)
        except OSError as error:
            logger.error("the waiting links cannot be written to %s and are lost (%s)", path, error.strerror)
            return len(waiting)
        return len(waiting) - len(links)

    def clear(self) -> None:
        """Remove the file: the crawl is over."""
        path = self._path()
        if path is not None:
            try:
                path.unlink(missing_ok=True)
            except OSError as error:
                logger.warning(
                    "%s cannot be removed (%s): remove it, or the next crawl of this JOBDIR begins with its links",
                    path,
                    error.strerror,
                )

    def _path(self) -> Path | None:
        folder = job_dir(self._crawler.settings)
        return None if folder is None else Path(folder, FILE)
