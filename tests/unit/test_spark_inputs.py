"""`simstream spark` refuses inputs that it would remove, or that its workers cannot read, before Spark starts."""

from __future__ import annotations

from pathlib import Path

import pytest

from simstream.cli.main import invoke
from simstream.errors import UsageError
from simstream.sources.input_files import FileKind, InputFile

pytest.importorskip("pyspark")
from simstream.spark import job
from simstream.spark.places import check_inputs

PAGE = b'{"id": "a", "text": "x"}\n'
Said = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def without_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fail where a run begins."""

    def begun(*_: object) -> None:
        raise AssertionError("the run began")

    monkeypatch.setattr("simstream.spark.session.session", begun)


@pytest.mark.parametrize("folder", job.FOLDERS)
@pytest.mark.parametrize("through", ["path", "link to the file", "link to the folder", "link in the folder"])
def test_an_input_in_a_folder_that_the_run_replaces_is_refused(
    tmp_path: Path, capsys: Said, folder: str, through: str
) -> None:
    inner = tmp_path / "out" / folder / "x"
    inner.mkdir(parents=True)
    (inner / "part.jsonl").write_bytes(PAGE)
    given, out = inner / "part.jsonl", tmp_path / "out"
    if through == "link to the file":
        given = tmp_path / "given.jsonl"
        given.symlink_to(inner / "part.jsonl")
    elif through == "link to the folder":
        out = tmp_path / "other"
        out.symlink_to(tmp_path / "out")
    elif through == "link in the folder":
        given = (inner / "part.jsonl").rename(tmp_path / "given.jsonl")
        (inner / "part.jsonl").symlink_to(given)
        given = inner / "part.jsonl"
    assert invoke(["spark", str(given), "-o", f"file://{out}" if through == "path" else str(out)]) == 2
    assert f"{given} is an input, and lies in a folder that the run replaces" in capsys.readouterr().err
    assert given.read_bytes() == PAGE


def test_standard_input_is_refused(tmp_path: Path, capsys: Said) -> None:
    assert invoke(["spark", "-", "-o", str(tmp_path / "out")]) == 2
    assert (
        "standard input cannot be read by the workers of Spark: save it to a file first" in capsys.readouterr().err
    )


@pytest.mark.parametrize(
    ("given", "output", "is_refused"),
    [
        ("s3://bucket/out/pages/a.parquet", "s3a://bucket/out", True),
        ("s3://bucket/out/pages/a.parquet", "s3://bucket/out/", True),
        ("hdfs://node/out/clusters/a.parquet", "hdfs:///out", True),
        ("/data/out/matches/a.parquet", "file:/data/out", True),
        ("s3://bucket/out/pages.parquet", "s3://bucket/out", False),
        ("s3://other/out/pages/a.parquet", "s3://bucket/out", False),
        ("https://host/out/pages/a.parquet", "s3://host/out", False),
        ("/data/out/pages-2/a.parquet", "/data/out", False),
        ("/data/out/a.parquet", "/data/out", False),
        ("/out/pages/a.parquet", "hdfs:///out", False),
    ],
)
def test_addresses_are_compared_by_their_parts(given: str, output: str, is_refused: bool) -> None:
    files = [InputFile(given, FileKind.PARQUET, 1)]
    if is_refused:
        with pytest.raises(UsageError, match="lies in a folder that the run replaces"):
            check_inputs(files, output, job.FOLDERS)
    else:
        check_inputs(files, output, job.FOLDERS)
