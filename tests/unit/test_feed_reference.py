"""The reference of stories names every field of the news page's JSON, every parameter and every code."""

from __future__ import annotations

import inspect
import json
import re
from pathlib import Path

from simstream.feeds import web_objects
from simstream.feeds.cards import ORDERS
from simstream.feeds.comparison import side_by_side
from simstream.feeds.reasons import CODES
from tests.unit.test_feed_syndication import STORIES, add, body, feed_of
from tests.unit.test_feed_webhook import started

PAGE = (Path(__file__).parents[2] / "docs/reference/stories.md").read_text(encoding="utf-8")


def named(heading: str) -> list[str]:
    """The names in the first cells of the table under a heading."""
    [section] = re.findall(rf"^## {heading}\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL)
    return [
        name for cell in re.findall(r"^\| (`.*?) \|", section, re.MULTILINE) for name in re.findall("`(.*?)`", cell)
    ]


def test_the_reference_has_the_fields_of_every_answer() -> None:
    feed = feed_of(*STORIES)
    listed = json.loads(body(feed, "/api/stories"))
    assert named("List") == [*listed]
    assert all(f"`{name}`" in PAGE for name in listed["left_out"])
    assert all([*one] == named("Story") for one in listed["stories"])
    one = json.loads(body(feed, f"/api/stories/{listed['stories'][0]['id']}"))
    assert [*one] == named("Story") + named("Timeline")
    assert all([*version] == named("Version") for version in one["timeline"])
    compared = side_by_side("one text.", "another text.")
    assert [*compared] == named("Comparison")
    assert all(f"`{name}`" in PAGE for part in (compared["words"], *compared["rows"]) for name in part)


def test_the_reference_has_the_fields_of_a_webhook() -> None:
    feed, events = started(*STORIES, updates=True)
    add(feed, ("https://n.example/1", "Bridge again", 1), ("https://n.example/2", "New", 4))
    told = [json.loads(event.body) for event in events.take()]
    assert sorted(one["type"] for one in told) == ["story.created", "story.updated"]
    for one in told:
        assert [*one] == named("Webhook")
        assert [*one["data"]] == [*named("Story"), "feed_id"]


def test_the_reference_has_every_parameter_and_code() -> None:
    asked = re.findall(r'(?:query\.get\(|\(query, )"(\w+)"|"(hours)"', inspect.getsource(web_objects))
    assert {*named("Parameters")} == {name for pair in asked for name in pair if name}
    assert all(f"`{order}`" in PAGE for order in ORDERS)
    assert sorted(named("Errors")) == sorted(CODES)
