"""The published schemas of verdicts, which a schema registry gets. A changed byte would give them another id.

A topic keeps the schema of its first verdict. So a newer schema comes beside the earlier ones, and all of them
stay: a judge goes on with the one that published verdicts have.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from simstream.wire.registered import RegisteredSchema

_FILES: Final = {
    "avro": ("AVRO", ("verdict.avsc",)),
    "protobuf": ("PROTOBUF", ("verdict.proto",)),
    "json_schema": ("JSON", ("verdict.schema.json",)),
}
"""For each `verdicts_format`: the registry's word for it, and the files, the newest first."""


def path_of(verdicts_format: str) -> Path:
    """Return the file with the newest schema of a `verdicts_format`."""
    return _paths_of(verdicts_format)[0]


def text_of(verdicts_format: str) -> str:
    """Return the newest schema of a `verdicts_format`."""
    return _text(path_of(verdicts_format))


def schemas_of(verdicts_format: str) -> list[RegisteredSchema]:
    """Return all schemas of a `verdicts_format`, as a registry gets them, the newest first."""
    return [RegisteredSchema(_FILES[verdicts_format][0], _text(path)) for path in _paths_of(verdicts_format)]


def _paths_of(verdicts_format: str) -> list[Path]:
    folder = Path(__file__).with_name("schemas")
    return [folder / name for name in _FILES[verdicts_format][1]]


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8")
