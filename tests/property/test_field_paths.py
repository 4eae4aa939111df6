"""Properties of paths of fields: a page of another form is the page that its fields make in the usual form."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from simstream.model import PageKind, Record
from simstream.wire.field_paths import FIELD_NAMES, parse_paths
from simstream.wire.page import PageLimits, decode
from tests.naive_fields import fits, own_form

names = st.sampled_from(["a", "b", "text", "id"])
leaves = st.one_of(st.none(), st.booleans(), st.integers(-5, 300), st.text(max_size=5), st.floats(0, 9))
trees = st.recursive(
    leaves, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3), max_leaves=12
)
objects = st.dictionaries(names, trees, max_size=4)
path_texts = st.lists(names, min_size=1, max_size=3).map(".".join)
maps = st.dictionaries(st.sampled_from(FIELD_NAMES), path_texts, min_size=1).filter(
    lambda given: "text" not in given or given["text"] != given.get("html")
)


def record(tree: Any, key: bytes | None = None) -> Record:
    return Record("p", 1, 2, key, json.dumps(tree).encode(), (), 3)


@given(objects, maps)
def test_each_field_is_what_the_recursion_finds(tree: dict[str, Any], paths: dict[str, str]) -> None:
    found = parse_paths(paths)
    assert found is not None
    wanted = {name: value for name, value in own_form(tree, paths).items() if value is not None}
    there = {name: value for name, value in found.find_fields(tree).items() if value is not None}
    assert {name: value for name, value in there.items() if name in paths or fits(value, name)} == wanted


@given(objects, maps)
def test_a_page_of_another_form_is_the_page_of_the_usual_form(tree: dict[str, Any], paths: dict[str, str]) -> None:
    page = decode(record(tree), PageLimits(paths=parse_paths(paths)))
    usual = decode(record(own_form(tree, paths)), PageLimits())
    page.detail = usual.detail = ""
    assert page == usual


@given(st.binary(max_size=300), maps)
def test_no_value_raises(value: bytes, paths: dict[str, str]) -> None:
    page = decode(Record("p", 0, 0, b"k", value), PageLimits(paths=parse_paths(paths)))
    assert page.kind is PageKind.READABLE or page.reason or page.kind is PageKind.WITHDRAWN
