"""The page store: reading, sealed files, compaction, and what is refused."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import ClassVar

import mmh3
import numpy as np
import pytest

from simstream.errors import StateDamaged, StateError, StateUnwritable
from simstream.files.file_system import FileSystem
from simstream.files.sealed import SealedFile
from simstream.files.sealed import write as write_sealed
from simstream.files.snapshot_part import SnapshotPart
from simstream.judge.pages import chunks
from simstream.judge.pages.chunk import SealedChunk
from simstream.judge.pages.record import PageRecord
from simstream.judge.pages.store import CHUNK_RECORDS, PageStore
from tests.disks import small_disk
from tests.due_pages import due_pages


class PageFiller:
    """Appends pages of made-up content and remembers them by number."""

    def __init__(self, pages: PageStore, sketch_words: int = 3) -> None:
        self.pages = pages
        self.words = sketch_words
        self.known: dict[int, PageRecord] = {}
        self.ordinal = 0
        self.rng = np.random.default_rng(5)

    def append(self, count: int, time: int | None = None, row: int | None = None) -> list[int]:
        """`count` pages with times of their own, or all of one time; rows count up from the ordinal or `row`."""
        rng = self.rng
        ordinals = np.arange(self.ordinal, self.ordinal + count)
        times = ordinals * 10 if time is None else np.full(count, time)
        first = self.ordinal if row is None else row
        ids = [f"https://example.org/{n}/{'页' * (n % 5)}" for n in ordinals]
        raw = [one.encode() for one in ids]
        self.ordinal += count
        columns = {
            "identities": rng.integers(0, 2**64, (count, 2), dtype=np.uint64),
            "fingerprints": rng.integers(0, 2**64, count, dtype=np.uint64),
            "sketches": rng.integers(0, 2**64, (count, self.words), dtype=np.uint64),
            "short": rng.integers(0, 2, count).astype(bool),
            "rows": np.arange(first, first + count, dtype=np.uint32),
        }
        colds = self.pages.append(
            ordinals=ordinals,
            times=times,
            ids=b"".join(raw),
            id_ends=np.cumsum([len(one) for one in raw], dtype=np.uint32),
            **columns,
        ).tolist()
        for i, cold in enumerate(colds):
            self.known[cold] = PageRecord(
                int(ordinals[i]),
                int(ordinals[i]),
                int(times[i]),
                columns["identities"][i].tobytes(),
                int(columns["fingerprints"][i]),
                int.from_bytes(columns["sketches"][i].tobytes(), "little"),
                bool(columns["short"][i]),
                first + i,
                ids[i],
            )
        return colds

    def leave(self, colds: list[int]) -> None:
        self.pages.note_left(np.array(colds, np.uint32))
        for cold in colds:
            del self.known[cold]

    def is_live(self, rows: np.ndarray, colds: np.ndarray) -> np.ndarray:
        pairs = zip(rows.tolist(), colds.tolist(), strict=True)
        return np.array([cold in self.known and self.known[cold].row == row for row, cold in pairs], bool)

    def compact(self) -> int:
        """All steps there are; how many."""
        steps = 0
        while (moves := self.pages.compact(self.is_live)) is not None:
            by_row = {record.row: (cold, record) for cold, record in self.known.items()}
            for row, new in zip(moves.rows.tolist(), moves.colds.tolist(), strict=True):
                old, record = by_row[row]
                del self.known[old]
                self.known[new] = record
            steps += 1
        return steps

    def check(self) -> None:
        self.pages.check()
        for cold, record in self.known.items():
            assert self.pages.read(cold) == record


def store(pages: PageStore, folder: Path, number: int = 0) -> list[SealedFile]:
    """Write all sealed chunks that are not on disk yet, as a snapshot does, and say so."""
    written = []
    for part in pages.parts():
        if not part.changes and part.arrays:
            written.append(write_sealed(FileSystem(), folder / f"{part.name}.{number}.sealed", part))
            pages.read_from_disk(written[-1:])
    return written


@pytest.fixture
def small() -> Iterator[PageFiller]:
    pages = PageStore(3, capacity=64)
    yield PageFiller(pages)
    pages.close()


def test_records_read_as_they_were_appended_in_memory_and_on_disk(small: PageFiller, tmp_path: Path):
    small.append(200)
    small.append(1)
    small.check()
    assert len(store(small.pages, tmp_path)) == 3
    small.check()


@pytest.mark.parametrize("words", [0, 2, 3, 4])
def test_recipes_of_any_sketch_have_their_records(words: int, tmp_path: Path):
    filler = PageFiller(PageStore(words, capacity=16), words)
    filler.append(40)
    store(filler.pages, tmp_path)
    filler.check()


def test_checks_are_those_of_mmh3(small: PageFiller):
    small.append(64)
    small.append(1)
    [part] = [part for part in small.pages.parts() if not part.changes]
    ids = part.arrays["ids"].tobytes()
    for record in part.arrays["records"]:
        raw = record.tobytes()
        assert int(record[-1]) == mmh3.hash64(raw[:-8], 0, True, signed=False)[0]
        start, length = int(record[-3]) >> 32, int(record[-2]) & 0xFFFF
        assert int(record[-2]) >> 32 == mmh3.hash64(ids[start : start + length], 0, True, signed=False)[0] & (
            2**32 - 1
        )


def test_records_of_the_last_append_can_be_amended_and_no_others(small: PageFiller):
    before = small.append(64)
    last = small.append(100)
    small.pages.amend(last[0], age=3)
    small.pages.amend(last[70], age=4, row=9_999)
    small.known[last[0]] = small.known[last[0]]._replace(age=3)
    small.known[last[70]] = small.known[last[70]]._replace(age=4, row=9_999)
    small.check()
    for cold in (before[0], last[0], last[-1]):
        with pytest.raises(ValueError, match="last append"):
            small.pages.amend(cold, age=1)


def test_numbers_ascend_with_ordinals_whatever_slots_they_have(small: PageFiller):
    first = small.append(300)
    small.append(1)
    small.leave(first[:190])
    small.compact()
    small.append(200)
    in_order = sorted(small.known, key=small.pages.order)
    assert [small.known[cold].ordinal for cold in in_order] == sorted(r.ordinal for r in small.known.values())
    assert in_order != sorted(small.known), "the slots of chunks that went were given again"


def test_a_chunk_without_a_live_page_goes_and_half_dead_neighbours_become_one(small: PageFiller):
    colds = small.append(64 * 6 + 1)
    small.append(1)
    small.leave(colds[:64] + colds[64:128:2] + colds[128:192:2])
    assert len(list(small.pages.chunks())) == 7
    assert small.compact() == 1
    assert [len(colds) for colds, _ in small.pages.chunks()] == [64, 64, 64, 64, 2]
    small.check()


def test_nothing_is_looked_at_where_nothing_is_to_do(small: PageFiller):
    colds = small.append(640)
    small.append(1)
    small.compact()
    small.leave(colds[5:8])
    assert not small.pages._look
    small.leave(colds[300:301])
    assert small.pages._look, "a sixteenth of a chunk has left"
    assert small.compact() == 0
    assert not small.pages._look


def test_a_million_recrawls_of_a_thousand_pages_take_bounded_memory_and_disk(tmp_path: Path):
    """Each batch crawls some pages again; now and then chunks go to the disk, and files that no chunk needs go."""
    pages = PageStore(3, capacity=4096)
    rng = np.random.default_rng(2)
    live = np.full(1000, -1, np.int64)
    crawled = most = most_disk = number = 0
    files: dict[str, Path] = {}

    def is_live(rows: np.ndarray, colds: np.ndarray) -> np.ndarray:
        return live[rows] == colds

    while crawled < 1_000_000:
        rows = rng.permutation(1000)[:500].astype(np.uint32)
        ids = b"".join(b"page-%04d" % row for row in rows)
        colds = pages.append(
            ordinals=np.arange(crawled, crawled + 500),
            times=np.arange(crawled, crawled + 500),
            identities=np.tile(rows.astype(np.uint64)[:, None], (1, 2)),
            fingerprints=rows.astype(np.uint64),
            sketches=np.zeros((500, 3), np.uint64),
            short=np.zeros(500, bool),
            rows=rows,
            ids=ids,
            id_ends=np.arange(9, 4501, 9, dtype=np.uint32),
        )
        crawled += 500
        old = live[rows]
        pages.note_left(old[old >= 0].astype(np.uint32))
        live[rows] = colds
        if (moves := pages.compact(is_live)) is not None:
            live[moves.rows] = moves.colds
        if crawled % 50_000 == 0:
            number += 1
            files |= {each.name: each.path for each in store(pages, tmp_path, number)}
            current = {part.name for part in pages.parts()}
            for name in [name for name in files if name not in current]:
                files.pop(name).unlink()
            most_disk = max(most_disk, sum(path.stat().st_size for path in files.values()))
        most = max(most, pages.nbytes())
    pages.check()
    for row, cold in enumerate(live.tolist()):
        assert pages.read(cold).id == f"page-{row:04d}"
    assert most < 20 * 4096 * 150
    assert most_disk < 10 * 4096 * 150
    assert len(files) <= 10
    pages.close()


def test_rewritten_chunks_wait_for_a_snapshot_where_many_are_in_memory(small: PageFiller, tmp_path: Path):
    colds = small.append(64 * 40 + 1)
    store(small.pages, tmp_path)
    small.leave(colds[: 64 * 40 : 2])
    assert small.compact() == 8, "twenty pairs are to be rewritten"
    assert sum(bool(part.arrays) for part in small.pages.parts()) == 1 + 8
    store(small.pages, tmp_path)
    assert small.compact() == 8
    store(small.pages, tmp_path)
    small.compact()
    small.check()
    assert len(list(small.pages.chunks())) == 21


def test_at_most_half_of_all_records_stay_dead_however_far_apart_snapshots_are(tmp_path: Path):
    """Random pages are fetched again. Between two snapshots these fill thirty chunks."""
    filler = PageFiller(PageStore(0, capacity=16), sketch_words=0)
    pages = len(filler.append(100 * 16))
    store(filler.pages, tmp_path)
    for number in range(1, 17):
        for _ in range(30):
            old = filler.rng.permutation(sorted(filler.known))[:16].tolist()
            rows = [filler.known[cold].row for cold in old]
            for cold, row in zip(filler.append(16), rows, strict=True):
                filler.pages.amend(cold, row=row)
                filler.known[cold] = filler.known[cold]._replace(row=row)
            filler.leave(old)
            filler.compact()
        store(filler.pages, tmp_path, number)
    filler.check()
    assert len(filler.known) == pages
    assert sum(len(colds) for colds, _ in filler.pages.chunks()) <= 2.2 * pages
    filler.pages.close()


def test_only_chunks_with_due_records_are_asked(small: PageFiller, monkeypatch: pytest.MonkeyPatch):
    pages = PageStore(0, capacity=1)
    filler = PageFiller(pages, sketch_words=0)
    filler.append(2_001)
    filler.append(1)
    asked = []
    due = SealedChunk.due
    monkeypatch.setattr(SealedChunk, "due", lambda *given: asked.append(given[0]) or due(*given))
    times, *_ = due_pages(pages, 4_999, 5_000)
    assert times.tolist() == [5_000]
    assert len(asked) == 1


def test_due_gives_times_in_order_and_each_once(small: PageFiller, tmp_path: Path):
    for batch in range(20):
        small.append(30, time=None if batch % 3 else 1_000)
    store(small.pages, tmp_path)
    expected = sorted((r.time, r.ordinal, cold, r.row) for cold, r in small.known.items())
    found, after = [], None
    for until in (-5, 0, 40, 999, 1_000, 1_001, 3_000, 3_000, 2**62):
        times, colds, rows, ordinals = due_pages(small.pages, after, until)
        assert all((after is None or after < time) and time <= until for time in times.tolist())
        found += zip(times.tolist(), ordinals.tolist(), colds.tolist(), rows.tolist(), strict=True)
        after = until
    assert found == expected
    times, *_ = due_pages(small.pages, 1_000, 2_000)
    assert times.tolist() == [time for time, *_ in expected if 1_000 < time <= 2_000], "as after a restart"


def test_due_does_not_touch_chunks_without_such_times(small: PageFiller, tmp_path: Path):
    small.append(64 * 4 + 1)
    for file in store(small.pages, tmp_path)[1:]:
        file.path.unlink()
    times, *_ = due_pages(small.pages, None, 630)
    assert len(times) == 64
    with pytest.raises(StateDamaged, match=r"pages-1.*missing"):
        due_pages(small.pages, 630, 640)


def test_a_file_may_be_unlinked_while_it_is_open(small: PageFiller, tmp_path: Path):
    colds = small.append(65)
    [file] = store(small.pages, tmp_path)
    small.pages.read(colds[0])
    file.path.unlink()
    small.check()


def test_no_more_files_are_open_than_the_limit(tmp_path: Path):
    class CountingFiles(FileSystem):
        now = most = 0

        def open(self, path: Path) -> int:
            self.now += 1
            self.most = max(self.most, self.now)
            return super().open(path)

        def close(self, descriptor: int) -> None:
            self.now -= 1
            super().close(descriptor)

    files = CountingFiles()
    pages = PageStore(0, capacity=4, files=files)
    filler = PageFiller(pages, 0)
    filler.append(4 * 300 + 1)
    store(pages, tmp_path)
    filler.check()
    assert files.now == 256
    assert files.most <= 257
    pages.close()
    assert files.now == 0


def test_where_the_process_has_no_descriptor_left_the_oldest_file_is_closed(tmp_path: Path):
    class FewFiles(FileSystem):
        opened: ClassVar[set[int]] = set()

        def open(self, path: Path) -> int:
            if len(self.opened) == 20:
                raise OSError(errno.EMFILE, os.strerror(errno.EMFILE), str(path))
            self.opened.add(descriptor := super().open(path))
            return descriptor

        def close(self, descriptor: int) -> None:
            self.opened.discard(descriptor)
            super().close(descriptor)

    files = FewFiles()
    with closing(PageStore(0, capacity=4, files=files)) as pages:
        filler = PageFiller(pages, 0)
        filler.append(4 * 30 + 1)
        store(pages, tmp_path)
        filler.check()
        assert len(files.opened) == 20


def test_each_chunk_is_looked_up_once_for_all_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    with closing(PageStore(0, capacity=4)) as pages:
        PageFiller(pages, 0).append(4 * 100 + 1)
        parts = [part for part in pages.parts() if not part.changes]
        written = [write_sealed(FileSystem(), tmp_path / f"{part.name}.sealed", part) for part in parts]
        asked = []
        name = SealedChunk.name.fget
        monkeypatch.setattr(SealedChunk, "name", property(lambda chunk: asked.append(chunk) or name(chunk)))
        pages.read_from_disk(written)
        assert len(written) == len(asked) == 100


def test_full_numbers_of_chunks_are_named(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(chunks, "MAX_SLOTS", 3)
    with closing(PageStore(0, capacity=4)) as pages:
        filler = PageFiller(pages, 0)
        filler.append(12)
        with pytest.raises(StateError, match="all 3 chunks of pages are in use: set a window"):
            filler.append(1)


def test_a_disk_that_cannot_be_read_is_named(tmp_path: Path):
    class BrokenFiles(FileSystem):
        number = 5

        def pread_into(self, descriptor: int, target: memoryview, offset: int) -> int:
            raise OSError(self.number, "broken")

        def pread_some(self, descriptor: int, size: int, offset: int) -> bytes:
            raise OSError(self.number, "broken")

    files = BrokenFiles()
    pages = PageStore(3, capacity=64, files=files)
    colds = PageFiller(pages).append(65)
    [file] = store(pages, tmp_path)
    with pytest.raises(StateDamaged, match=str(file.path)):
        pages.read(colds[0])
    files.number = 13
    with pytest.raises(StateUnwritable, match=str(file.path)):
        pages.read(colds[0])


def test_every_byte_that_is_flipped_in_a_sealed_file_is_noticed_when_it_is_read(tmp_path: Path):
    """By what reads it, and by `check`; no byte leads to another answer."""
    pages = PageStore(1, capacity=6)
    filler = PageFiller(pages, 1)
    filler.append(7)
    [file] = store(pages, tmp_path)
    whole = file.path.read_bytes()
    found = set()
    for name, extent in file.layout.items():
        for at in range(extent.offset, extent.offset + extent.nbytes):
            file.path.write_bytes(whole[:at] + bytes([whole[at] ^ (1 << at % 8)]) + whole[at + 1 :])
            pages.read_from_disk([file])  # as after a restart
            with pytest.raises(StateDamaged, match="pages-0"):
                pages.check()
            reads = [lambda one=one: pages.read(one[0]) == one[1] for one in filler.known.items()]
            reads.append(lambda: len(due_pages(pages, None, 10**6)[0]) == 7)
            for read in reads:
                try:
                    same = read()
                except StateDamaged as error:
                    same = str(file.path) in str(error)
                    found.add((name, at))
                assert same
    assert len(found) == sum(extent.nbytes for extent in file.layout.values())


def test_a_file_that_is_cut_off_is_named(small: PageFiller, tmp_path: Path):
    colds = small.append(65)
    [file] = store(small.pages, tmp_path)
    with file.path.open("r+b") as opened:
        opened.truncate(300)
    with pytest.raises(StateDamaged, match=str(file.path)):
        small.pages.read(colds[60])


def test_the_file_of_another_chunk_is_refused(small: PageFiller, tmp_path: Path):
    small.append(64 * 2 + 1)
    files = store(small.pages, tmp_path)
    with pytest.raises(StateDamaged, match="another chunk"):
        small.pages.read_from_disk([files[0]._replace(facts={**files[0].facts, "slot": 7})])
    small.pages.read_from_disk([files[0]._replace(name="pages-77")])
    small.check()


UNFIT = {
    "open": "no changing part, or more than one",
    "two": "no changing part, or more than one",
    "table": "its table of chunks does not fit",
    "chunk": "its table of chunks does not fit",
    "lacking": "it lacks the chunk pages-0",
    "name": "it calls itself pages-1",
    "shape": "do not have the shapes of a chunk",
    "record": "does not agree with its checksum",
    "id": "does not agree with its checksum",
    "live": "out of order, or miscounted",
    "last": "uncounted records",
    "slot": "its chunk pages-0 is another one",
}
"""How parts do not fit, and what is said of it."""


@pytest.mark.parametrize("what", UNFIT)
def test_parts_that_do_not_fit_together_are_refused(small: PageFiller, what: str):
    small.append(64 * 3 + 20)
    parts = small.pages.parts()
    changing, first, second = parts[0], parts[1], parts[2]
    arrays = {name: array.copy() for name, array in changing.arrays.items()}
    facts = dict(changing.facts)
    if what == "open":
        parts = parts[1:]
    elif what == "two":
        parts.append(changing)
        parts[-1] = changing._replace(name="pages-x")
    elif what == "table":
        arrays["chunks"] = arrays["chunks"][:-1]
    elif what == "chunk":
        parts[1] = second
    elif what == "lacking":
        parts[1] = first._replace(name="pages-9")
    elif what == "name":
        parts[1] = SnapshotPart(first.name, first.kind, second.facts, second.arrays)
    elif what == "shape":
        parts[1] = first._replace(arrays={**first.arrays, "due": first.arrays["due"][:-1]})
    elif what == "record":
        arrays["records"][3, 4] += 1
    elif what == "id":
        arrays["ids"][3] ^= 1
    elif what == "live":
        arrays["chunks"][0, 2] = 65
    elif what == "last":
        facts["last"] -= 1
    elif what == "slot":
        arrays["chunks"][0, 1] = 2
    if what not in ("open", "two"):
        parts[0] = changing._replace(arrays=arrays, facts=facts)
    with pytest.raises(StateDamaged, match=UNFIT[what]):
        PageStore(3, capacity=64).restore(parts)


def test_columns_that_do_not_fit_are_refused_before_anything_changes(small: PageFiller):
    small.append(10)
    good = {
        "ordinals": np.array([10, 11]),
        "times": np.array([1, 2]),
        "identities": np.zeros((2, 2), np.uint64),
        "fingerprints": np.zeros(2, np.uint64),
        "sketches": np.zeros((2, 3), np.uint64),
        "short": np.zeros(2, bool),
        "rows": np.zeros(2, np.uint32),
        "ids": b"ab",
        "id_ends": np.array([1, 2], np.uint32),
    }
    for name, bad, said in (
        ("ordinals", np.array([9, 10]), "in the order of their ordinals"),
        ("times", np.array([1]), "do not fit together"),
        ("sketches", np.zeros((2, 2), np.uint64), "do not fit together"),
        ("ids", b"abc", "ids lie one behind the other"),
        ("id_ends", np.array([2, 1], np.uint32), "ids lie one behind the other"),
    ):
        with pytest.raises(ValueError, match=said):
            small.pages.append(**{**good, name: bad})
        small.check()
    with pytest.raises(ValueError, match="no record"):
        small.pages.read(5 << 16)
    with pytest.raises(ValueError, match="no record"):
        small.pages.read(10)
    with pytest.raises(ValueError, match="more records"):
        small.pages.note_left(np.array([0] * 11, np.uint32))


def test_memory_is_let_go_when_a_chunk_is_on_disk(tmp_path: Path):
    pages = PageStore(3)
    PageFiller(pages).append(CHUNK_RECORDS + 1)
    before = pages.nbytes()
    [file] = store(pages, tmp_path)
    assert before > CHUNK_RECORDS * 100
    assert pages.nbytes() < 1000
    assert file.size == file.path.stat().st_size
    pages.close()


def test_memory_is_let_go_when_chunks_spill_and_places_are_used_again(tmp_path: Path):
    pages = PageStore(3, capacity=64)
    pages.spill(tmp_path)
    filler, sizes = PageFiller(pages), list[int]()
    for _ in range(20):
        colds = filler.append(64 * 40)
        filler.append(1)  # seals the last of them
        sizes.append(os.fstat(pages._chunks.spill.descriptor).st_size)
        filler.leave(colds)
        filler.compact()
    assert pages.nbytes() < 64 * 300
    assert sizes[-1] < 1.5 * sizes[1]
    filler.check()
    assert list(tmp_path.iterdir()) == []
    pages.close()


def test_chunks_stay_in_memory_where_no_disk_has_room_for_them(tmp_path: Path):
    pages = PageStore(3, capacity=1024)
    with small_disk(tmp_path, 400):
        pages.spill(tmp_path)
        filler = PageFiller(pages)
        filler.append(5000)
        filler.append(1)
        assert 1024 * 100 < pages.nbytes() < 4 * 1024 * 200, "two chunks have room"
        filler.check()
        pages.close()
    pages = PageStore(3, capacity=1024)
    pages.spill(tmp_path / "missing")
    filler = PageFiller(pages)
    filler.append(2000)
    filler.check()
