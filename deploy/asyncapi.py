"""Describes the service's topics as an AsyncAPI 3 document: what their records hold, and who writes them.

Source: https://www.asyncapi.com/docs/reference/specification/v3.0.0, with the bindings of Kafka.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from simstream.log import base, options
from simstream.model import VerdictKind
from simstream.settings import Settings
from simstream.tools.dead_letters.letters import MARK, REPLAYED_FROM
from simstream.version import __version__
from simstream.wire.page import JSON_TYPE, RAW_TYPES
from simstream.wire.page_headers import FORMAT, FORMAT_NUMBER, VERDICT
from simstream.wire.verdict_schemas import path_of

PREFIX: Final = "simstream"
"""The first part of the topics' names in the document, as in the setting `prefix`."""
BINDING: Final = {"bindingVersion": "0.5.0"}
BYTES: Final = {"type": "string", "format": "binary"}
ID: Final = {"type": "string", "description": "The id of the page."}
NAME: Final = {"type": "string", "description": "The id of the page. Without a key, the field id or url names it."}
KEY: Final = {"type": "string", "description": "The key of the page's record, if it has one."}
TEXT: Final = {"type": "string"}
PASSED: Final = "As the page had it. The setting `verdict_headers` names these headers."
IN_FORM: Final = "What the judge says of a page, if `verdicts_format` is"
AVRO: Final = "application/vnd.apache.avro;version=1.9.0"
PROTOBUF: Final = "application/vnd.google.protobuf;version=3"
CONFLUENT: Final = {
    "schemaIdLocation": "payload",
    "schemaIdPayloadEncoding": "confluent",
    "schemaLookupStrategy": "TopicNameStrategy",
}
"""Where the id of a value's schema is."""
BINARY: Final = "application/octet-stream"
TOPICS: Final = {
    options.PAGES: (
        "Pages in: crawled pages that are to be judged. The service reads committed records.",
        ("page", "fetchedPage", "withdrawal"),
    ),
    options.VERDICTS: (
        "One verdict for each page, exactly once to readers of committed records.",
        ("verdict", "avroVerdict", "protobufVerdict", "registeredVerdict"),
    ),
    options.DEAD_LETTERS: ("The records of unreadable pages.", ("deadLetter", "mark")),
    options.FINGERPRINTS: ("The log: frames of fingerprints. Only simstream reads and writes it.", ("frame",)),
    options.POSITIONS: ("How far the judge has published. Only simstream writes it.", ("position",)),
    options.MATCHES: ("Answers of matchers. Only simstream reads and writes it.", ("answer",)),
}
"""Each topic, what it holds, and its kinds of records."""
OPERATIONS: Final = {
    options.PAGES: ("receive", "Judge the pages that others send."),
    options.VERDICTS: ("send", "Publish verdicts."),
    options.DEAD_LETTERS: ("send", "Append the records of unreadable pages."),
}
"""What the service does with the topics that other programs use, too."""


def make_document() -> dict[str, Any]:
    """Return the whole description. Schemas of JSON values are files beside it."""
    return {
        "asyncapi": "3.0.0",
        "info": {
            "title": "simstream",
            "version": __version__,
            "description": "Tells near-duplicate web pages apart from new ones: one verdict a page, exactly once.",
            "license": {"name": "Apache-2.0"},
        },
        "defaultContentType": JSON_TYPE,
        "channels": {topic: _channel(topic) for topic in TOPICS},
        "operations": {
            f"{action}{_title(topic)}": {
                "action": action,
                "channel": {"$ref": f"#/channels/{topic}"},
                "summary": summary,
            }
            for topic, (action, summary) in OPERATIONS.items()
        },
        "components": {"messages": _messages()},
    }


def _title(topic: str) -> str:
    return topic.title().replace("-", "")


def _channel(topic: str) -> dict[str, Any]:
    sentence, kinds = TOPICS[topic]
    name = f"{PREFIX}.{topic}"
    return {
        "address": name,
        "description": sentence,
        "messages": {kind: {"$ref": f"#/components/messages/{kind}"} for kind in kinds},
        "bindings": {"kafka": {"topic": name, **BINDING}},
    }


def _messages() -> dict[str, Any]:
    raw = _media(RAW_TYPES, "The media type; add the charset if the server names one.")
    url = {"type": "string", "description": "The address of the page."}
    fetched = {"content-type": raw, "url": url, "time": TEXT, "status": TEXT, REPLAYED_FROM: TEXT}
    page = {"content-type": _media([JSON_TYPE], "May be absent."), REPLAYED_FROM: TEXT}
    position = "The next frame of the log, and the ordinal of the next page."
    kind = {"type": "string", "enum": [one.value for one in VerdictKind]}
    passed = {name: {**BYTES, "description": PASSED} for name in Settings().verdict_header_names}
    judged = {VERDICT: kind, FORMAT: {"const": FORMAT_NUMBER.decode()}, **passed}
    return {
        "page": _message("A page as JSON.", _file("page"), NAME, page),
        "fetchedPage": _message(
            "A page as it was fetched.", BYTES, ID, fetched, "text/html", ["content-type"]
        ),
        "withdrawal": _message("Withdraws a page: a record without a value.", {"type": "null"}, ID, {}, ""),
        "verdict": _message("What the judge says of a page.", _file("verdict"), ID, judged),
        "avroVerdict": _registered("avro", _typed(AVRO, "avro"), judged),
        "protobufVerdict": _registered("protobuf", _typed(PROTOBUF, "protobuf"), judged),
        "registeredVerdict": _registered("json_schema", _file("verdict"), judged, JSON_TYPE),
        "deadLetter": _message(
            "The record of a page as it came, with its own headers, and with where it came from.",
            BYTES, KEY, _file("dead-letter"), BINARY,
        ),
        "mark": _message(
            "Says that a dead letter was replayed: a record without a value.",
            {"type": "null"}, KEY, {MARK: TEXT}, "", [MARK],
        ),
        "frame": _message("The fingerprints of many pages; the layout may change.", BYTES, None, {}, BINARY),
        "position": _message(position, _file("position"), {"const": base.POSITION_KEY.decode()}),
        "answer": _message("Matches that one shard found.", BYTES, None, {}, BINARY),
    }  # fmt: skip


def _media(types: Iterable[str], sentence: str) -> dict[str, str]:
    """Return the schema of a header with one of these media types, and maybe parameters."""
    return {"type": "string", "pattern": f"^({'|'.join(types)})( *;.*)?$", "description": sentence}


def _file(name: str) -> dict[str, str]:
    return {"$ref": f"./{name}.schema.json"}


def _typed(kind: str, form: str) -> dict[str, Any]:
    return {"schemaFormat": kind, "schema": {"$ref": f"./{path_of(form).name}"}}


def _registered(
    form: str, payload: dict[str, Any], headers: dict[str, Any], content_type: str = BINARY
) -> dict[str, Any]:
    """Return a verdict whose value begins with the id of its schema."""
    message = _message(f"{IN_FORM} `{form}`.", payload, ID, headers, content_type)
    message["bindings"]["kafka"] |= CONFLUENT
    return message


def _message(
    summary: str,
    payload: dict[str, Any],
    key: dict[str, str] | None,
    headers: dict[str, Any] | None = None,
    content_type: str = JSON_TYPE,
    required: list[str] | None = None,
) -> dict[str, Any]:
    message: dict[str, Any] = {"summary": summary, "payload": payload}
    if content_type:
        message["contentType"] = content_type
    if headers and "$ref" in headers:
        message["headers"] = headers
    elif headers:
        message["headers"] = {"type": "object", "properties": headers, "required": required or []}
    if key:
        message["bindings"] = {"kafka": {"key": key, **BINDING}}
    return message
