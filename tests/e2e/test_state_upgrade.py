"""A state of format 1: refused by name, and upgraded by one command."""

from __future__ import annotations

import re
import shutil
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from simstream import Deduper
from simstream.cli.main import invoke
from simstream.errors import StateDamaged, StateFormat, WrongPolicy, WrongRecipe
from simstream.files.failures import START_OVER
from simstream.files.folder import StateFolder
from simstream.files.snapshot_part import SnapshotPart
from simstream.judge.pages.store import PageStore
from simstream.judge.upgrade import upgraded
from simstream.tools.state.upgrade import upgrade
from simstream.tools.state.verify import verify
from simstream.wire.identity_hash import identity_of
from tests.golden.write_fingerprints import RECIPES

GOLDEN = Path(__file__).parents[1] / "golden" / "format-1" / "state.tar.xz"
"""Of a Deduper with a window of 720 h, chunks of 64 pages and memtables of 64 entries: 200 pages of an hour's ids
`https://news.example/N` (N has the time N s), then page 7 again with status 404, then a mirror of page 9."""


def text(number: int) -> str:
    return " ".join(f"w{(number * 7 + j * 13 + number * j) % 4999}" for j in range(40))


def page(number: int, **more: Any) -> dict[str, Any]:
    return {"id": f"https://news.example/{number}", "time": 300_000 + number, "text": text(number), **more}


@pytest.fixture
def old(tmp_path: Path) -> Path:
    with tarfile.open(GOLDEN) as archive:
        archive.extractall(tmp_path, filter="data")
    return tmp_path / "state-1"


@contextmanager
def opened(folder: Path, cache: Path) -> Iterator[Deduper]:
    """A Deduper with the former recipe `default`."""
    with Deduper(path=folder, recipe=RECIPES["former"], cache=cache, workers=0, window="720h") as deduper:
        yield deduper


def contents(folder: Path) -> dict[str, bytes]:
    return {each.name: each.read_bytes() for each in folder.iterdir() if each.name != "lock"}


def test_the_state_of_an_earlier_format_is_refused_by_name_and_the_advice_works(
    old: Path, cache: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(StateFormat, match=r"0\.1\.0 in format 1.*reads format 2") as error, opened(old, cache):
        pass
    before = contents(old)
    [advice] = re.findall(r"`simstream (state upgrade \S+ NEW)`", str(error.value))
    new = old.parent / "new"
    assert invoke([str(new) if word == "NEW" else word for word in advice.split()]) == 0
    assert "ordinal 202, upgraded from format 1" in capsys.readouterr().out
    assert contents(old) == before, "the old version can go on with it"
    assert invoke(["state", "verify", str(new)]) == 0


def test_an_upgraded_state_knows_every_page_by_its_new_identity(old: Path, cache: Path) -> None:
    new = old.parent / "new"
    done = upgrade(old, new)
    assert (done.number, done.ordinal) == (1, 202)
    with opened(new, cache) as deduper:
        again = deduper.judge([page(number) for number in range(200)])
        mirror, gone = deduper.judge(
            [
                page(9, id="https://mirror.example/9"),
                {"id": "https://news.example/3", "time": 400_000, "status": 404},
            ]
        )
        [copy] = deduper.judge([page(3, id="https://else.example/3")])
    unknown = [verdict.id for verdict in again if verdict.verdict != "unchanged"]
    assert unknown == ["https://news.example/7"], "page 7 had left"
    assert [verdict.ordinal for verdict in again] == list(range(202, 402))
    assert (mirror.verdict, mirror.cluster_id, gone.verdict) == ("unchanged", "9", "too_short")
    assert copy.near_duplicate_of != "https://news.example/3"


def test_an_upgraded_state_is_refused_under_another_recipe_or_policy(old: Path, cache: Path) -> None:
    new = old.parent / "new"
    upgrade(old, new)
    stricter = replace(RECIPES["former"], distance=4)
    for recipe, wrong, advice in (
        ("default", WrongRecipe, "use a recipe file with base"),
        (stricter, WrongPolicy, "use the same distance"),
    ):
        refused = pytest.raises(wrong, match=advice)
        with refused, Deduper(path=new, recipe=recipe, cache=cache, workers=0, window="720h"):
            pass
    with opened(new, cache) as deduper:
        assert [verdict.verdict for verdict in deduper.judge([page(1)])] == ["unchanged"]


def test_an_upgraded_state_is_kept_in_the_current_format_and_goes_on(old: Path, cache: Path) -> None:
    new = old.parent / "new"
    upgrade(old, new)
    with opened(new, cache) as deduper:
        deduper.judge([page(number) for number in range(100)])
    with opened(new, cache) as deduper:
        verdicts = deduper.judge([page(number) for number in range(0, 200, 3)])
    assert {verdict.verdict for verdict in verdicts} == {"unchanged"}
    assert verify(new).wrong == []
    with StateFolder(new) as folder:
        loaded = folder.load()
    assert loaded is not None
    for part in loaded.parts:
        if part.kind in PageStore.KINDS and "records" in part.arrays:
            assert identities(part), part.name


def identities(part: SnapshotPart) -> bool:
    """Whether each record of a chunk has the identity of its id."""
    store = PageStore(part.arrays["records"].shape[1] - 9)
    records = part.arrays["records"].copy().reshape(-1).view(store._chunks.layout.dtype)
    ids = part.arrays["ids"].tobytes()
    raw = [ids[r["id_start"] : r["id_start"] + r["id_length"]] for r in records]
    return [r["identity"].tobytes() for r in records] == [identity_of(each) for each in raw]


def test_an_upgrade_that_was_broken_off_is_repeated_and_one_that_is_done_is_not(old: Path, cache: Path) -> None:
    new = old.parent / "new"
    upgrade(old, new)
    (new / "manifest").unlink()  # as if it had been killed just before its last step
    upgrade(old, new)
    assert verify(new).wrong == []
    assert invoke(["state", "upgrade", str(old), str(new)]) == 2
    assert invoke(["state", "upgrade", str(new), str(old.parent / "newer")]) == 2
    assert invoke(["state", "upgrade", str(old), str(old)]) == 1
    assert invoke(["state", "upgrade", str(old.parent / "gone"), str(new)]) == 2


def flip_a_bit(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 4
    path.write_bytes(data)


@pytest.mark.parametrize(
    "names", [["manifest", "manifest.previous"], ["pages-1.1.sealed"], ["segment-0.1.sealed"]], ids=str
)
def test_a_state_without_a_whole_snapshot_is_not_upgraded(old: Path, names: list[str]) -> None:
    for name in names:
        flip_a_bit(old / name)
    with pytest.raises(StateDamaged, match=names[0]) as raised:
        upgrade(old, old.parent / "new")
    assert raised.value.todo == START_OVER, "no other command reads this format"
    assert not (old.parent / "new" / "manifest").exists()


@pytest.mark.parametrize("name", ["manifest", "blocks-2.2.sealed"])
def test_the_snapshot_before_a_damaged_one_is_upgraded_and_the_command_says_so(
    old: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    flip_a_bit(old / name)
    before, new = contents(old), old.parent / "new"
    assert invoke(["state", "upgrade", str(old), str(new)]) == 0
    said = capsys.readouterr()
    assert f"{name} is damaged" in said.err
    assert "ordinal 150, upgraded from format 1" in said.out
    assert contents(old) == before
    assert verify(new).wrong == []


def test_a_record_that_its_own_check_refutes_is_not_given_a_new_one() -> None:
    records = np.ones((1, 11), np.uint64)
    part = SnapshotPart("pages-0", "pages", {}, {"records": records, "ids": np.ones(4, np.uint8)})
    [found] = upgraded([part], 1)
    with pytest.raises(StateDamaged, match="pages-0"):
        found.arrays["records"]


def test_a_folder_that_a_newer_version_wrote_is_refused_by_name(old: Path) -> None:
    from simstream.files import checksum, header

    body = header.encode(header.MANIFEST, header.FORMAT + 1, "9.8.7") + b"\0"
    (old / "manifest").write_bytes(body + checksum.of_bytes(body))
    shutil.rmtree(old.parent / "new", ignore_errors=True)
    with pytest.raises(StateFormat, match=r"9\.8\.7 in format 3.* start simstream 9\.8\.7"):
        upgrade(old, old.parent / "new")
