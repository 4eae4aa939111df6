"""Asks processes for their health, and a state folder for its snapshots."""

from __future__ import annotations

import http.client
import time
import urllib.request
from collections.abc import Sequence
from pathlib import Path

import msgspec

from simstream.errors import StateError
from simstream.files import manifest
from simstream.files.file_system import FileSystem
from simstream.telemetry.asking import open_url, reason_of
from simstream.telemetry.health import RoleHealth

TIMEOUT_S = 5.0
MAX_BYTES = 1 << 20


class ProcessStatus(msgspec.Struct, frozen=True):
    """The health of the process at an address. `error` says why it does not answer."""

    address: str
    error: str | None = None
    live: bool = False
    ready: bool = False
    why: str = ""
    roles: dict[str, RoleHealth] = {}


class SnapshotStatus(msgspec.Struct, frozen=True):
    """A snapshot of a state folder. `error` says why it cannot be read."""

    folder: str
    error: str | None = None
    frame: int | None = None
    ordinal: int | None = None
    policy: str | None = None
    age_s: float | None = None


def ask_processes(addresses: Sequence[str]) -> list[ProcessStatus]:
    """Return the answer of each `HOST:PORT` (or URL) at /health. Waits at most TIMEOUT_S for each."""
    return [_ask(address) for address in addresses]


def snapshots_in(folder: str) -> list[SnapshotStatus]:
    """Return the snapshots of a state folder, the newest first. Read-only: a judge may use the folder."""
    now = time.time()
    try:
        found = manifest.read_all(FileSystem(), Path(folder))
    except StateError as error:
        return [SnapshotStatus(folder, str(error))]
    return [
        SnapshotStatus(
            folder,
            frame=each.manifest.facts.get("frame"),
            ordinal=each.manifest.facts.get("ordinal"),
            policy=each.manifest.facts.get("policy"),
            age_s=round(max(0.0, now - each.modified_ns / 1e9), 1),
        )
        for each in found
    ]


def _ask(address: str) -> ProcessStatus:
    url = (address if "://" in address else f"http://{address}").rstrip("/") + "/health"
    try:
        with open_url(urllib.request.Request(url), TIMEOUT_S) as answer:
            said = msgspec.json.decode(answer.read(MAX_BYTES), type=_HealthAnswer)
    except (OSError, ValueError, msgspec.MsgspecError, http.client.HTTPException) as error:
        return ProcessStatus(address, error=reason_of(error))
    return ProcessStatus(address, None, said.live, said.ready, said.why, said.roles)


class _HealthAnswer(msgspec.Struct):
    live: bool
    ready: bool
    why: str
    roles: dict[str, RoleHealth]
