"""Properties of decoding a page: it never raises, and what it says holds together."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from simstream.model import REASONS, PageKind, Record
from simstream.wire.identity_hash import identity_of
from simstream.wire.page import PageLimits, decode, own_name

LIMITS = PageLimits(max_record_bytes=4096)
any_text = st.text(st.characters(), max_size=40)
values = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), any_text, st.lists(any_text, max_size=2))
fields = st.sampled_from(["id", "url", "title", "text", "html", "time", "status", "other"])
objects = st.dictionaries(fields, values, max_size=8)
encoded = st.one_of(
    objects.map(lambda tree: json.dumps(tree).encode()),
    objects.map(lambda tree: json.dumps(tree, ensure_ascii=False).encode("utf-8", "surrogatepass")),
    st.binary(max_size=200),
    st.none(),
)
headers = st.lists(
    st.tuples(
        st.sampled_from(["content-type", "Content-Type", "url", "time", "status"]),
        st.one_of(
            st.binary(max_size=20), st.sampled_from([b"text/html", b"text/plain", b"application/json", b"404"])
        ),
    ),
    max_size=4,
).map(tuple)
records = st.builds(
    Record,
    topic=st.just("p"),
    partition=st.integers(0, 9),
    offset=st.integers(0, 2**60),
    key=st.one_of(st.none(), st.binary(max_size=3000)),
    value=encoded,
    headers=headers,
    timestamp=st.integers(0, 2**41),
)


@given(records)
def test_every_record_gives_a_page_that_can_be_written(record: Record) -> None:
    page = decode(record, LIMITS)
    page.id.encode()
    (page.url or "").encode()
    assert page.id
    assert len(page.identity) == 16
    assert page.reason in REASONS
    assert 0 <= page.time <= max(record.timestamp, 253_402_300_799_999)
    if page.kind is PageKind.READABLE:
        assert (page.text is None) != (page.raw is None)
        assert not page.reason
    else:
        assert page.text is None
        assert page.raw is None
        assert (page.kind is PageKind.WITHDRAWN) == (not page.reason)
    assert (page.kind is PageKind.UNREADABLE) <= bool(page.detail)


@given(st.binary(min_size=1, max_size=5000), encoded)
def test_the_key_alone_decides_the_identity(key: bytes, value: bytes | None) -> None:
    assert decode(Record("p", 0, 0, key, value), LIMITS).identity == identity_of(key)


@given(objects)
def test_a_page_keyed_by_its_own_name_is_the_same_page(tree: dict[str, object]) -> None:
    value = json.dumps(tree).encode()
    name = own_name(value)
    bare = decode(Record("p", 0, 0, None, value), LIMITS)
    keyed = decode(Record("p", 0, 0, name, value), LIMITS)
    assert bare == keyed
    assert name is not None or bare.id == "p/0/0"
