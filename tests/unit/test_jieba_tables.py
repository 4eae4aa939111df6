"""jieba's tables as they are shipped: nothing of jieba's own files is lost, and none of them is needed."""

from __future__ import annotations

import hashlib
from pathlib import Path

import jieba
import pytest
from jieba.analyse.tfidf import KeywordExtractor

from deploy.jieba_tables import VERSION, columns_first
from simstream.errors import InputMissing
from simstream.files.zstandard import zstd
from simstream.text import dictionary, jieba_tables, keywords

JIEBA = Path(jieba.__file__).parent


@pytest.mark.parametrize("name", jieba_tables.FILES)
def test_a_shipped_table_is_what_the_command_makes_of_jiebas_file(name: str) -> None:
    made = columns_first((JIEBA / name).read_bytes(), jieba_tables.FILES[name])
    assert zstd.decompress(jieba_tables.packed(name)) == made


@pytest.mark.parametrize("name", jieba_tables.FILES)
def test_a_shipped_table_gives_jiebas_file_byte_for_byte(name: str) -> None:
    assert jieba.__version__ == VERSION
    assert jieba_tables.content(name) == (JIEBA / name).read_bytes()


def test_the_key_without_changes_is_the_hash_over_jiebas_own_files() -> None:
    digest = hashlib.blake2b(f"simstream dictionary {dictionary.FORMAT}".encode(), digest_size=16)
    for name in dictionary._TABLES:
        content = (JIEBA / name).read_bytes()
        digest.update(len(content).to_bytes(8, "little") + content)
    assert digest.hexdigest() == dictionary.KEY


def test_the_stop_words_of_tags_are_those_of_jieba() -> None:
    assert keywords.STOP_WORDS == KeywordExtractor.STOP_WORDS


def test_the_tables_are_small_and_come_with_their_licence() -> None:
    files = {path.name: path.stat().st_size for path in jieba_tables.FOLDER.iterdir()}
    assert set(files) == {"LICENSE", *(jieba_tables.path(name).name for name in jieba_tables.FILES)}
    assert sum(files.values()) < 3_500_000
    assert "Copyright (c) 2013 Sun Junyi" in (jieba_tables.FOLDER / "LICENSE").read_text()


def test_an_installation_without_a_table_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(jieba_tables, "FOLDER", tmp_path)
    with pytest.raises(InputMissing, match=r"dict\.zst cannot be read"):
        dictionary.load(tmp_path)


def test_an_installation_in_an_archive_says_that_it_must_be_files(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "all.zip").write_bytes(b"")
    monkeypatch.setattr(jieba_tables, "FOLDER", tmp_path / "all.zip" / "tables")
    with pytest.raises(InputMissing, match=r"all\.zip/tables is not a folder: install simstream as files"):
        dictionary.load(tmp_path)
