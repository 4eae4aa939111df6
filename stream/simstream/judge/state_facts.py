"""Holds the facts of a snapshot of a judge or of a shard, and restores its acceptor from them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import msgspec

from simstream.errors import StateDamaged, WrongLog
from simstream.files.failures import START_OVER
from simstream.index.shard import MAX_SHARDS
from simstream.judge.acceptor import Acceptor
from simstream.model import PYTHON
from simstream.text.recipe import count_sketch_words

Count = Annotated[int, msgspec.Meta(ge=0, lt=1 << 62)]
"""Ordinals, frames, offsets and numbers of pages."""
Digest = Annotated[str, msgspec.Meta(pattern=r"\A[0-9a-f]{16}\Z")]


class StateFacts(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The facts of a snapshot besides its parts; `LogState.facts` returns them in this form."""

    log_id: str
    """The unique id of its topic `fingerprints`."""
    policy: str
    recipe: str
    sketch_bits: Count
    window_ms: Count | None
    link: str
    frame: Count
    """The next frame of the log."""
    ordinal: Count
    digest: Digest
    positions: list[tuple[str, Count, Count]]
    """(unique id of the source topic, partition, next offset), in the order in which they began"""
    gaps: list[tuple[str, Count, Count]]
    stream_time: Annotated[int, msgspec.Meta(gt=-1 << 62, lt=1 << 62)] | None
    live_pages: Count
    buckets: Annotated[int, msgspec.Meta(ge=1, le=64)] = 8
    """The number of buckets of a window; earlier states do not say it."""
    fingerprints: Annotated[int, msgspec.Meta(ge=1, le=3)] = 1
    sketch_lookups: Annotated[int, msgspec.Meta(ge=0, le=3)] = 0
    shard: Count = 0
    """The number of the shard that the state belongs to."""
    shards: Annotated[int, msgspec.Meta(ge=1, le=MAX_SHARDS)] = 1
    """The number of shards: 1 for a judge with its own index."""
    tables: Count = 0
    """Into how many tables a matcher's shard is cut; earlier states do not say it."""
    answers: tuple[Count, ...] = ()
    """Per partition of `matches` the offset at which a judge without an index goes on; else empty."""
    answers_topic: str = ""
    """The unique id of that topic `matches`; earlier states do not say it."""


def restore_acceptor(facts: Mapping[str, Any], log_id: str) -> Acceptor:
    """Return the acceptor of a snapshot alone. Raises StateDamaged, and WrongLog for another log."""
    known = state_facts(facts)
    check_log_id(known, log_id)
    acceptor = Acceptor(known.recipe, count_sketch_words(known.fingerprints, known.sketch_bits))
    take_up(acceptor, known)
    return acceptor


def check_log_id(known: StateFacts, log_id: str) -> None:
    """Raise WrongLog if the snapshot belongs to another log."""
    if known.log_id == log_id:
        return
    if log_id == PYTHON:
        what = f"the folder holds the state of a service over the log {known.log_id}"
        raise WrongLog(what, "give the Deduper a folder of its own")
    if known.log_id == PYTHON:
        raise WrongLog("the folder holds the state of a Deduper, which has no log", "choose another folder")
    raise WrongLog(
        f"the state was made from the log {known.log_id}, this log is {log_id}",
        "choose another folder, or if that topic fingerprints is gone, delete this one: its state is of no use",
    )


def take_up(acceptor: Acceptor, known: StateFacts) -> None:
    """Let an acceptor go on where the snapshot ends."""
    acceptor.positions = {(topic, partition): offset for topic, partition, offset in known.positions}
    acceptor.gaps = {(topic, partition): offset for topic, partition, offset in known.gaps}
    acceptor.next_frame, acceptor.ordinal = known.frame, known.ordinal
    acceptor.digest = int(known.digest, 16)


def state_facts(facts: Mapping[str, Any]) -> StateFacts:
    """Return the facts of a snapshot. Raises StateDamaged if they are not a judge's facts."""
    own = {name: facts[name] for name in StateFacts.__struct_fields__ if name in facts}
    try:
        return msgspec.convert(own, StateFacts)
    except msgspec.ValidationError as error:
        raise StateDamaged(f"the facts in the state's manifest do not fit ({error})", START_OVER) from error
