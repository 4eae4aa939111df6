"""`simstream topics create`: which numbers of shards it takes, and that it says what it made."""

from __future__ import annotations

from pathlib import Path

import pytest

from simstream.cli.main import invoke
from simstream.cli.topics import SHARDS
from simstream.index.shard import MAX_SHARDS
from simstream.log import open_log
from simstream.log.options import PAGES, VERDICTS


def create(folder: Path, *flags: str) -> int:
    return invoke(["topics", "create", "--log", str(folder / "log"), *flags])


def test_shards_are_the_powers_of_two_up_to_the_limit() -> None:
    assert [int(shards) for shards in SHARDS] == [1 << bits for bits in range(MAX_SHARDS.bit_length())]


@pytest.mark.parametrize("shards", ["0", "3", "-4", "512", "many"])
def test_another_number_of_shards_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], shards: str
) -> None:
    assert create(tmp_path, "--shards", shards) == 2
    assert f"Invalid value for '--shards': '{shards}' is not one of '1', '2', '4'" in capsys.readouterr().err


def test_a_topic_of_ones_own_is_checked_and_never_created(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert create(tmp_path, "--pages-topic", "crawl.pages") == 1
    said = capsys.readouterr()
    assert said.out == ""
    assert "there is no topic crawl.pages in" in said.err
    assert "name an existing topic with pages_topic, or create it with your own tools" in said.err
    assert create(tmp_path, "--prefix", "crawl", "--partitions", "2") == 0
    assert create(tmp_path, "--pages-topic", "crawl.pages") == 0
    lines = capsys.readouterr().out.splitlines()
    assert "exists   crawl.pages" in lines
    assert not [line for line in lines if "simstream.pages" in line]
    assert create(tmp_path, "--pages-topic", "simstream.verdicts") == 2
    assert "a topic that the service writes itself" in capsys.readouterr().err


def test_verdicts_have_partitions_of_their_own_on_request(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    own = ("--partitions", "16", "--verdict-partitions", "4")
    assert create(tmp_path, *own) == 0
    log = open_log(str(tmp_path / "log"))
    assert [log.topic(topic).partitions for topic in (PAGES, VERDICTS)] == [16, 4]
    assert create(tmp_path, *own) == 0
    capsys.readouterr()
    assert create(tmp_path) == 1
    assert "differs  simstream.verdicts\n         partitions: 4, not 16" in capsys.readouterr().out


def test_the_topic_of_answers_is_created_only_with_shards(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert create(tmp_path) == 0
    assert "matches" not in capsys.readouterr().out
    assert create(tmp_path, "--shards", "16") == 0
    assert capsys.readouterr().out.splitlines()[-1] == "created  simstream.matches"
    assert open_log(str(tmp_path / "log")).shards() == 16
    assert create(tmp_path, "--shards", "8") == 1
    assert "partitions: 16, not 8" in capsys.readouterr().out
