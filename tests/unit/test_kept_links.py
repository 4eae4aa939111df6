"""A stopped crawl keeps its waiting links, and what kinds of addresses have brought, in its JOBDIR."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest
from scrapy import Request

from simstream.crawlers import jobdir
from simstream.crawlers.jobdir import FILE
from simstream.crawlers.link_router import LinkRouter
from tests.unit.test_link_kinds import TRIALS, begun, followed, page, router, verdict, visited


def in_folder(folder: Path) -> LinkRouter:
    """The router of a crawl that begins, or goes on, in a JOBDIR."""
    links = router()
    links._job._crawler.settings.set("JOBDIR", str(folder))
    links._opened()
    return links


def paths(requests: list[Request]) -> list[str]:
    return [request.url.rpartition("example/")[2] for request in requests]


def test_a_resumed_crawl_has_its_waiting_links_and_its_counts_of_kinds(tmp_path: Path) -> None:
    first = in_folder(tmp_path)
    assert first.held is not None
    for number in range(100, 100 + TRIALS + 4):
        visited(first, number)
    followed(first, page("archive/2"), "near_duplicate", "archive/3", "archive/4")
    assert len(first.held) == 6
    first._closed("shutdown")

    second = in_folder(tmp_path)
    assert second.held is not None
    assert len(second.held) == 6
    assert all(one.bits == other.bits for one, other in zip(second._seen_sets, first._seen_sets, strict=True))
    assert second._clusters.records() == first._clusters.records()
    assert visited(second, 200) == ["about"]  # print pages are still given up
    [request, *_] = taken = second.held.take(99)
    assert paths(taken) == ["archive/3", "archive/4"]
    followed(second, page("article/500", request), "new")
    assert second.held.trials("a.example/archive #?") == TRIALS
    second._closed("finished")
    assert not (tmp_path / FILE).exists()


def too_deep() -> list[object]:
    """A list that cannot be pickled."""
    deep: list[object] = []
    for _ in range(100_000):
        deep = [deep]
    return deep


@pytest.mark.parametrize(
    "unkept", [{"callback": lambda response: None}, {"meta": {"deep": too_deep()}}], ids=["callback", "meta"]
)
def test_links_that_cannot_be_kept_are_counted_and_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, unkept: dict[str, Any]
) -> None:
    links = in_folder(tmp_path)
    linking = begun(links, page("archive/2"), verdict("near_duplicate"))
    links.route(Request("https://a.example/archive/3", **unkept), linking)
    links.route(Request("https://a.example/archive/4"), linking)
    links._closed("shutdown")
    assert "1 waiting links are lost" in caplog.text
    kept = in_folder(tmp_path).held
    assert kept is not None
    assert paths(kept.take(9)) == ["archive/4"]


@pytest.mark.parametrize(
    "content", [b"no pickle", b"\x80\x04s.", pickle.dumps(([], [], [], [b"cut off"])), pickle.dumps(([],))]
)
def test_a_damaged_file_is_reported_and_the_crawl_goes_on_without_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, content: bytes
) -> None:
    (tmp_path / FILE).write_bytes(content)
    links = in_folder(tmp_path)
    assert not links.held
    assert "cannot be read and are lost" in caplog.text


def test_a_file_that_cannot_be_removed_is_named_at_the_end(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    links = in_folder(tmp_path)
    (tmp_path / FILE).mkdir()
    links._closed("finished")
    assert f"{tmp_path / FILE} cannot be removed" in caplog.text


def test_a_crawl_that_fails_to_start_leaves_the_waiting_links_for_the_next(tmp_path: Path) -> None:
    first = in_folder(tmp_path)
    followed(first, page("archive/2"), "near_duplicate", "archive/3", "archive/4")
    first._closed("shutdown")
    failed = router()
    failed._job._crawler.settings.set("JOBDIR", str(tmp_path))
    failed._closed("shutdown")  # Scrapy closes a spider that was never opened
    kept = in_folder(tmp_path).held
    assert kept is not None
    assert len(kept) == 2


def test_a_link_whose_callback_is_gone_is_lost_alone(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = in_folder(tmp_path)
    followed(first, page("archive/2"), "near_duplicate", "archive/3", "archive/4")
    first._closed("shutdown")
    made = jobdir.request_from_dict

    def without_one(link: dict[str, object], **more: object) -> Request:
        if str(link["url"]).endswith("archive/3"):
            raise ValueError("Method 'parse_archive' not found")
        return made(link, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(jobdir, "request_from_dict", without_one)
    kept = in_folder(tmp_path).held
    assert kept is not None
    assert paths(kept.take(9)) == ["archive/4"]
    assert "1 of the waiting links" in caplog.text


def test_a_crawl_that_holds_no_links_leaves_those_of_the_one_before(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    first = in_folder(tmp_path)
    followed(first, page("archive/2"), "near_duplicate", "archive/3", "archive/4")
    first._closed("shutdown")
    other = router(links="follow")
    other._job._crawler.settings.set("JOBDIR", str(tmp_path))
    other._opened()
    other._closed("finished")
    assert (tmp_path / FILE).exists()
    assert "set SIMSTREAM_LINKS to probe or deprioritize" in caplog.text


def test_without_a_jobdir_waiting_links_are_counted_as_lost(caplog: pytest.LogCaptureFixture) -> None:
    links = router()
    followed(links, page("archive/2"), "near_duplicate", "archive/3", "archive/4")
    links._closed("shutdown")
    assert "2 waiting links are lost" in caplog.text
    assert links.channel.counted["links/lost"] == 2  # type: ignore[attr-defined]
