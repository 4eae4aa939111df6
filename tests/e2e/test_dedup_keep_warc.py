"""`dedup --keep` for web archives: the records of kept pages, byte for byte where the file allows it."""

from __future__ import annotations

import gzip
import json
import lzma
import re
from collections.abc import Callable
from functools import partial
from io import BytesIO
from pathlib import Path
from random import Random
from typing import Any

import pytest
from fastwarc.warc import ArchiveIterator

from simstream.cli.main import invoke
from simstream.files.zstandard import zstd
from simstream.sources.archives.raw_records import IrregularArchive, raw_records
from simstream.tools.dedup.keep import KeepSelector
from tests.archives import PACKINGS, answer, arc, body, pages, warc
from tests.e2e.harness import Program
from tests.e2e.pages import text
from tests.unit.test_archives import lz4, with_dictionary

VERSION = b"filedesc://a.arc 0.0.0.0 20260102030405 text/plain 8\n1 0 test\n"
INFO = warc(b"software: a crawler\r\n", 99, kind=b"warcinfo", media=b"application/warc-fields")


def crawl(numbers: list[int], first: int) -> list[bytes]:
    """A crawl as crawlers write it: warcinfo, then each answer after its request. URLs count from `first`."""
    records = [INFO]
    for at, number in enumerate(numbers, first):
        story = f"<html><p>{text(Random(number))}</p></html>"
        records.append(warc(b"GET / HTTP/1.1\r\n\r\n", at, kind=b"request"))
        records.append(warc(answer(story.encode()), at))
    return records


def packed_anew(record: bytes) -> bytes:
    return gzip.compress(record, 6, mtime=0)


@pytest.mark.parametrize("packed", [False, True])
def test_records_of_kept_pages_are_copied_byte_for_byte(alone: Program, packed: bool) -> None:
    told = [crawl([1, 2, 1, 3], 10), crawl([2, 4, 4, 5], 20)]
    members = [[gzip.compress(one, 1 + at % 9, mtime=at) if packed else one for at, one in enumerate(records)]
               for records in told]  # fmt: skip
    ending = ".warc.gz" if packed else ".warc"
    for name, records in zip("ab", members, strict=True):
        (alone.folder / f"{name}{ending}").write_bytes(b"".join(records))
    done = alone.run("dedup", f"a{ending}", f"b{ending}", "-o", "v.jsonl", "--keep", f"kept{ending}")
    assert done.returncode == 0, done.stderr.decode()
    new = [json.loads(line) for line in (alone.folder / "v.jsonl").read_bytes().splitlines()]
    assert [int(v["id"][-2:]) for v in new if v["verdict"] == "new"] == [10, 11, 13, 21, 23]
    kept = [members[0][2], members[0][4], members[0][8], members[1][4], members[1][8]]
    assert (alone.folder / f"kept{ending}").read_bytes() == b"".join(kept)
    urls = [one.headers["WARC-Target-URI"] for one in ArchiveIterator(BytesIO(b"".join(kept)))]
    assert [int(url[-2:]) for url in urls] == [10, 11, 13, 21, 23]
    again = alone.run("dedup", f"kept{ending}")
    assert again.stdout.count(b'"verdict":"new"') == 5


def test_a_damaged_record_is_left_out_and_those_behind_it_are_packed_anew(alone: Program) -> None:
    records = pages(range(6))
    members = [gzip.compress(record, 1, mtime=7) for record in records]
    broken = members[3][:-9] + bytes(9)
    (alone.folder / "a.warc.gz").write_bytes(b"".join([*members[:3], broken, *members[4:]]))
    done = alone.run("dedup", "a.warc.gz", "-o", "v", "--keep", "kept.warc.gz", "--distance", 0)
    assert done.returncode == 1
    said = done.stderr.decode().splitlines()
    assert "simstream: 5 verdicts in v: 5 new" in said
    assert "a.warc.gz is damaged near byte" in said[-1]
    kept = (alone.folder / "kept.warc.gz").read_bytes()
    assert kept == b"".join([*members[:3], *map(packed_anew, records[4:])])


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"\r\n\r\n", b"\r\n" * 5),
        (b"example/", b"example/\r\n folded"),
        (b"example/", b"example/\rx"),
    ],
)
def test_irregular_records_that_can_be_judged_are_copied(alone: Program, before: bytes, after: bytes) -> None:
    records = pages(range(4))
    head, body = records[1].split(b"\r\n\r\n", 1)
    at_end = before == b"\r\n\r\n"
    records[1] = (
        records[1].removesuffix(before) + after if at_end else head.replace(before, after) + b"\r\n\r\n" + body
    )
    (alone.folder / "a.warc").write_bytes(b"".join(records))
    done = alone.run("dedup", "a.warc", "-o", "v", "--keep", "kept.warc", "--distance", 0)
    assert done.returncode == 0, done.stderr.decode()
    assert (alone.folder / "kept.warc").read_bytes() == b"".join(records)


def test_records_behind_bytes_that_are_no_members_are_kept(alone: Program) -> None:
    first, second = pages(range(6))[:3], pages(range(6))[3:]
    pack = partial(gzip.compress, mtime=0)
    (alone.folder / "a.warc.gz").write_bytes(b"".join(map(pack, first)) + bytes(512))
    (alone.folder / "b.warc.gz").write_bytes(pack(second[0]) + bytes(9) + pack(second[1]))
    (alone.folder / "c.warc.gz").write_bytes(pack(second[2]))
    done = alone.run(
        "dedup", "a.warc.gz", "b.warc.gz", "c.warc.gz", "-o", "v", "--keep", "kept.warc.gz", "--distance", 0
    )
    assert done.returncode == 0, done.stderr.decode()  # zeros belong to no record, and none is missing
    kept = (alone.folder / "kept.warc.gz").read_bytes()
    assert kept == b"".join([*map(pack, first), pack(second[0]), packed_anew(second[1]), pack(second[2])])


UNPACKED: dict[str, Callable[[bytes], bytes]] = {"": bytes, ".gz": gzip.decompress, ".zst": zstd.decompress}


@pytest.mark.parametrize("ending", UNPACKED)
@pytest.mark.parametrize(
    "packed",
    [
        *[
            ("" if name == "plain" else ".zst" if name == "zstd" else ".gz", pack)
            for name, pack in PACKINGS.items()
        ],
        (".zst", with_dictionary),
        (".lz4", lz4),
        (".xz", lambda records: lzma.compress(b"".join(records))),
    ],
)
@pytest.mark.parametrize("record", [warc, arc])
def test_records_of_any_archive_are_packed_as_the_name_of_the_copy_says(
    record: Callable[[bytes, int], bytes],
    packed: tuple[str, Callable[[list[bytes]], bytes]],
    ending: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    name = record.__name__
    first = [VERSION] if record is arc else [INFO]
    records = [record(answer(body(number)), at) for at, number in enumerate([1, 2, 1, 4, 4, 6])]
    source, pack = packed
    Path(f"a.{name}{source}").write_bytes(pack([*first, *records[:4]]))
    Path(f"b.{name}").write_bytes(b"".join([*first, *records[4:]]))
    kept = f"kept.{name}{ending}"
    flags = ["--distance", "0", "-o", "v", "--keep"]
    assert invoke(["dedup", f"a.{name}{source}", f"b.{name}", *flags, kept]) == 0
    wanted = [*(first if record is arc else []), *(records[at] for at in (0, 1, 3, 5))]
    content = Path(kept).read_bytes()
    assert UNPACKED[ending](content) == b"".join(wanted)
    assert invoke(["dedup", kept, *flags, f"again.{name}{ending}"]) == 0
    assert Path(f"again.{name}{ending}").read_bytes() == content


@pytest.mark.parametrize("packed", [False, True])
def test_cut_records_and_wrong_lengths_are_refused(packed: bool) -> None:
    first, second = pages([1, 2])
    pack = gzip.compress if packed else bytes
    for wrong in (second[:-30], re.sub(rb"Length: \d+", b"Length: 999999", second),
                  re.sub(rb"Length: \d+", b"Length: 5", second), re.sub(rb"Length: \d+", b"Length: x", second),
                  b"nothing", *([first + second] if packed else [])):  # fmt: skip
        found = []
        with pytest.raises(IrregularArchive) as raised:
            found.extend(
                record.end for record in raw_records(BytesIO(pack(first) + pack(wrong) + pack(first)), packed)
            )
        assert raised.value.at >= len(pack(first))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            "a.warc.gz --keep kept.warc.lz4",
            "writes WARC, as the inputs are, and kept.warc.lz4 ends otherwise: name a file that ends in .warc,",
        ),
        ("a.warc --keep kept.arc", "name a file that ends in .warc"),
        ("a.arc --keep kept.warc.gz", "name a file that ends in .arc, .arc.gz or .arc.zst"),
        ("a.warc a.arc --keep kept.warc", "the inputs are WARC and ARC files, but --keep writes one format"),
        ("a.warc p.jsonl --keep kept.warc", "the inputs are of several formats"),
    ],
)
def test_archives_and_names_that_do_not_fit_are_refused(
    arguments: str, said: str, refuses: Callable[[str, str], None]
) -> None:
    records = pages([1, 2])
    Path("a.warc").write_bytes(b"".join(records))
    Path("a.warc.gz").write_bytes(b"".join(map(gzip.compress, records)))
    Path("a.arc").write_bytes(b"")
    Path("p.jsonl").write_bytes(b"{}\n")
    refuses(arguments, said)


def test_an_archive_that_changes_leaves_every_output_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, numbers in (("a", [1, 2]), ("b", [3, 4])):
        Path(f"{name}.arc").write_bytes(b"".join([VERSION, *pages(numbers, arc)]))
    choose = KeepSelector.choose

    def changed(*arguments: Any) -> Any:
        with Path("a.arc").open("ab") as file:
            file.write(pages([9], arc)[0])
        return choose(*arguments)

    monkeypatch.setattr(KeepSelector, "choose", changed)
    assert invoke(["dedup", "a.arc", "b.arc", "-o", "v", "--keep", "kept.arc", "--distance", "0"]) == 1
    assert "a.arc changed while it was judged" in capsys.readouterr().err
    assert not [name for name in ("v", "kept.arc") if Path(name).exists()]


LONG_VERSION = b"filedesc://a.arc 0.0.0.0 20260102030405 text/plain %d\n%s\n"


def nameless(record: bytes) -> bytes:
    return record.replace(b"WARC-Target-URI", b"X-URI")


def broken_off() -> list[bytes]:
    """A crawler crashed within a header, and fetched the page again."""
    one, two, three = pages([1, 2, 3])
    cut = re.sub(rb"Length: \d+", b"Length: 100", two[: two.index(b"\r\n\r\n") + 2])
    return [one, cut + two, three]


def one_too_many() -> list[bytes]:
    """The first header is too long for the framer, and no page has a URL."""
    long = pages([9])[0].replace(b"WARC/1.0\r\n", b"WARC/1.0\r\nX-Long: " + b"y" * 70_000 + b"\r\n", 1)
    return [nameless(record) for record in (long, *pages([1, 2, 2, 3, 4]))]


def with_a_space() -> list[bytes]:
    """The blank line behind a header has a space."""
    one, two, three = pages([1, 2, 3])
    return [one, two.replace(b"\r\n\r\nHTTP", b"\r\n \r\nHTTP"), three]


@pytest.mark.parametrize("pack", [bytes, partial(gzip.compress, mtime=0)])
@pytest.mark.parametrize("make", [broken_off, one_too_many, with_a_space])
def test_records_that_a_simpler_reader_takes_for_others_are_copied_as_they_were_judged(
    pack: Callable[[bytes], bytes], make: Callable[[], list[bytes]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    ending = ".warc" if pack is bytes else ".warc.gz"
    Path(f"a{ending}").write_bytes(b"".join(map(pack, make())))
    invoke(["dedup", f"a{ending}", "-o", "v.jsonl", "--keep", f"kept{ending}", "--distance", "0"])
    judged = [json.loads(line) for line in Path("v.jsonl").read_bytes().splitlines()]
    assert invoke(["dedup", f"kept{ending}", "-o", "again.jsonl", "--distance", "0"]) == 0
    again = [json.loads(line) for line in Path("again.jsonl").read_bytes().splitlines()]
    assert {verdict["verdict"] for verdict in again} == {"new"}
    assert [one["fingerprint"] for one in again] == [
        one["fingerprint"] for one in judged if one["verdict"] == "new"
    ]


@pytest.mark.parametrize("version", [LONG_VERSION % (400_000, b"x" * 400_000), LONG_VERSION % (99, b"1 0 test")])
def test_a_version_record_that_cannot_be_copied_whole_is_left_out(
    version: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    records = pages([1, 2], arc)
    Path("a.arc").write_bytes(b"".join([version, *records]))
    monkeypatch.setenv("SIMSTREAM_MAX_RECORD_BYTES", "10000")
    invoke(["dedup", "a.arc", "-o", "v", "--keep", "kept.arc", "--distance", "0"])
    assert Path("kept.arc").read_bytes() == b"".join(records)
