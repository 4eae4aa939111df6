"""The short run's choice, and which files share a broker: see `short`."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tests import short


def item(nodeid: str, long: bool = False, **params: object) -> Any:
    """What `is_left_out` looks at of a test."""
    marked = lambda name: name == "long" and long  # noqa: E731
    return SimpleNamespace(nodeid=nodeid, get_closest_marker=marked, callspec=SimpleNamespace(params=params))


@pytest.mark.parametrize("file", ["tests/e2e/test_a.py", "tests/fault/test_b.py"])
def test_a_test_over_both_logs_runs_on_one_of_them(file: str) -> None:
    left_out = {
        (name, log): short.is_left_out(item(f"{file}::test_{name}[{log}]", place=log))
        for name in range(40)
        for log in short.LOGS
    }
    assert all(left_out[name, "local"] != left_out[name, "kafka"] for name in range(40))
    assert 5 < sum(left_out[name, "local"] for name in range(40)) < 35


def test_what_a_file_makes_once_is_made_over_one_log() -> None:
    names = [item(f"tests/e2e/test_a.py::test_{name}[local]", scene="local") for name in range(20)]
    assert len({short.is_left_out(one) for one in names}) == 1


def test_the_contract_of_both_logs_and_tests_without_a_log_all_run() -> None:
    for log in short.LOGS:
        assert not short.is_left_out(item(f"tests/contract/test_a.py::test_a[{log}]", place=log))
    assert not short.is_left_out(item("tests/e2e/test_a.py::test_a[3]", count=3))
    assert short.is_left_out(item("tests/unit/test_a.py::test_a", long=True))


def test_each_file_with_a_test_on_the_broker_is_known_to_need_it(request: pytest.FixtureRequest) -> None:
    for one in request.session.items:
        if one.get_closest_marker("kafka") or "broker" in getattr(one, "fixturenames", ()):
            assert short.needs_broker(one.path), f"short.BROKER does not find the broker in {one.path}"
