"""What `dedup --keep` copies of CSV rows and of files: the same rows and paths, also after a run that broke off."""

from __future__ import annotations

import csv
import gzip
import io
import os
from pathlib import Path

import numpy as np
import pytest

from simstream.errors import InputChanged, InputError, UsageError
from simstream.model import PageSource
from simstream.sources.fields import FieldNames
from simstream.sources.read import read_pages
from simstream.tools.dedup.input_copy import InputCopier, make_copier

LIMIT = 1 << 20
ROWS = [
    ["0", "one, with a comma", "x"],
    ["1", 'two "quoted"\r\nand a second line', ""],
    ["2", "三", "y"],
    ["3", "four\n\n\nfive", "z"],
    ["4", "the last", "no line end"],
]


def table(rows: list[list[str]], end: str = "\r\n", names: str = "id,text,more") -> bytes:
    """A CSV file as a spreadsheet writes it."""
    out = io.StringIO(newline="")
    csv.writer(out, lineterminator=end).writerows([names.split(","), *rows])
    return out.getvalue().encode()


def copied(copier: InputCopier, numbers: list[int]) -> bytes:
    out = io.BytesIO()
    copier.copy(np.array(numbers, np.int64), out)
    return out.getvalue()


def again(copier: InputCopier, inputs: list[str], made: InputCopier) -> InputCopier:
    """A copier of a later process, which reads only the records behind the first three."""
    records = list(copier.noted(read_pages(inputs)))
    sources = [PageSource(record.topic, 0, record.offset) for record in records[:3]]
    made.restore(sources, copier.notes(0, 3))
    list(made.noted(records[3:]))
    return made


@pytest.fixture
def tables(tmp_path: Path) -> list[str]:
    (tmp_path / "a.csv").write_bytes(b"\xef\xbb\xbf" + table(ROWS[:2]) + b"\r\n\r\n")
    (tmp_path / "b.csv").write_bytes(table(ROWS[2:], "\n").rstrip())
    return [str(tmp_path / "a.csv"), str(tmp_path / "b.csv")]


def test_rows_are_copied_with_all_their_fields_behind_one_first_row(tables: list[str]) -> None:
    copier = make_copier(tables, "kept.csv", LIMIT, FieldNames())
    resumed = again(copier, tables, make_copier(tables, "kept.CSV.gz", LIMIT, FieldNames()))
    for numbers in ([0, 1, 2, 3, 4], [1, 3], [4], []):
        kept = copied(copier, numbers)
        found = list(csv.reader(io.StringIO(kept.decode(), newline="")))
        assert found == [["id", "text", "more"], *(ROWS[number] for number in numbers)]
        assert copied(resumed, numbers) == kept


def test_a_row_that_has_changed_ends_the_copy(tables: list[str]) -> None:
    copier = make_copier(tables, "kept.csv", LIMIT, FieldNames())
    list(copier.noted(read_pages(tables)))
    path = Path(tables[1])
    path.write_bytes(path.read_bytes().replace("三".encode(), "四".encode()))
    assert copied(copier, [1, 4]).count(b"\n") > 2
    with pytest.raises(InputError, match="changed while it was judged"):
        copied(copier, [2])


def test_a_file_that_is_damaged_only_at_its_second_reading_has_changed(tmp_path: Path) -> None:
    path = tmp_path / "pages.jsonl.gz"
    path.write_bytes(gzip.compress(b"".join(b'{"text": "page %d"}\n' % number for number in range(3))))
    copier = make_copier([str(path)], "kept.jsonl", LIMIT, FieldNames())
    list(copier.noted(read_pages([str(path)])))
    path.write_bytes(path.read_bytes()[:12])
    with pytest.raises(InputChanged, match="changed while it was judged"):
        copied(copier, [2])


def test_files_of_pages_are_listed_by_their_paths(tmp_path: Path) -> None:
    for name in ("b.html", "a.htm", "文.html", "c.html", "note.txt"):
        (tmp_path / name).write_text("<p>A page.</p>")
    inputs = [str(tmp_path), str(tmp_path / "note.txt")]
    copier = make_copier(inputs, "kept.txt", LIMIT, FieldNames())
    resumed = again(copier, inputs, make_copier(inputs, "kept.txt", LIMIT, FieldNames()))
    wanted = "".join(f"{tmp_path}/{name}\n" for name in ("a.htm", "c.html", "note.txt"))
    assert copied(copier, [0, 2, 4]).decode() == copied(resumed, [0, 2, 4]).decode() == wanted


def test_files_whose_paths_are_shown_alike_are_listed_each_by_its_own_path(tmp_path: Path) -> None:
    paths = [os.fsencode(tmp_path / name) for name in (r"\xff.html", os.fsdecode(b"\xff.html"))]
    for path in paths:
        Path(os.fsdecode(path)).write_text("<p>A page.</p>")
    copier = make_copier([str(tmp_path)], "kept.txt", LIMIT, FieldNames())
    assert [record.topic for record in copier.noted(read_pages([str(tmp_path)]))] == [f"{tmp_path}/\\xff.html"] * 2
    assert copied(copier, [0, 1]).splitlines() == paths


@pytest.mark.parametrize(
    ("names", "keep", "said"),
    [
        (
            ["a.csv"],
            "kept.jsonl",
            "--keep writes rows of CSV, as the inputs have them, and kept.jsonl does not end",
        ),
        (["a.csv"], "kept", "does not end in .csv"),
        (["a.csv", "c.csv"], "kept.csv", "c.csv has another first row than"),
        (["page.html"], "kept.html", "--keep writes the paths of files, and kept.html does not end in .txt"),
        (["new\nline.html"], "kept.txt", "it has a line end"),
        (["a.csv", "page.html"], "kept.csv", "the inputs are of several formats"),
        (["pages.jsonl"], "kept.csv", "names another format"),
        (["pages.jsonl"], "kept.jsonl.bz2", "names another format"),
    ],
)
def test_a_copy_of_another_form_is_refused(tables: list[str], names: list[str], keep: str, said: str) -> None:
    folder = Path(tables[0]).parent
    (folder / "c.csv").write_bytes(table(ROWS, names="id,more,text"))
    for name in ("page.html", "new\nline.html"):
        (folder / name).write_text("<p>A page.</p>")
    (folder / "pages.jsonl").write_text('{"text": "t"}\n')
    with pytest.raises(UsageError, match=r"format|first row|end in|line end") as caught:
        make_copier([str(folder / name) for name in names], keep, LIMIT, FieldNames())
    assert said in str(caught.value)
