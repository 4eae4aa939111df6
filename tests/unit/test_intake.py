"""How far behind the fingerprinter is: in pages and in seconds, by partition."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from simstream.log import open_log
from simstream.log.base import PageConsumer
from simstream.log.options import PAGES, LogOptions
from simstream.roles.fingerprint import intake_metrics as module
from simstream.roles.fingerprint.intake_metrics import IntakeMetrics
from simstream.telemetry.metrics import Metrics

AGE_S = 100.0


def read(intake: IntakeMetrics, source: PageConsumer, count: int) -> None:
    """Read so many pages, as the role does."""
    records = source.poll(count, 1.0).records or source.poll(count, 1.0).records
    assert len(records) == count
    intake.count_read(records)
    intake.set_lag(source)


def test_lag_in_seconds_is_the_age_of_waiting_pages_and_0_without_any(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "EVERY_S", 0.0)
    metrics = Metrics()
    intake = IntakeMetrics(metrics)

    def lag(unit: str) -> float:
        found = metrics.registry.get_sample_value(f"simstream_source_lag_{unit}", {"partition": "0"})
        assert found is not None
        return found

    with open_log(str(tmp_path / "log"), LogOptions()) as log:
        log.create_topics(1)
        with log.open_appender(PAGES) as appender:
            for number in range(10):
                appender.append(b"{}", b"%d" % number, timestamp=int(1000 * (time.time() - AGE_S)))
            with log.open_consumer() as source:
                read(intake, source, 4)
                assert lag("pages") == 6
                assert AGE_S <= lag("seconds") < AGE_S + 60
                read(intake, source, 6)
                assert lag("pages") == lag("seconds") == 0
                # A page that comes after a look that found nothing cannot have waited longer than since that look.
                appender.append(b"{}", b"late", timestamp=int(1000 * (time.time() - AGE_S)))
                intake.set_lag(source)
                assert lag("pages") == 1
                assert lag("seconds") < AGE_S
        assert metrics.registry.get_sample_value("simstream_pages_consumed_total") == 10
        assert metrics.registry.get_sample_value("simstream_consumed_bytes_total") == 20
