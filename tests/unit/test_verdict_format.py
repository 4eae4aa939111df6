"""What a judge makes of a registry's answers before its first verdict: each kind from a real server on loopback."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from simstream.errors import RegistryFailed, SchemaRefused, SettingsError, WrongSchema
from simstream.judge.policy import make_policy
from simstream.log.base import Log
from simstream.log.options import FINGERPRINTS
from simstream.roles.context import RoleContext
from simstream.roles.judge.log_follower import PublishedPositionCheck
from simstream.roles.judge.verdict_format import PLAIN_JSON, VerdictFormat, find_format
from simstream.setting_groups import RegistrySettings
from simstream.settings import Settings
from simstream.text.recipe import preset
from simstream.wire import position as positions
from simstream.wire import verdict as wire
from simstream.wire import verdict_avro, verdict_schemas
from simstream.wire.position import Position
from simstream.wire.verdict_schemas import path_of, text_of
from tests.unit.test_schema_registry import AnsweringServer
from tests.unit.test_verdict import EXAMPLE
from tests.waiting import until
from tests.web_server import serving

REGISTER, LOOK_UP = "/subjects/t.verdicts-value/versions", "/subjects/t.verdicts-value"


@pytest.fixture
def server() -> Iterator[AnsweringServer]:
    with serving(AnsweringServer()) as running:
        yield running


def found(server: AnsweringServer, form: str = "avro", registers: bool = True) -> VerdictFormat | None:
    """What a judge finds; it gives up after 0.3 s."""
    return find_format("t.verdicts", None, context(server, form, registers))


def context(
    server: AnsweringServer,
    form: str = "avro",
    registers: bool = True,
    give_up_after: str = "300ms",
    **registry: str,
) -> RoleContext:
    made = RoleContext(
        Settings(
            verdicts_format=form,  # type: ignore[arg-type]
            registry=RegistrySettings(url=server.url, auto_register=registers, **registry),
            give_up_after=give_up_after,
        )
    )
    made.health.expect("judge")
    return made


@pytest.mark.parametrize(("form", "kind"), [("avro", None), ("protobuf", "PROTOBUF"), ("json_schema", "JSON")])
def test_the_schema_is_registered_as_it_is_published(server: AnsweringServer, form: str, kind: str | None) -> None:
    server.answers[REGISTER] = 200, b'{"id": 7}'
    made = found(server, form)
    assert made is not None
    assert made.schema_id == 7
    assert wire.as_json(made.encode(wire.decode(EXAMPLE))) == EXAMPLE
    assert [one["schema"] for one in server.sent] == [text_of(form)]
    assert server.sent[0].get("schemaType", "AVRO") == (kind or "AVRO")


def test_plain_json_asks_no_registry() -> None:
    assert find_format("t.verdicts", None, RoleContext(Settings())) is PLAIN_JSON


def test_a_schema_that_is_not_to_be_registered_is_looked_up(server: AnsweringServer) -> None:
    with pytest.raises(SchemaRefused, match=r"no schema of verdicts in avro under t\.verdicts-value"):
        found(server, registers=False)
    server.answers[LOOK_UP] = (
        200,
        json.dumps({"subject": "t.verdicts-value", "version": 1, "id": 9, "schema": text_of("avro")}).encode(),
    )
    made = found(server, registers=False)
    assert made is not None
    assert made.schema_id == 9
    assert {path.partition("?")[0] for path, _ in server.asked} == {LOOK_UP}


@pytest.mark.parametrize("status", [409, 422])
def test_a_refusal_is_told_with_its_reason(server: AnsweringServer, status: int) -> None:
    body = {"error_code": status, "message": "incompatible:\n" + "x" * 1000}
    server.answers["*"] = status, json.dumps(body).encode()
    with pytest.raises(
        SchemaRefused, match=rf"refuses the schema of t.verdicts-value \({status}: incompatible:x+\)"
    ) as told:
        found(server)
    assert len(told.value.what) < 400
    assert len(server.asked) == 1


@pytest.mark.parametrize(
    "answer",
    [
        (500, b""),
        (404, b'{"error_code": 40401, "message": "no subject"}'),
        (200, b"<html>hello</html>"),
        (200, b"[]"),
        (200, b"{}"),
        (200, b'{"id": "7"}'),
        (200, b'{"id": true}'),
        (200, b'{"id": -1}'),
        (200, b'{"id": 4294967296}'),
    ],
)
def test_an_improper_answer_is_waited_out_and_ends_the_judge_in_time(
    server: AnsweringServer, answer: tuple[int, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("simstream.roles.registry_inquiry.SILENT_S", 600.0)
    server.answers["*"] = answer
    began = time.monotonic()
    with pytest.raises(RegistryFailed, match="the schema registry http://127"):
        find_format("t.verdicts", None, context(server, give_up_after="1s"))
    assert time.monotonic() - began < 60
    assert len(server.asked) > 1


@pytest.mark.parametrize("status", [401, 403])
@pytest.mark.parametrize("registers", [True, False])
def test_a_refused_user_ends_the_judge_at_once(server: AnsweringServer, status: int, registers: bool) -> None:
    server.answers["*"] = status, b'{"error_code": %d, "message": "no"}' % status
    right = "write to" if registers else "read"
    said = rf"answers {status} for the schema of .*: set registry.user .* let this user {right} t.verdicts-value"
    with pytest.raises(SchemaRefused, match=said):
        found(server, registers=registers)
    assert len(server.asked) == 1


def test_a_secret_that_was_replaced_meanwhile_is_read_again(server: AnsweringServer, tmp_path: Path) -> None:
    secret = tmp_path / "token"
    secret.write_text("old")

    def answer(path: str) -> tuple[int, bytes]:
        """Away at first; back with another token, which the file holds by then."""
        secret.write_text("new")
        return (503, b"") if not server.asked else (401, b"") if len(server.asked) == 1 else (200, b'{"id": 7}')

    server.answer = answer  # type: ignore[method-assign]
    made = find_format("t.verdicts", None, context(server, give_up_after="1m", token_file=str(secret)))
    assert made is not None
    assert made.schema_id == 7
    assert [given for _, given in server.asked] == ["Bearer old", "Bearer old", "Bearer new"]


@pytest.mark.parametrize("content", [None, ""])
def test_a_secret_that_is_gone_while_the_user_is_refused_ends_the_judge_by_name(
    server: AnsweringServer, tmp_path: Path, content: str | None
) -> None:
    secret = tmp_path / "password"
    secret.write_text("old")
    asks = context(server, user="u", password_file=str(secret))

    def answer(path: str) -> tuple[int, bytes]:
        secret.unlink() if content is None else secret.write_text(content)
        return 401, b""

    server.answer = answer  # type: ignore[method-assign]
    with pytest.raises(SchemaRefused, match=f"correct registry.user or the password in {secret}"):
        find_format("t.verdicts", None, asks)


def test_a_judge_that_waits_says_so_and_stops_when_asked(server: AnsweringServer) -> None:
    server.answers["*"] = 503, b""
    waiting = context(server, give_up_after="10m")
    ended: list[object] = []
    thread = threading.Thread(target=lambda: ended.append(find_format("t.verdicts", None, waiting)))
    thread.start()
    try:
        until(lambda: "answers 503" in waiting.health.ready()[1], "it says what it waits for")
    finally:
        waiting.stop.set()
        thread.join(60)
    assert ended == [None]
    assert "judge: waits for the schema of verdicts: the schema registry" in waiting.health.ready()[1]


def test_an_answer_that_trickles_counts_as_none(server: AnsweringServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("simstream.roles.registry_inquiry.SILENT_S", 0.2)
    server.answers["*"] = 200, b" " * 60
    server.pause_s = 0.5
    with pytest.raises(RegistryFailed, match="has not answered for"):
        found(server)
    server.pause_s = 0.0


def test_an_answer_in_time_is_taken_after_failures(server: AnsweringServer) -> None:
    server.answers["*"] = 503, b""

    def mend() -> None:
        until(lambda: server.asked, "the registry has failed")
        server.answers[REGISTER] = 200, b'{"id": 7}'

    mending = threading.Thread(target=mend)
    mending.start()
    made = find_format("t.verdicts", None, context(server, give_up_after="10m"))
    mending.join()
    assert made is not None
    assert made.schema_id == 7


def test_no_registry_is_refused_by_name() -> None:
    with pytest.raises(SettingsError, match="verdicts_format is avro, and no schema registry is named"):
        find_format("t.verdicts", None, RoleContext(Settings(verdicts_format="avro")))


@pytest.mark.parametrize(
    ("published", "own", "fits"),
    [(7, 7, True), (None, None, True), (7, 8, False), (7, None, False), (None, 7, False)],
)
def test_a_topic_keeps_its_schema_from_the_first_verdict_on(
    local_log: Log, published: int | None, own: int | None, fits: bool
) -> None:
    policy = make_policy(preset("default"), "0badcafe")
    place = Position(local_log.topic(FINGERPRINTS).id, 3, 42, "d", policy.id)
    check = PublishedPositionCheck(local_log, policy)
    record = positions.with_schema(place, published)
    data = positions.encode(record)
    assert check.decode(data) == record
    check.expect(own, positions.with_schema(Position(place.log_id, 3, 0, "d", policy.id), published))
    if fits:
        check.expect(own, record)
        assert check.decode(data) == record
        return
    with pytest.raises(WrongSchema, match="replay --to"):
        check.decode(data)
    with pytest.raises(WrongSchema, match="replay --to"):
        check.expect(own, record)


@pytest.fixture
def newer(server: AnsweringServer, monkeypatch: pytest.MonkeyPatch) -> str:
    """A newer schema of Avro, as a later version of simstream may bring it. The registry knows both by now."""
    tree = json.loads(text_of("avro"))
    tree["fields"].append({"name": "more", "type": ["null", "string"], "default": None})
    path, text = path_of("avro").with_name("newer.avsc"), json.dumps(tree)
    real, ids = Path.read_text, {text_of("avro"): 7, text: 8}

    def answer(path: str) -> tuple[int, bytes]:
        schema = str(server.sent[-1]["schema"])
        body = {"subject": "t.verdicts-value", "version": 1, "id": ids[schema], "schema": schema}
        return 200, json.dumps(body).encode()

    server.answer = answer  # type: ignore[method-assign]
    monkeypatch.setattr(Path, "read_text", lambda self, **how: text if self == path else real(self, **how))
    monkeypatch.setitem(verdict_schemas._FILES, "avro", ("AVRO", (path.name, "verdict.avsc")))
    encoders = (lambda verdict: verdict_avro.encode(verdict) + b"\0", verdict_avro.encode)
    monkeypatch.setitem(wire._ENCODERS, "avro", encoders)
    return text


@pytest.mark.parametrize(("published", "end"), [(7, b""), (8, b"\0")])
def test_a_topic_keeps_its_schema_when_simstream_has_a_newer_one(
    server: AnsweringServer, newer: str, published: int, end: bytes
) -> None:
    place = positions.with_schema(Position("log", 3, 42, "d", "p"), published)
    made, verdict = find_format("t.verdicts", place, context(server)), wire.decode(EXAMPLE)
    assert made is not None
    assert made.schema_id == published
    assert made.encode(verdict) == b"\0\0\0\0" + bytes([published]) + verdict_avro.encode(verdict) + end
    assert {path.partition("?")[0] for path, _ in server.asked} == {LOOK_UP}


def test_a_new_topic_gets_the_newest_schema(server: AnsweringServer, newer: str) -> None:
    made = found(server)
    assert made is not None
    assert made.schema_id == 8
    assert [one["schema"] for one in server.sent] == [newer]


def test_a_judge_without_the_published_schema_names_both_ids(
    server: AnsweringServer, newer: str, local_log: Log
) -> None:
    policy = make_policy(preset("default"), "0badcafe")
    check = PublishedPositionCheck(local_log, policy)
    place = positions.with_schema(Position(check.log_id, 3, 42, "d", policy.id), 9)
    made = find_format("t.verdicts", place, context(server))
    assert made is not None
    with pytest.raises(WrongSchema, match=r"have schema 9 of the registry, but those of this judge have schema 8"):
        check.expect(made.schema_id, place)


def test_every_schema_has_its_encoder() -> None:
    assert wire._ENCODERS.keys() == verdict_schemas._FILES.keys()
    for form, encoders in wire._ENCODERS.items():
        assert len(encoders) == len(verdict_schemas.schemas_of(form))


def test_behind_published_verdicts_the_schema_is_only_looked_up(server: AnsweringServer) -> None:
    server.answers[REGISTER] = 200, b'{"id": 7}'
    published = positions.with_schema(Position("log", 3, 42, "d", "p"), 7)
    with pytest.raises(
        WrongSchema, match=r"have schema 7 of the registry, but .* has no schema of verdicts in avro"
    ):
        find_format("t.verdicts", published, context(server))
    with pytest.raises(WrongSchema, match="are plain JSON, but verdicts_format is avro"):
        find_format("t.verdicts", Position("log", 3, 42, "d", "p"), context(server))
    assert {path.partition("?")[0] for path, _ in server.asked} == {LOOK_UP}
