"""Keeps the readers of the schemas that values name, and reads values by them."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Final

from simstream.errors import SettingsError
from simstream.registry.client import ForbiddenSchemaError, RegistryClient, check_files
from simstream.registry.proto_text import with_descriptors
from simstream.settings import Settings
from simstream.wire.avro_value import compile_avro
from simstream.wire.bad_value import BadValueError
from simstream.wire.field_paths import FIELD_NAMES
from simstream.wire.page import PageLimits
from simstream.wire.registered import (
    HEAD_BYTES,
    RegisteredSchema,
    ValueReader,
    bad_schema,
    read_json,
    schema_id_of,
)

MAX_KEPT_BYTES = 16 << 20
"""The bytes of schemas whose readers are kept. A reader takes some ten times the memory of its schema."""
_OWN_BYTES = 1 << 10
"""What a schema counts besides its text."""
_KINDS: Final = {"avro": "AVRO", "protobuf": "PROTOBUF"}


class SchemaAnswer:
    """What asking for an id gave: a reader, or why there is none. `is_final` is false for an unknown id."""

    __slots__ = ("bytes", "detail", "is_final", "read")

    def __init__(self, read: ValueReader | None, detail: str = "", size: int = 0, is_final: bool = True) -> None:
        self.read = read
        self.detail = detail
        self.bytes = size + _OWN_BYTES
        self.is_final = is_final


class SchemaBook:
    """The schemas of one topic's values. `ask` is safe in another thread, the rest for one thread only.

    A schema never changes under its id, so a reader is kept until room is short. That an id is unknown is forgotten
    at the next `begin`: the schema may have been registered since.
    """

    def __init__(
        self, client: RegistryClient, kind: str, compile_schema: Callable[[RegisteredSchema], ValueReader]
    ) -> None:
        self._client = client
        self._kind = kind
        self._compile = compile_schema
        self._kept: OrderedDict[int, SchemaAnswer] = OrderedDict()
        self._bytes = 0
        self._asked: dict[int, SchemaAnswer] = {}

    @property
    def url(self) -> str:
        """The registry's address."""
        return self._client.url or ""

    def ask(self, number: int) -> SchemaAnswer:
        """Ask the registry for a schema. Raises RegistryFailed without a proper answer."""
        try:
            schema = self._client.fetch(number)
            if schema is None:
                return SchemaAnswer(None, f"the schema registry has no schema {number}", is_final=False)
            if schema.kind != self._kind:
                raise bad_schema(f"it is a schema of {schema.kind[:20]}, not of {self._kind}")
            size = len(schema.text) + sum(len(text) for _, text in schema.references)
            return SchemaAnswer(self._compile(schema), size=size)
        except BadValueError as error:
            return SchemaAnswer(None, f"schema {number} cannot be used: {error}")
        except ForbiddenSchemaError:
            why = f"the schema registry does not let simstream read schema {number} (403)"
            return SchemaAnswer(None, why, is_final=False)

    def begin(self) -> None:
        """Begin with other values: forget which ids are unknown."""
        self._asked.clear()

    def keep(self, answers: Mapping[int, SchemaAnswer]) -> None:
        """Take what was asked for. All of it is there until the next `begin`."""
        self._asked.update(answers)
        for number, answer in answers.items():
            if answer.is_final and number not in self._kept:
                self._kept[number] = answer
                self._bytes += answer.bytes
        while self._bytes > MAX_KEPT_BYTES:
            self._bytes -= self._kept.popitem(last=False)[1].bytes

    def unknown_of(self, value: bytes | None) -> int | None:
        """Return the id of the value's schema if the registry has to be asked for it; else None."""
        try:
            number = schema_id_of(value or b"")
        except BadValueError:
            return None
        if number in self._kept:
            self._asked[number] = self._kept[number]  # it stays until these values are read
            self._kept.move_to_end(number)
        return None if number in self._asked else number

    def read(self, value: bytes) -> dict[str, object]:
        """Return the fields of a value. Raises BadValueError, and RegistryFailed if it has to ask in vain."""
        number = schema_id_of(value)
        answer = self._asked.get(number)
        if answer is None:
            if sum(asked.bytes for asked in self._asked.values()) > MAX_KEPT_BYTES:
                self.begin()
            answer = self._kept.get(number) or self.ask(number)
            self.keep({number: answer})
        if answer.read is None:
            raise bad_schema(answer.detail)
        return answer.read(value, HEAD_BYTES)


def check_registry(settings: Settings) -> None:
    """Raise SettingsError or Unavailable if no schema could be asked for under these settings. Asks nobody."""
    if settings.pages_format in _KINDS:
        book_of(settings)
    elif settings.verdicts_format != "json":
        verdict_client_of(settings)
    else:
        check_files(settings.registry)


def book_of(settings: Settings) -> SchemaBook | None:
    """Return the schemas of the topic's values; None if the format needs none to be read. Asks nobody.

    Raises SettingsError, and Unavailable if a package is missing.
    """
    kind = _KINDS.get(settings.pages_format)
    if kind is None:
        return None
    _check_url(settings, "pages_format", settings.pages_format)
    if kind == "AVRO":
        return SchemaBook(RegistryClient(settings.registry), kind, compile_avro)
    client = RegistryClient(settings.registry, is_protobuf=True)
    from simstream.wire.protobuf_value import compile_protobuf  # only now: the package may not be installed

    paths = settings.field_paths
    ways = [way for _, way in paths.steps] if paths else [(name,) for name in FIELD_NAMES]
    return SchemaBook(client, kind, lambda schema: compile_protobuf(ways, with_descriptors(schema)))


def verdict_client_of(settings: Settings) -> RegistryClient:
    """Return the client that registers the schema of verdicts. Asks nobody. Raises SettingsError, Unavailable."""
    _check_url(settings, "verdicts_format", settings.verdicts_format)
    return RegistryClient(settings.registry)


def _check_url(settings: Settings, name: str, value: str) -> None:
    if settings.registry.url is None:
        raise SettingsError(f"{name} is {value}, and no schema registry is named", "set registry.url")


def limits_of(settings: Settings, book: SchemaBook | None = None) -> PageLimits:
    """Return how the pages of the settings' topic are read: by the schemas of `book`, or of a book of its own.

    Reading by a book of its own raises RegistryFailed if a schema is new and the registry gives no proper answer.
    """
    book = book or book_of(settings)
    read = read_json if settings.pages_format == "json_schema" else None
    return PageLimits(
        settings.max_record_bytes, settings.field_paths, book.read if book else read, html_by_kernels=True
    )
