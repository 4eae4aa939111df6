"""The published schemas of verdicts, which a schema registry gets. A changed byte would give them another id."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from simstream.wire.registered import RegisteredSchema

_FILES: Final = {
    "avro": ("AVRO", "verdict.avsc"),
    "protobuf": ("PROTOBUF", "verdict.proto"),
    "json_schema": ("JSON", "verdict.schema.json"),
}
"""For each `verdicts_format`: the registry's word for it, and the file."""


def path_of(form: str) -> Path:
    """Return the file with the schema of a `verdicts_format`."""
    return Path(__file__).with_name("schemas") / _FILES[form][1]


def text_of(form: str) -> str:
    """Return the schema of a `verdicts_format`."""
    return path_of(form).read_text(encoding="utf-8")


def schema_of(form: str) -> RegisteredSchema:
    """Return the schema of a `verdicts_format`, as a registry gets it."""
    return RegisteredSchema(_FILES[form][0], text_of(form))
