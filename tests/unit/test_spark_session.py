"""A Spark job that fails says what its worker said."""

from __future__ import annotations

import traceback
from unittest.mock import MagicMock

import pytest

from simstream.errors import InputMissing, SimstreamError, StoreError, UsageError

pytest.importorskip("pyspark")
from pyspark.errors import PySparkException

from simstream.spark import session


@pytest.fixture(autouse=True)
def without_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "SparkSession", MagicMock())


@pytest.mark.parametrize(
    ("raised", "code"),
    [
        (UsageError("no page of p.jsonl has a field text", "name it with --text-field"), 2),
        (InputMissing("p.jsonl cannot be read", "check the path"), 2),
        (StoreError("p.jsonl breaks off", "try again"), 1),
    ],
)
def test_an_error_of_a_worker_is_told_in_its_own_words(raised: SimstreamError, code: int) -> None:
    trace = "".join(traceback.format_exception(raised)).removesuffix("\n")
    with pytest.raises(SimstreamError) as told, session.session("local"):
        raise PySparkException(message=f"An exception was thrown from the Python worker:\n{trace}")
    assert (str(told.value), told.value.exit_code) == (str(raised), code)


def test_of_any_other_error_the_first_line_is_told() -> None:
    with pytest.raises(SimstreamError) as told, session.session("local"):
        raise PySparkException(message="Job aborted\nat Worker.java")
    assert str(told.value) == "the Spark job failed: Job aborted: see what Spark logged"
