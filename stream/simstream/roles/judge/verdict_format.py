"""Finds out how verdicts are encoded: as plain JSON, or by a schema that a schema registry has."""

from __future__ import annotations

import logging
from collections.abc import Callable
from concurrent.futures import wait
from functools import partial
from typing import Final, NamedTuple

from simstream.errors import SchemaRefused, SimstreamError
from simstream.model import Verdict
from simstream.registry.client import RegistryClient
from simstream.registry.schemas import verdict_client_of
from simstream.roles.context import RoleContext
from simstream.roles.judge.log_follower import NAME, wrong_schema
from simstream.roles.registry_inquiry import RegistryInquiry
from simstream.wire.position import Position
from simstream.wire.verdict import encode, encoder_of
from simstream.wire.verdict_schemas import path_of, schemas_of

LOOK_EVERY_S = 0.2
_logger = logging.getLogger("simstream.judge")


class VerdictFormat(NamedTuple):
    """The function that encodes verdicts, and the id of their schema; None for plain JSON."""

    encode: Callable[[Verdict], bytes]
    schema_id: int | None


PLAIN_JSON: Final = VerdictFormat(encode, None)


def find_format(topic: str, published: Position | None, context: RoleContext) -> VerdictFormat | None:
    """Return the format of the verdicts of a topic; None if the service stopped meanwhile.

    Asks the registry for the schema's id, and waits for its answer. If verdicts are published, their schema must be
    there: it is not registered once more. It may be an earlier one than a new topic gets. Raises WrongSchema,
    SchemaRefused, SettingsError, Unavailable; RegistryFailed if there was no proper answer for `give_up_after`.
    """
    name = context.settings.verdicts_format
    if name == "json":
        return PLAIN_JSON
    earlier = published if published is not None and published.ordinal else None
    if earlier is not None and earlier.published_schema is None:
        raise wrong_schema(None, f"verdicts_format is {name}")
    inquiry = _SchemaInquiry(verdict_client_of(context.settings), f"{topic}-value", earlier, context)
    try:
        if not _wait_for(inquiry, context):
            return None
    finally:
        inquiry.cancel()
    inquiry.outcome.result()
    if inquiry.found is None:
        raise _missing(inquiry, name, earlier)
    schema_id, age = inquiry.found
    _logger.info("verdicts are published in %s, by schema %d (%s)", name, schema_id, inquiry.subject)
    return VerdictFormat(encoder_of(name, schema_id, age), schema_id)


def _missing(inquiry: _SchemaInquiry, name: str, earlier: Position | None) -> SimstreamError:
    lacks = f"the schema registry {inquiry.url} has no schema of verdicts in {name} under {inquiry.subject}"
    if earlier is not None:
        return wrong_schema(earlier.published_schema, lacks)
    return SchemaRefused(
        f"{lacks}, and registry.auto_register is false", f"register {path_of(name)} under this subject"
    )


def _wait_for(inquiry: RegistryInquiry, context: RoleContext) -> bool:
    """Return true once the inquiry is done, false if the service stops. Raises RegistryFailed in the end."""
    give_up_s, is_told = context.settings.give_up_s, False
    while not wait([inquiry.outcome], LOOK_EVERY_S).done:
        if context.stop.is_set():
            return False
        failure = inquiry.failure
        why = "waits for the schema of verdicts" + (f": {failure.what}" if failure else "")
        context.health.note_wait(NAME, why, give_up_s)
        if failure is None:
            continue
        if inquiry.silent_s > give_up_s:
            raise failure
        if not is_told:
            _logger.warning("%s; no verdict is published until it answers", failure.what)
            is_told = True
    return True


class _SchemaInquiry(RegistryInquiry):
    """Registers the newest schema of verdicts, or looks up the one that published verdicts have."""

    def __init__(
        self, client: RegistryClient, subject: str, published: Position | None, context: RoleContext
    ) -> None:
        self.found: tuple[int, int] | None = None
        """The id of the published schema, else of the newest one, and how many newer ones there are; None if the
        registry has none."""
        self.subject = subject
        self._client, self._published = client, published
        self._schemas = schemas_of(context.settings.verdicts_format)[: None if published else 1]
        self._registers = context.settings.registry.auto_register and published is None
        super().__init__(client.url or "", context.metrics)

    def work(self) -> None:
        for age, schema in enumerate(self._schemas):
            number = self.insist(partial(self._client.id_of, self.subject, schema, self._registers))
            if self.stop.is_set():
                return
            self.metrics.registry_requests.labels("unknown" if number is None else "found").inc()
            is_published = self._published is not None and number == self._published.published_schema
            if number is not None and (is_published or self.found is None):
                self.found = number, age
            if is_published:
                return
