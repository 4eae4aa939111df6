"""Asks a schema registry for schemas and their ids, through the Kafka client's own class."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final

from simstream.errors import RegistryFailed, SchemaRefused, SettingsError, needs
from simstream.setting_groups import RegistrySettings
from simstream.wire.bad_value import BadValueError
from simstream.wire.registered import MAX_SCHEMA_ID, RegisteredSchema, bad_schema

TIMEOUT_S = 5.0
"""Seconds that one step of a request may take: to connect, to send, to receive the next bytes."""
MAX_SCHEMA_BYTES = 1 << 20
"""The greatest size of a schema with all schemas that it needs."""
MAX_ANSWER_BYTES = 4 * MAX_SCHEMA_BYTES
"""The greatest size of an answer: a schema in JSON, with quotes and letters as escapes."""
MAX_REFERENCES = 100
"""The most schemas that a schema may need."""
MAX_SECRET_BYTES = 64 << 10
"""The greatest size of a file with a password or a token."""
_NOT_FOUND = (40401, 40402, 40403)
"""A registry's own codes for an unknown subject, version or schema. A 404 without one comes from something else."""
_API_PATH: Final = "/apis/ccompat/v7"
"""Where Apicurio has the API. Confluent's registry has it at the root."""
_REFUSALS = (409, 422)
"""How a registry refuses a schema: it does not fit the earlier ones of its subject, or it cannot be used."""
_WRONG_ANSWERS = (OSError, ValueError, TypeError, AttributeError, KeyError, RecursionError)
"""What an answer that is no JSON, or of another form, causes within the client: it checks no form."""


class _LongAnswerError(Exception):
    """The registry answers with a schema, and the answer has more than `MAX_ANSWER_BYTES`."""


class _DeniedError(RegistryFailed):
    """The registry refuses the user, whose secret is still the one in its file."""


class _ForbiddenError(_DeniedError):
    """The registry knows the user, and refuses this request."""


_DENIALS = {401: _DeniedError, 403: _ForbiddenError}
"""What a registry's refusals of a user mean."""


class ForbiddenSchemaError(Exception):
    """The registry lets this user read other schemas, but not this one."""


class RegistryClient:
    """Fetches schemas by their ids: one request for a schema, and one for each schema that it needs.

    If the registry refuses the user, the next request has the password or token that the file then holds.
    """

    def __init__(self, settings: RegistrySettings, is_protobuf: bool = False) -> None:
        """Raises SettingsError, and Unavailable if a package is missing."""
        with needs("a schema registry", "registry"):
            from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
            from confluent_kafka.schema_registry.common._httpx_compat import httpx
            from confluent_kafka.schema_registry.error import SchemaRegistryError

            if is_protobuf:
                import google.protobuf  # noqa: F401
        self.url = settings.url
        self._settings, self._kind, self._stream_of = settings, SchemaRegistryClient, httpx.ByteStream
        self._format = "serialized" if is_protobuf else None  # a file descriptor, not the text of a .proto file
        self._schema: Any = Schema
        self._refusal: Any = SchemaRegistryError
        self._troubles = (httpx.HTTPError, *_WRONG_ANSWERS)
        self._options = _client_options(settings)
        self._client = self._made()
        self._has_read = False
        """Whether the user could read any schema."""

    def _made(self) -> Any:
        """Return the Kafka client's own object. Raises SettingsError."""
        try:
            made = self._kind(self._options)
        except (ValueError, OSError) as error:  # an SSLError is an OSError
            raise SettingsError(f"[registry] does not work: {error}", "correct its settings") from None
        session = made._rest_client.session  # the class has no limit of its own
        session.headers["accept-encoding"] = "identity"
        session.event_hooks["response"] = [partial(_read_whole, self._stream_of)]
        return made

    def fetch(self, number: int) -> RegisteredSchema | None:
        """Return the schema with this id; None if the registry says that there is none.

        Raises BadValueError if the schema is too large or needs one that is gone, ForbiddenSchemaError, and
        RegistryFailed without a proper answer.
        """
        try:
            schema = self._fetch(number)
        except _ForbiddenError:
            if not self._has_read:
                raise
            raise ForbiddenSchemaError from None  # else a stranger could stop all pages by naming such a schema
        self._has_read |= schema is not None
        return schema

    def _fetch(self, number: int) -> RegisteredSchema | None:
        found = self._asked(f"schema {number}", self._client.get_schema, number, fmt=self._format)
        if found is None:
            return None
        needed: dict[str, str] = {}
        size = len(found.schema_str)
        for name, text in self._needed_by(found, set()):
            needed[name] = text
            size += len(text)
            if size > MAX_SCHEMA_BYTES:
                break
        if size > MAX_SCHEMA_BYTES:
            raise bad_schema(f"schema {number} has more than {MAX_SCHEMA_BYTES:,} bytes")
        return RegisteredSchema(found.schema_type or "AVRO", found.schema_str, tuple(needed.items()))

    def id_of(self, subject: str, schema: RegisteredSchema, registers: bool) -> int | None:
        """Return the id of a schema under a subject; None if it is not there and is not to be registered.

        A registry gives the same schema the same id again. Raises SchemaRefused if the registry does not take it
        or refuses the user, and RegistryFailed without a proper answer.
        """
        what = f"the schema of {subject}"
        sent = self._schema(schema.text, schema.kind)
        self._client.clear_caches()  # a wrong id would stay there
        try:
            found = self._answer(what, self._register if registers else self._client.lookup_schema, subject, sent)
        except BadValueError:
            raise self._failed(f"gives an answer without an end for {what}") from None
        except _DeniedError as error:
            raise SchemaRefused(error.what, self._admission(subject, registers)) from None
        if found is None and not registers:
            return None
        number = getattr(found, "schema_id", None)
        if type(number) is not int or not 0 <= number <= MAX_SCHEMA_ID:
            raise self._failed(f"gives no id for {what}")
        return number

    def _register(self, subject: str, schema: Any) -> Any:
        try:
            return self._client.register_schema_full_response(subject, schema)
        except self._refusal as error:
            if error.http_status_code not in _REFUSALS:
                raise
            why = "".join(filter(str.isprintable, str(error.error_message)))[:200]
            raise SchemaRefused(
                f"the schema registry {self.url} refuses the schema of {subject} ({error.http_status_code}: {why})",
                "see which schemas and which compatibility the subject has",
            ) from None

    def _needed_by(self, schema: Any, seen: set[str]) -> Iterator[tuple[str, str]]:
        """Yield names and texts of the schemas that this one needs, each after its own. Raises BadValueError."""
        for reference in schema.references or ():
            if reference.name in seen:
                continue
            seen.add(reference.name)
            if len(seen) > MAX_REFERENCES:
                raise bad_schema(f"the schema needs more than {MAX_REFERENCES} others")
            what = f"the schema {reference.name}"
            version = reference.subject, reference.version, True, self._format
            found = self._asked(what, self._client.get_version, *version)
            if found is None:
                raise bad_schema(f"the schema needs {reference.name[:200]}, and the registry has no such schema")
            yield from self._needed_by(found.schema, seen)
            yield reference.name, found.schema.schema_str

    def _asked(self, what: str, ask: Any, *values: Any, **options: Any) -> Any:
        """Return a schema; None if the registry knows no such schema. Raises RegistryFailed."""
        found = self._answer(what, ask, *values, **options)
        schema = getattr(found, "schema", found)
        if found is not None and not isinstance(getattr(schema, "schema_str", None), str):
            raise self._failed(f"gives no text for {what}")
        if found is not None and not (
            isinstance(schema.schema_type, str | None)
            and all(isinstance(one.name, str) for one in schema.references or ())
        ):
            raise self._failed(f"gives no proper answer for {what}")
        return found

    def _answer(self, what: str, ask: Any, *values: Any, **options: Any) -> Any:
        """Return the registry's answer; None if it knows no such schema. Raises RegistryFailed."""
        try:
            return ask(*values, **options)
        except _LongAnswerError:
            raise bad_schema(f"{what} comes with more than {MAX_ANSWER_BYTES:,} bytes") from None
        except self._refusal as error:
            if error.http_status_code == 404 and error.error_code in _NOT_FOUND:
                return None
            trouble = f"answers {error.http_status_code} for {what}"
            if error.http_status_code == 404:  # no registry's own: an address without the path of the API
                trouble += f" as no registry does (is {_API_PATH} missing in registry.url?)"
            kind = _DENIALS.get(error.http_status_code)
            raise (self._failed(trouble) if kind is None else self._denied(trouble, kind)) from None
        except self._troubles as error:
            raise self._failed(f"gives no proper answer for {what} ({type(error).__name__}: {error})") from None

    def _failed(self, trouble: str) -> RegistryFailed:
        return RegistryFailed(
            f"the schema registry {self.url} {trouble[:300]}", "see whether it runs, and check [registry]"
        )

    def _denied(self, trouble: str, kind: type[_DeniedError]) -> RegistryFailed:
        """Return the error for a refused user. From now on use the secret that its file holds now."""
        failure = self._failed(trouble)
        try:
            options = _client_options(self._settings)
        except SettingsError:  # the file is being replaced, or gone
            options = self._options
        if options == self._options:
            return kind(failure.what, failure.todo)
        self._options = options
        self._client = self._made()
        return failure

    def _admission(self, subject: str, registers: bool) -> str:
        """Return what an operator does about a refused user."""
        settings = self._settings
        if settings.token_file is not None:
            secret = f"put a valid token into {settings.token_file}"
        elif settings.password_file is not None:
            secret = f"correct registry.user or the password in {settings.password_file}"
        else:
            secret = "set registry.user and registry.password_file, or registry.token_file"
        rights = "write to" if registers else "read"
        return f"{secret}, and let this user {rights} {subject}"


def _read_whole(stream_of: Callable[[bytes], Any], answer: Any) -> None:
    """Read an answer, up to the limit, before httpx does. Raises `_LongAnswerError`; OSError if it is a failure."""
    if answer.headers.get("content-encoding", "identity") != "identity":
        raise OSError("an answer that is compressed, which nobody asked for")
    body = bytearray()
    for piece in answer.stream:
        body += piece
        if len(body) > MAX_ANSWER_BYTES:
            raise _LongAnswerError if answer.is_success else OSError("an answer that does not end")
    answer.stream.close()
    answer.stream = stream_of(bytes(body))


def check_files(settings: RegistrySettings) -> None:
    """Raise SettingsError if the settings contradict one another or name an unreadable file."""
    _client_options(settings)


def _client_options(settings: RegistrySettings) -> dict[str, Any]:
    """Return the options of the Kafka client's class. It never tries again: the callers do."""
    options: dict[str, Any] = {"url": settings.url, "timeout": TIMEOUT_S, "max.retries": 0, "cache.capacity": 1}
    if (settings.user is None) != (settings.password_file is None):
        raise SettingsError("registry.user and registry.password_file belong together", "give both of them")
    if settings.user is not None and settings.token_file is not None:
        raise SettingsError("registry.user and registry.token_file are both set", "give one of them")
    if settings.password_file is not None:
        password = _secret("password_file", settings.password_file)
        options["basic.auth.user.info"] = f"{settings.user}:{password}"
    if settings.token_file is not None:
        options["bearer.auth.credentials.source"] = "STATIC_TOKEN"
        options["bearer.auth.token"] = _secret("token_file", settings.token_file)
        options["bearer.auth.logical.cluster"] = ""
    if settings.ca_file is not None:
        if not Path(settings.ca_file).is_file():
            raise SettingsError(f"registry.ca_file names {settings.ca_file}, which is no file", "name a PEM file")
        options["ssl.ca.location"] = settings.ca_file
    return options


def _secret(name: str, path: str) -> str:
    """Return the content of a file without the space around it. Raises SettingsError."""
    try:
        with Path(path).open("rb") as file:
            text = file.read(MAX_SECRET_BYTES + 1).decode("ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not ASCII"
        raise SettingsError(f"registry.{name} names {path}: {why}", "name a readable ASCII file") from None
    if not text or len(text) > MAX_SECRET_BYTES or not text.isprintable():
        raise SettingsError(f"registry.{name} names {path}, which holds no secret in one line", "put only it there")
    return text
