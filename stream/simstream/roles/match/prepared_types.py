"""Lets msgspec prepare the types that the threads of several shards decode, before the first of these threads runs.

msgspec 0.22 prepares a type when it is decoded first. If two threads do so at once, one of them may meet a
type that is half prepared, and the process ends with SIGSEGV.
"""

from __future__ import annotations

from typing import Final

import msgspec

from simstream.files.manifest import Manifest
from simstream.files.sealed import _SealedFooter
from simstream.index.fresh_entries import MemtableFacts
from simstream.index.segment import SegmentFacts
from simstream.judge.pages.chunk import ChunkFacts
from simstream.judge.pages.snapshot import OpenFacts
from simstream.judge.state_facts import StateFacts
from simstream.wire.answer import AnswerHeader
from simstream.wire.frame import FrameHeader

TYPES: Final[tuple[type[msgspec.Struct], ...]] = (
    Manifest, _SealedFooter, StateFacts, SegmentFacts, MemtableFacts, OpenFacts, ChunkFacts, FrameHeader,
    AnswerHeader,
)  # fmt: skip


def prepare_types() -> None:
    """Prepare all of them. Call it in one thread."""
    for one in TYPES:
        msgspec.msgpack.Decoder(one)
