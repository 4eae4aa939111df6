"""Schemas that a registry gives as the text of .proto files: read as their descriptors are, or refused."""

from __future__ import annotations

import signal
import subprocess
import time
from types import SimpleNamespace
from typing import Any

import pytest

from simstream.errors import RegistryFailed
from simstream.registry import proto_text
from simstream.registry.proto_text import with_descriptors
from simstream.wire.bad_value import BadValueError
from simstream.wire.protobuf_value import compile_protobuf
from simstream.wire.registered import RegisteredSchema
from tests.registered_pages import PROTO_META, PROTO_PAGE, proto_message
from tests.unit.test_protobuf_value import HEAD, PLACE, WAYS, reader

META = ("crawl/meta.proto", PROTO_META)


def refused(text: str, *references: tuple[str, str]) -> str:
    with pytest.raises(BadValueError) as caught:
        with_descriptors(RegisteredSchema("PROTOBUF", text, references))
    assert caught.value.reason == "bad_schema"
    return str(caught.value)


def test_text_of_two_files_reads_pages_as_their_descriptors_do() -> None:
    page = {"text": "one\ntwo", "url": "https://a.example/1", "time": 1_700_000_000_123, "status": 404}
    value = HEAD + PLACE + proto_message(page).SerializeToString()
    schema = with_descriptors(RegisteredSchema("PROTOBUF", PROTO_PAGE, (META,)))
    assert compile_protobuf(WAYS, schema)(value, 5) == reader()(value, 5)
    assert with_descriptors(schema) is schema


def test_a_reference_may_have_the_name_that_the_compiler_gets_for_the_schema() -> None:
    text = 'syntax = "proto3"; import "main.proto"; message Page { Inner body = 1; }'
    schema = RegisteredSchema(
        "PROTOBUF", text, (("main.proto", 'syntax = "proto3"; message Inner { string a = 1; }'),)
    )
    assert compile_protobuf([("body", "a")], with_descriptors(schema))(HEAD + b"\0\x0a\x03\x0a\x01x", 5) == {
        "body": {"a": "x"}
    }


@pytest.mark.parametrize(
    "name",
    [
        "../a.proto",
        "/etc/a.proto",
        "a/../b.proto",
        ".a.proto",
        "a.txt",
        "",
        "a.proto/b.proto",
        "x" * 300,
        "a\n.proto",
    ],
)
def test_a_name_that_leads_elsewhere_is_refused(name: str) -> None:
    assert "no path of a .proto file" in refused("message Page {}", (name, "message A {}"))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("message Page {", "main.proto"),
        ('syntax = "proto3"; import "/etc/passwd"; message Page {}', "/etc/passwd"),
        ('syntax = "proto3"; import "../said"; message Page {}', "../said"),
        ('syntax = "proto3"; import "crawl/gone.proto"; message Page {}', "crawl/gone.proto"),
        ("message M {" * 50_000, "main.proto"),
        ("{" + "\0" * 1_000_000, "main.proto"),
        ("{\ud800", "main.proto"),
    ],
)
def test_text_that_is_malformed_or_asks_for_other_files_is_refused(text: str, said: str) -> None:
    began = time.monotonic()
    why = refused(text)
    assert said in why
    assert "/tmp" not in why
    assert time.monotonic() - began < 20


def test_text_that_costs_too_much_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    endless = proto_text._PROGRAM.replace("sys.exit(", "while True: pass\nsys.exit(")
    monkeypatch.setattr(proto_text, "_PROGRAM", endless.replace('"CPU", 5', '"CPU", 1'))
    assert f"it ends with {-signal.SIGXCPU}" in refused("message Page {}")


def test_text_that_makes_too_much_is_refused_without_a_path_of_this_machine(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    little = proto_text._PROGRAM.replace(str(proto_text.MAX_MADE_BYTES), "100")
    assert little != proto_text._PROGRAM
    monkeypatch.setattr(proto_text, "_PROGRAM", little)
    why = refused(PROTO_PAGE, META)
    assert "made: File too large" in why
    assert "/tmp" not in why


def test_a_compiler_that_cannot_start_is_no_fault_of_the_schema(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise BlockingIOError(11, "Resource temporarily unavailable")

    monkeypatch.setattr(subprocess, "run", full)
    with pytest.raises(RegistryFailed, match="does not work"):
        with_descriptors(RegisteredSchema("PROTOBUF", PROTO_PAGE, (META,)))


@pytest.mark.parametrize(("code", "said"), [(-9, b""), (-15, b"half a line"), (1, b"")])
def test_a_compiler_that_is_killed_or_cannot_write_is_no_fault_of_the_schema(
    monkeypatch: pytest.MonkeyPatch, code: int, said: bytes
) -> None:
    def ended(*_: Any, stdout: Any, **__: Any) -> SimpleNamespace:
        stdout.write(said)
        return SimpleNamespace(returncode=code)

    monkeypatch.setattr(subprocess, "run", ended)
    with pytest.raises(RegistryFailed, match=rf"does not work \(it ends with {code}\)"):
        with_descriptors(RegisteredSchema("PROTOBUF", PROTO_PAGE, (META,)))


def test_a_crash_of_the_compiler_is_the_fault_of_the_schema(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: SimpleNamespace(returncode=-11))
    assert "it ends with -11" in refused("message Page {}")


def test_without_the_compiler_the_page_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proto_text, "find_spec", lambda name: None)
    assert "pip install 'simstream[protoc]'" in refused(PROTO_PAGE, META)
