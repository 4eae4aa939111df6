"""The client over a running service, on both logs: each page gets the verdict of its own record."""

from __future__ import annotations

import asyncio
import secrets
import threading
from collections.abc import Iterator
from concurrent.futures import wait
from pathlib import Path

import pytest

from simstream import fingerprint
from simstream.client import AsyncClient, Client, RawPage
from simstream.errors import ClientClosed, ClientFull, RecordTooLarge, VerdictLate
from simstream.log.options import VERDICTS
from tests.e2e.harness import PATIENCE_S, Program, read_topic
from tests.e2e.test_readme import examples
from tests.kafka_fixtures import TopicPlace

STORY = (
    "The night train stops at the mill village again after forty years, and the baker opens before dawn for it. "
    "Two volunteers have swept the platform, mended the clock and painted the bench by the waiting room green. "
    "The first passenger was a piano tuner on her way to the coast, who missed it by a minute and stayed for tea."
)
OTHER = (
    "Divers who came to count seagrass found a harbour wall below the lighthouse, forty metres long and dressed on "
    "its seaward face. A mason thinks it older than the town, since its stones were cut without iron tools. "
    "The council will close the bay to anchors until a survey in spring has said how far the wall goes on."
)


@pytest.fixture(scope="module", params=["local", pytest.param("kafka", marks=pytest.mark.kafka)])
def served(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, cache: Path
) -> Iterator[TopicPlace]:
    """A running service over a log, for all tests of this module."""
    folder = tmp_path_factory.mktemp("client")
    local = request.param == "local"
    address = str(folder / "log") if local else request.getfixturevalue("broker").address
    place = TopicPlace(address, f"c{secrets.token_hex(4)}")
    with place.open() as log:
        log.create_topics(1 if local else 3)
    with Program(folder, cache, place).serve() as service:
        service.ready()
        yield place
        assert service.end() == 0


def name() -> str:
    """A fresh id, since the service's state goes on from test to test."""
    return f"https://a.example/{secrets.token_hex(6)}"


def client(place: TopicPlace, **more: float) -> Client:
    return Client(place.address, place.prefix, timeout=PATIENCE_S, **more)  # type: ignore[arg-type]


def test_a_header_of_a_submitted_page_goes_on_to_the_record_of_its_verdict(served: TopicPlace) -> None:
    own = name()
    with client(served) as pages:
        pages.submit({"id": own, "text": "Too short."}, headers={"traceparent": "00-own", "other": "x"}).result()
    with served.open() as log:
        [record] = [one for one in read_topic(log, VERDICTS) if one.key == own.encode()]
    assert record.headers == (("verdict", b"too_short"), ("simstream-format", b"1"), ("traceparent", b"00-own"))


def test_each_kind_of_page_gets_its_verdict(served: TopicPlace) -> None:
    mark = secrets.token_hex(8)
    with client(served) as pages:
        first = pages.submit({"id": f"{mark}-a", "text": OTHER}).result()
        like = pages.submit({"id": f"{mark}-b", "text": OTHER.replace("forty", "fifty")}).result()
        short = pages.submit({"id": f"{mark}-c", "text": "too few words"}).result()
        bad = pages.submit(RawPage(name(), b"\x89PNG", "image/png")).result()
        gone = pages.submit(RawPage(name(), OTHER.encode(), "text/plain", status=404)).result()
    assert first.verdict in ("new", "near_duplicate")  # of what an earlier test has sent
    assert like.verdict == "near_duplicate"
    assert like.near_duplicate_of is not None
    assert (short.verdict, short.reason) == ("too_short", "few_words")
    assert (bad.verdict, bad.reason) == ("unreadable", "bad_content_type")
    assert (gone.verdict, gone.reason) == ("too_short", "http_status")


def test_versions_of_one_page_that_are_under_way_together_each_get_their_own(served: TopicPlace) -> None:
    texts = [STORY, OTHER] * 20
    own = name()
    with client(served) as pages:
        futures = [pages.submit({"id": own, "text": text}) for text in texts]
        verdicts = [future.result() for future in futures]
    hexes = [f"{value:016x}" for value in fingerprint([STORY, OTHER]).tolist()]
    assert [verdict.fingerprint for verdict in verdicts] == hexes * 20
    offsets = [verdict.source.offset for verdict in verdicts]
    assert offsets == list(range(offsets[0], offsets[0] + 40))


@pytest.mark.parametrize("served", [pytest.param("kafka", marks=pytest.mark.kafka)], indirect=True)
def test_what_others_send_under_the_same_id_is_theirs(served: TopicPlace) -> None:
    own = name()
    with client(served) as one, client(served) as another:
        pairs = [
            (one.submit({"id": own, "text": STORY}), another.submit({"id": own, "text": OTHER})) for _ in range(20)
        ]
        found = [(a.result().fingerprint, b.result().fingerprint) for a, b in pairs]
    story, other = (f"{value:016x}" for value in fingerprint([STORY, OTHER]).tolist())
    assert found == [(story, other)] * 20


def test_a_callback_hears_the_verdict_and_may_submit(served: TopicPlace) -> None:
    heard: list[str] = []
    done = threading.Event()
    with client(served) as pages:

        def again(future: object) -> None:
            heard.append(future.result().verdict)  # type: ignore[attr-defined]
            if len(heard) < 3:
                pages.submit({"id": own, "text": STORY}).add_done_callback(again)
            else:
                done.set()

        own = name()
        pages.submit({"id": own, "text": STORY}).add_done_callback(again)
        assert done.wait(PATIENCE_S)
    assert heard[1:] == ["unchanged", "unchanged"]


def test_the_documents_example_prints_a_verdict_for_each_page(
    served: TopicPlace, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SIMSTREAM_PREFIX", served.prefix)
    code = examples("docs/how-to/client.md", "Client(").replace("kafka://127.0.0.1:9092", served.address)
    exec(compile(code, "client.md", "exec"), {})
    one, other = "https://a.example/1", "https://b.example/2"  # in two partitions: either may be judged first
    assert [line.rstrip() for line in capsys.readouterr().out.splitlines()] in (
        [f"{one} new", f"{other} is like {one}"],
        [f"{one} is like {other}", f"{other} new"],
    )


def test_as_many_pages_as_there_are_pass_through_little_room(served: TopicPlace) -> None:
    with client(served, in_flight=3) as pages:
        futures = [pages.submit({"id": f"{name()}", "text": f"{STORY} {i}"}, wait=PATIENCE_S) for i in range(50)]
        assert len({future.result().source for future in futures}) == 50


def test_asyncio_submits_and_awaits(served: TopicPlace) -> None:
    async def run() -> list[str | None]:
        address, prefix = served.address, served.prefix
        async with AsyncClient(address, prefix, in_flight=2, timeout=PATIENCE_S) as pages:
            judged = [pages.judge({"id": name(), "text": text}, wait=PATIENCE_S) for text in [STORY, OTHER] * 10]
            return [verdict.fingerprint for verdict in await asyncio.gather(*judged)]

    assert asyncio.run(run()) == [f"{value:016x}" for value in fingerprint([STORY, OTHER]).tolist()] * 10


def test_a_page_that_is_too_large_fails_alone(served: TopicPlace) -> None:
    with client(served) as pages:
        futures = [pages.submit({"id": name(), "text": text}) for text in (STORY, "x" * (11 << 20), OTHER)]
        assert futures[0].result().fingerprint
        assert futures[2].result().fingerprint
        with pytest.raises(RecordTooLarge):
            futures[1].result()


def test_without_a_service_room_and_time_are_bounded_and_closing_ends_all(place: TopicPlace) -> None:
    with place.open() as log:
        log.create_topics(1)
    with Client(place.address, place.prefix, in_flight=2, timeout=600) as pages:
        late = [pages.submit({"id": "a", "text": STORY}, timeout=0.5), pages.submit({"id": "b", "text": STORY})]
        with pytest.raises(ClientFull):
            pages.submit({"id": "c", "text": STORY}, wait=0)
        third = pages.submit({"id": "c", "text": STORY}, wait=PATIENCE_S)  # there is room once the first is over
        with pytest.raises(VerdictLate):
            late[0].result()
        assert not late[1].done()
    assert all(future.done() for future in wait([late[1], third], 0).done)
    for future in (late[1], third):
        with pytest.raises(ClientClosed):
            future.result(0)
    with pytest.raises(ClientClosed):
        pages.submit({"id": "d", "text": STORY})
    with place.open() as log:
        assert sum(log.end_offsets("pages").values()) == 3  # they were written all the same


def test_asyncio_without_a_service_is_bounded_likewise(local_place: TopicPlace) -> None:
    async def run() -> None:
        async with AsyncClient(local_place.address, local_place.prefix, in_flight=1) as pages:
            first = await pages.submit({"id": "a", "text": STORY})
            with pytest.raises(ClientFull):
                await pages.submit({"id": "b", "text": STORY}, wait=0.05)
            first.cancel()
        with pytest.raises(ClientClosed):
            await pages.judge({"id": "b", "text": STORY})

    with local_place.open() as log:
        log.create_topics(1)
    asyncio.run(run())
