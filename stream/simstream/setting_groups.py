"""The groups of settings: each is a table of its own in the settings file."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from simstream.processors import cores

Positive = Annotated[int, Meta(ge=1)]
NotNegative = Annotated[int, Meta(ge=0)]


class FrameSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """When a frame closes."""

    max_bytes: Annotated[int, Meta(ge=1024, le=4 << 20)] = 512 << 10
    """A frame closes at so many bytes."""
    max_pages: Annotated[int, Meta(ge=1, le=100_000)] = 2_000
    """A frame closes at so many pages."""
    linger_ms: Annotated[int, Meta(ge=0, le=1_000)] = 5
    """How long a broker holds pages back to send more at once, in ms. 40 KB of pages, as the log has them, end the
    wait."""


class ExtractSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The processes that parse HTML, for recipes with `extract = "main"` or `"prose"`."""

    workers: NotNegative = msgspec.field(default_factory=cores)
    """Processes that parse HTML for `extract = "main"` or `"prose"` of a recipe; not set: one for each core. 0: the
    service parses in its own process, unprotected. The default recipe needs none."""
    timeout_s: Annotated[float, Meta(ge=0.1, le=3600)] = 2.0
    """The greatest CPU time for one page, in seconds. A page that needs more is `extract_failed`."""
    memory_bytes: Annotated[int, Meta(ge=64 << 20, le=1 << 40)] = 512 << 20
    """The greatest address space of one process. A page that needs more is `extract_failed`."""


class ReadSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How `dedup` reads many files."""

    files: Annotated[int, Meta(ge=1, le=64)] | None = None
    """Files that are read at a time, 1 to 64; not set: 8 with addresses, else 1."""
    ahead_bytes: Annotated[int, Meta(ge=1 << 20, le=1 << 40)] = 64 << 20
    """The greatest size of the pages that were read and wait for their turn, in bytes."""


class DeadLetterSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What many unreadable pages mean."""

    stop_ratio: Annotated[float, Meta(ge=0, le=1)] = 0.0
    """The share of unreadable pages at which the service stops. 0: it never stops for them."""


class FieldSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where the JSON of your own topic has the fields of a page: paths such as `body.content`."""

    text: str | None = None
    """The path of the text in the JSON of `pages`, such as `body.content`; not set: `text`."""
    html: str | None = None
    """The path of the HTML, which counts without text; not set: `html`, or none if `fields.text` is set."""
    id: str | None = None
    """The path of the id, or `header:NAME`; it counts before the key. Not set: the key, else the field `id`."""
    url: str | None = None
    """The path of the URL; not set: `url`."""
    title: str | None = None
    """The path of the title; not set: `title`."""
    time: str | None = None
    """The path of the time; not set: `time`."""
    status: str | None = None
    """The path of the HTTP status; not set: `status`."""


class RegistrySettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The schema registry for the values that `pages_format` and `verdicts_format` name."""

    url: str | None = None
    """The address of the schema registry, such as `https://registry.example:8081`, without user and password."""
    user: str | None = None
    """The user, if the registry asks for one; its password is in `registry.password_file`."""
    password_file: str | None = None
    """A file with the password of `registry.user`."""
    token_file: str | None = None
    """A file with a bearer token, if the registry asks for one."""
    auto_register: bool = True
    """Whether the judge registers the schema of verdicts. If not, it must be there under the topic's subject."""
    ca_file: str | None = None
    """A file of certificates (PEM) that the registry's certificate is checked with; not set: the usual ones."""


class ClusterAlertSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A log line names each cluster that reaches both limits."""

    pages: Positive = 1000
    """A smaller cluster is not named, in live pages."""
    share: Annotated[float, Meta(ge=0, le=1)] = 0.01
    """A cluster with a smaller share of all live pages is not named."""
