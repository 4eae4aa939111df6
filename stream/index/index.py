"""The index: which live entries are within a distance, and agree in their sketches, of which queries.

Log-structured and in memory: new entries go into a memtable that every query scans; full, it is sealed into a
sorted segment with permuted tables; segments are merged in geometric sizes, dropping what was released.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from stream.errors import SettingsError
from stream.index.entries import Entries
from stream.index.matches import Asked, Found, Matches, Source, ask
from stream.index.memtable import Memtable
from stream.index.merge import Run, first_to_merge, live_run, merged
from stream.index.plan import MAX_DISTANCE, Plan
from stream.index.segment import Segment
from stream.kernels.intern import FIRST_SEGMENT, Keys
from stream.kernels.probe import Wanted
from stream.model import U64, Limits

MEMTABLE_LIMIT = 4096
BLOCK = 512
"""Queries that go through all sources together."""
UNLIMITED = 2**62
Flags = NDArray[np.bool_]
NOBODY: NDArray[np.uint8] = np.empty(0, np.uint8)
"""The flags of pages where nothing tells short ones from others: an empty column, of any block."""


class Index:
    """Entries, one for each distinct (fingerprint, sketch, whether short), and exact search among them.

    `plan` None lets each segment take the cheapest complete plan for its size; no plan changes an answer.
    `sketch_words` S may be 0. `distance` is 0 to 16; `agreement` the least number of equal sketch bits, which
    means nothing where S is 0. `short`: what a pair of which one is short must keep to, at least as strict as the
    others; None: nobody is short, whatever the calls say.
    One thread at a time may change it; queries only read (and count).
    Errors: SettingsError for numbers out of range, or a plan that is not complete for the distance.
    """

    def __init__(
        self,
        plan: Plan | None,
        sketch_words: int,
        distance: int,
        agreement: int,
        memtable_limit: int = MEMTABLE_LIMIT,
        short: Limits | None = None,
    ) -> None:
        _check(sketch_words, Limits(distance, agreement), memtable_limit)
        if short is not None:
            _check_short(sketch_words, Limits(distance, agreement), short)
        if plan is not None:
            plan.flips_for(distance)
        self._plan, self._distance = plan, distance
        self.sketch_words = sketch_words
        """S: 64-bit words of each sketch."""
        self._least = agreement if sketch_words else 0
        self._told_apart = short is not None
        strict = short or Limits(distance, agreement)
        self._strict = strict if sketch_words else Limits(strict.distance, 0)
        self._entries = Entries(sketch_words, self._told_apart)
        self._memtable = Memtable(memtable_limit, distance, self._entries.counters)
        self._segments: list[Segment] = []
        self._released: dict[int, int] = {}
        self._next_tag = FIRST_SEGMENT
        self.candidates = 0
        """Live entries within the distance that queries looked at, before their sketches were compared."""

    def __len__(self) -> int:
        return len(self._entries)

    def bytes(self) -> int:
        """Memory held, in bytes."""
        return self._entries.nbytes() + self._memtable.nbytes() + sum(s.nbytes() for s in self._segments)

    def intern(self, fingerprints: U64, sketches: U64, short: Flags | None = None) -> NDArray[np.int64]:
        """The entry numbers (n,) of fingerprints (n,) with sketches (n, S); new ones are added.

        `short` (n,) says which pages are short; None: none is. A number stays while its entry is not released.
        Cost: about 0.1 us a row, and amortized less than 1 us for sealing and merging; a merge of n entries may
        hold one call up for about 0.1 us x n.
        """
        keys = self._shaped(fingerprints, sketches, short)
        memtable = self._memtable
        return self._entries.intern(keys, memtable.values, memtable.entries, self._seal)

    def release(self, entries: NDArray[np.int64]) -> None:
        """No live page has these entries any more: they vanish from answers now, from memory at a merge.

        Errors: ValueError for a number that is not live or comes twice; nothing is changed then.
        """
        entries = np.ascontiguousarray(entries, np.int64)
        self._entries.release(entries)
        homes = ~self._entries.home[entries]
        tags, counts = np.unique(homes[homes >= FIRST_SEGMENT], return_counts=True)
        for tag, count in zip(tags.tolist(), counts.tolist(), strict=True):
            self._released[tag] = self._released.get(tag, 0) + count
        if len(tags):
            self._drop_half_dead()

    def query(
        self, fingerprints: U64, sketches: U64, short: Flags | None = None, limit: int = 1_000_000
    ) -> Matches:
        """All live entries within the distance of each query (n,) whose sketches (n, S) agree enough.

        Where the query or the entry is short the strict limits count; `short` as for `intern`. Stops before the
        query that would bring more than `limit` matches in total, but answers at least one: call again with the
        rest, from `done` on. A query's matches are ordered by entry number.
        Memory: at most about 24 bytes x `limit` for each of the few segments.
        """
        asked = self._shaped(fingerprints, sketches, short)
        parts: list[tuple[int, U64, NDArray[np.uint32]]] = []
        counts = np.zeros(len(asked.fingerprints), np.int64)
        done, room = 0, max(limit, 0)
        while done < len(counts):
            end = min(done + BLOCK, len(counts))
            answered, keys, facts = self._block(asked, slice(done, end), room)
            if answered == 0 and done == 0:
                end = 1
                answered, keys, facts = self._block(asked, slice(1), UNLIMITED)
            per_query = np.bincount((keys >> np.uint64(32)).astype(np.int64), minlength=answered)
            counts[done : done + answered] = per_query
            parts.append((done, keys, facts))
            done += answered
            room -= len(keys)
            if done < end or room < 0:
                break
        return _matches(done, counts, parts)

    def _block(self, queries: Keys, block: slice, room: int) -> tuple[int, U64, NDArray[np.uint32]]:
        """How many queries of a block fit into `room` matches, and their matches in order."""
        fingerprints = queries.fingerprints[block]
        wanted = Wanted(queries.sketches[block], queries.short[block], self._least, *self._strict)
        asked = Asked(fingerprints, wanted, self._entries.home, self._entries.keys)
        last = len(fingerprints)
        found: list[Found] = []
        sources: list[Source] = [*reversed(self._segments), self._memtable]
        for source in sources:
            last, part = ask(source, asked, last, room)
            found.append(part)
        keys = np.concatenate([f.keys[: f.count] for f in found])
        facts = np.concatenate([f.facts[: f.count] for f in found])
        order = np.argsort(keys)
        keys, facts = keys[order], facts[order]
        ends = np.searchsorted(keys, np.arange(1, last + 1, dtype=np.uint64) << np.uint64(32))
        answered = int(np.searchsorted(ends, room, side="right"))
        kept = int(ends[answered - 1]) if answered else 0
        self.candidates += sum(int(f.candidates[:answered].sum()) for f in found)
        return answered, keys[:kept], facts[:kept]

    def _seal(self) -> None:
        """Make the memtable a segment, together with the segments that are too small to stay beside it."""
        count = len(self._memtable)
        values, entries = self._memtable.values[:count], self._memtable.entries[:count]
        here = self._entries.home[entries] == np.arange(count)
        order = np.argsort(values[here], kind="stable")
        fresh = values[here][order], entries[here][order]
        first = first_to_merge([len(s) for s in self._segments], len(fresh[0]))
        old, self._segments = self._segments[first:], self._segments[:first]
        tag = self._merge(old, [fresh])
        self._entries.move(entries, -1, tag)
        self._memtable.clear()

    def _merge(self, old: list[Segment], more: list[Run]) -> int:
        """Put one segment, of the live entries of old ones and of more, at the end; returns its tag."""
        tag, self._next_tag = self._next_tag, self._next_tag + 1
        runs = [live_run(s, self._entries.home) for s in old] + more
        values, entries = merged(runs)
        for segment in old:
            self._entries.move(segment.entries, segment.tag, tag)
            self._released.pop(segment.tag, None)
        if len(values):
            self._segments.append(Segment(tag, values, entries, self._plan, self._distance))
        return tag

    def _drop_half_dead(self) -> None:
        """Rewrite a segment of whose entries half were released since it was made."""
        segments, self._segments = self._segments, []
        for segment in segments:
            if 2 * self._released.get(segment.tag, 0) > len(segment):
                self._merge([segment], [])
            else:
                self._segments.append(segment)

    def _shaped(self, fingerprints: U64, sketches: U64, short: Flags | None) -> Keys:
        fingerprints = np.ascontiguousarray(fingerprints, np.uint64)
        sketches = np.ascontiguousarray(sketches, np.uint64)
        if sketches.shape != (len(fingerprints), self.sketch_words):
            raise ValueError(f"sketches are {sketches.shape}, not {(len(fingerprints), self.sketch_words)}")
        if not self._told_apart:
            return Keys(fingerprints, sketches, NOBODY)
        flags = np.zeros(len(fingerprints), np.uint8) if short is None else np.ascontiguousarray(short, np.uint8)
        if flags.shape != fingerprints.shape:
            raise ValueError(f"short is {flags.shape}, not {fingerprints.shape}")
        return Keys(fingerprints, sketches, flags)


def _matches(done: int, counts: NDArray[np.int64], parts: list[tuple[int, U64, NDArray[np.uint32]]]) -> Matches:
    starts = np.zeros(done + 1, np.int64)
    np.cumsum(counts[:done], out=starts[1:])
    keys = np.concatenate([k for _, k, _ in parts]) if parts else np.empty(0, np.uint64)
    facts = np.concatenate([f for _, _, f in parts]) if parts else np.empty(0, np.uint32)
    entry = (keys & np.uint64(0xFFFFFFFF)).astype(np.int64)
    return Matches(
        done,
        starts,
        entry,
        (facts >> np.uint32(16)).astype(np.uint8),
        (facts & np.uint32(0xFFFF)).astype(np.uint16),
    )


def _check(sketch_words: int, limits: Limits, memtable_limit: int) -> None:
    if not 0 <= limits.distance <= MAX_DISTANCE:
        raise SettingsError(f"distance {limits.distance} is out of range", f"give 0 to {MAX_DISTANCE}")
    agreement, bits = limits.agreement, 64 * sketch_words
    if not 0 <= sketch_words <= 64 or agreement < 0 or (sketch_words and agreement > bits):
        raise SettingsError(
            f"an agreement of {agreement} bits does not fit a sketch of {bits}",
            "give at most as many bits as the sketch has",
        )
    if not 1 <= memtable_limit <= FIRST_SEGMENT:
        raise SettingsError(f"a memtable of {memtable_limit} is out of range", f"give 1 to {FIRST_SEGMENT}")


def _check_short(sketch_words: int, limits: Limits, short: Limits) -> None:
    _check(sketch_words, short, 1)
    if short.distance > limits.distance or (sketch_words and short.agreement < limits.agreement):
        raise SettingsError(
            f"a distance of {short.distance} and {short.agreement} bits for short pages is less strict than "
            f"{limits.distance} and {limits.agreement}",
            "be at least as strict with short pages",
        )
