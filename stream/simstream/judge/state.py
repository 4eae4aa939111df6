"""Holds the whole state of a judge: acceptor, index and resolver, as parts of a snapshot and back.

It is a function of the policy and of the frames in the order of the log. It can be written as parts and facts, and
restored from them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any

import msgspec
import numpy as np

from simstream.errors import StateDamaged, WrongLog, WrongPolicy, WrongRecipe
from simstream.files import SnapshotPart
from simstream.files.failures import START_OVER
from simstream.files.file_system import FileSystem
from simstream.files.sealed import SealedFile
from simstream.files.snapshot_part import Fact
from simstream.index.index import Index
from simstream.judge.acceptor import AcceptedPages, Acceptor, IgnoreReason
from simstream.judge.cluster_sizes import SizeAlert
from simstream.judge.expiry import Beat
from simstream.judge.policy import Policy
from simstream.judge.resolver import Resolver
from simstream.model import PYTHON, PageSource, Record, Verdict
from simstream.text.recipe import count_sketch_words, name_recipe
from simstream.wire import frame as frames

MAX_MEMTABLE_ENTRIES = 4096
"""The most entries that every query scans before they are sealed."""


class StateFacts(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The facts of a snapshot besides its parts; `JudgeState.facts` returns them in this form."""

    log_id: str
    """The unique id of its topic `fingerprints`."""
    policy: str
    recipe: str
    sketch_bits: int
    window_ms: int | None
    link: str
    frame: int
    """The next frame of the log."""
    ordinal: int
    digest: str
    positions: list[tuple[str, int, int]]
    """(unique id of the source topic, partition, next offset), in the order in which they began"""
    gaps: list[tuple[str, int, int]]
    stream_time: int | None
    live_pages: int
    fingerprints: Annotated[int, msgspec.Meta(ge=1, le=3)] = 1
    sketch_lookups: Annotated[int, msgspec.Meta(ge=0, le=3)] = 0


class JudgeState:
    """Acceptor, index and resolver of one policy. With `background` a thread does the merges.

    `memtable_limit` changes no verdict, as nothing in the index does. `beat` is called about every tenth of a
    second while very many pages leave the window at once.
    """

    def __init__(
        self,
        policy: Policy,
        alert: SizeAlert | None = None,
        *,
        background: bool = False,
        memtable_limit: int = MAX_MEMTABLE_ENTRIES,
        beat: Beat = lambda: None,
    ) -> None:
        self.policy = policy
        self.acceptor = Acceptor(policy.recipe_id, policy.sketch_words)
        self.index = make_index(policy, background=background, memtable_limit=memtable_limit)
        self.resolver = Resolver(policy, self.index, alert, beat=beat)

    def judge(self, record: Record) -> list[Verdict] | IgnoreReason:
        """Return the verdicts of the log's next record, or why its frame is ignored."""
        accepted = self.accept(record)
        return self.resolve([accepted]) if isinstance(accepted, AcceptedPages) else accepted

    def accept(self, record: Record) -> AcceptedPages | IgnoreReason:
        """Return the accepted pages of the log's next record. All accepted pages must be resolved, in order."""
        return self.acceptor.accept(record.offset, record.value or b"", record.timestamp)

    def resolve(self, accepted: Sequence[AcceptedPages]) -> list[Verdict]:
        """Return the verdicts of successive accepted frames, judged together: each batch costs about an extra
        ms."""
        if not accepted:
            return []
        sources = [
            PageSource(frame.header.topic, frame.header.partition, offset)
            for frame in accepted
            for offset in frame.columns.offset.tolist()
        ]
        columns = frames.join([frame.columns for frame in accepted])
        time = accepted[0].time if len(accepted) == 1 else np.concatenate([frame.time for frame in accepted])
        return self.resolver.judge(columns, time, accepted[0].ordinal, sources)

    def parts(self) -> list[SnapshotPart]:
        """Return the large parts for a snapshot, between two records."""
        return self.resolver.parts()

    def facts(self, log_id: str) -> dict[str, Fact]:
        """Return the other facts for a snapshot, between two records."""
        acceptor, policy, resolver = self.acceptor, self.policy, self.resolver
        facts = StateFacts(
            log_id=log_id,
            policy=policy.id,
            recipe=policy.recipe_id,
            sketch_bits=policy.sketch_bits,
            window_ms=policy.window_ms,
            link=policy.link,
            frame=acceptor.next_frame,
            ordinal=acceptor.ordinal,
            digest=acceptor.digest_hex,
            positions=[(*key, offset) for key, offset in acceptor.positions.items()],
            gaps=[(*key, offset) for key, offset in sorted(acceptor.gaps.items())],
            stream_time=resolver.stream_time,
            live_pages=resolver.live_pages,
            fingerprints=policy.fingerprints,
            sketch_lookups=policy.sketch_lookups,
        )
        made: dict[str, Fact] = msgspec.to_builtins(facts)
        return made

    def restore(self, parts: Sequence[SnapshotPart], facts: Mapping[str, Any], log_id: str) -> None:
        """Take over what `parts` and `facts` returned, before the first page.

        Raises WrongLog, WrongRecipe, WrongPolicy, StateDamaged if it cannot belong to this judge.
        """
        known = state_facts(facts)
        _check_log(known, log_id)
        if known.recipe != self.policy.recipe_id:
            raise WrongRecipe(
                f"the state has recipe {known.recipe}, this judge has recipe {self.policy.recipe_id}",
                f"use {name_recipe(known.recipe)}, or another folder for the state",
            )
        if known.policy != self.policy.id:
            raise WrongPolicy(
                f"the state has policy {known.policy}, this judge has policy {self.policy.id}",
                "use the same distance, similarity, window, link and sketch_lookups (a setting of the recipe), or "
                "another folder for the state",
            )
        _take_up(self.acceptor, known)
        self.resolver.restore(parts, known.stream_time, known.live_pages)

    def read_from_disk(self, files: FileSystem, found: Iterable[SealedFile]) -> None:
        """Read immutable parts from these files from now on, and free their memory."""
        self.resolver.read_from_disk(files, found)

    def check(self) -> None:
        """Check that all its parts agree, for `state verify`. Raises StateDamaged. Cost: linear."""
        self.resolver.check()

    def close(self) -> None:
        """End the thread of merges, and close files."""
        self.resolver.close()


def restore_acceptor(facts: Mapping[str, Any], log_id: str) -> Acceptor:
    """Return the acceptor of a snapshot alone. Raises StateDamaged, and WrongLog for another log."""
    known = state_facts(facts)
    _check_log(known, log_id)
    acceptor = Acceptor(known.recipe, count_sketch_words(known.fingerprints, known.sketch_bits))
    _take_up(acceptor, known)
    return acceptor


def _check_log(known: StateFacts, log_id: str) -> None:
    if known.log_id == log_id:
        return
    if log_id == PYTHON:
        what = f"the folder holds the state of a service over the log {known.log_id}"
        raise WrongLog(what, "give the Deduper a folder of its own")
    if known.log_id == PYTHON:
        raise WrongLog("the folder holds the state of a Deduper, which has no log", "choose another folder")
    raise WrongLog(
        f"the state was made from the log {known.log_id}, this log is {log_id}",
        "choose another folder: this one belongs to another topic fingerprints",
    )


def _take_up(acceptor: Acceptor, known: StateFacts) -> None:
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


def make_index(policy: Policy, *, background: bool = False, memtable_limit: int = MAX_MEMTABLE_ENTRIES) -> Index:
    """Return an empty index for this policy."""
    return Index(
        None,
        policy.sketch_words,
        *policy.limits,
        memtable_limit,
        policy.short_limits,
        further_draws=policy.lookups - 1,
        further_fingerprints=policy.fingerprints - 1,
        background=background,
    )
