"""Frames that nobody should have written, put into the real log by hand: ignored, counted, no verdict changed."""

from __future__ import annotations

import msgspec
import pytest

from simstream.log.base import Log
from simstream.log.options import FINGERPRINTS
from simstream.wire import frame as frames
from tests.e2e.harness import Program, all_verdicts, naive_verdicts, read_topic, watching

SMALL = {"SIMSTREAM_FRAME_MAX_PAGES": "10"}


def strange(log: Log) -> dict[str, list[bytes]]:
    """Frames made from the log's frames, by the reason for which the judge must ignore them."""
    found = [frames.decode(record.value or b"") for record in read_topic(log, FINGERPRINTS)]
    first, last = found[0], found[-1]

    def again(frame: frames.Frame, **changes: object) -> bytes:
        header = msgspec.structs.replace(frame.header, **changes)
        return frames.encode(header, frame.columns)

    far = frames.encode(
        msgspec.structs.replace(last.header, start=last.header.to + 1_000, to=last.header.to + 1_001, came=()),
        last.columns.part(0, 0),
    )
    good = again(last)
    return {
        "repeated": [again(first), again(last), again(first, first=False)],
        "damaged": [b"", b"no frame", good[:-1], good[:40] + bytes([good[40] ^ 1]) + good[41:]],
        "recipe": [again(last, recipe="00000000")],
        "gap": [far],
        "unbegun": [again(first, topic_id="another topic", first=False)],
    }


def test_strange_frames_are_ignored_and_counted_and_change_no_verdict(program: Program) -> None:
    program.good("topics", "create", "--partitions", 1)
    program.feed(60, seed=1)
    before = program.judge(60, **SMALL)
    with program.place.open() as log, watching(log) as watcher:
        by_reason = strange(log)
        with log.open_appender(FINGERPRINTS) as appender:
            for values in by_reason.values():
                for value in values:
                    appender.append(value, partition=0)
        program.feed(60, seed=2)
        with program.serve(**SMALL) as service:
            watcher.wait(120, service)
            for reason, values in by_reason.items():
                assert service.metric(f'simstream_frames_ignored_total{{reason="{reason}"}}') == len(values), reason
            assert service.end() == 0
        after = all_verdicts(log)
        assert after[:60] == before
        assert after == naive_verdicts(log)


@pytest.mark.kafka
@pytest.mark.long
def test_frames_come_strange_while_the_service_runs_and_it_goes_on(on_kafka: Program) -> None:
    on_kafka.good("topics", "create", "--partitions", 1)
    on_kafka.feed(60, seed=1)
    with on_kafka.place.open() as log, watching(log) as watcher, on_kafka.serve(**SMALL) as service:
        watcher.wait(60, service)
        with log.open_appender(FINGERPRINTS) as appender:
            for values in strange(log).values():
                for value in values:
                    appender.append(value, partition=0)
        on_kafka.feed(60, seed=2)
        watcher.wait(120, service)
        assert service.end() == 0
        assert all_verdicts(log) == naive_verdicts(log)
