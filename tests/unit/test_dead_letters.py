"""What a record of `dead-letters` says, and what of it is sent again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

import jsonschema
import pytest

from deploy import reference
from simstream.closing import Closing
from simstream.errors import BrokerUnreachable, RecordTooLarge
from simstream.log import open_log
from simstream.log.base import Log
from simstream.log.options import DEAD_LETTERS, PAGES, LogOptions
from simstream.model import Page, Record, bytes_of
from simstream.roles.fingerprint import dead_letters
from simstream.roles.fingerprint.dead_letters import MAX_KEPT_BYTES, OLD_ORIGIN
from simstream.tools.dead_letters import replay as replaying
from simstream.tools.dead_letters.later_versions import LaterVersions
from simstream.tools.dead_letters.letters import MARK, LetterFilter, letters, read
from simstream.tools.dead_letters.replay import LetterReplay, replay
from simstream.wire.page import PageLimits


def bad(record: Record, reason: str = "bad_json") -> Page:
    return Page(id="x", identity=b"\0" * 16, offset=record.offset, time=0, reason=reason, detail="it is broken")


def test_a_letter_that_was_cut_is_listed_with_its_size_and_never_sent(tmp_path: Path) -> None:
    with open_log(str(tmp_path), LogOptions(max_record_bytes=1024)) as log:
        log.create_topics()
        own = (("a", b"1"),)
        many = (("doc-id", b"7"), ("long", b"x" * MAX_KEPT_BYTES), ("trace", b"t"))
        large = Record("simstream.pages", 0, 7, b"large", b"x" * (9 << 20), many)
        small = Record("simstream.pages", 0, 8, b"small", b"{", own)
        with log.open_appender(DEAD_LETTERS) as dead:
            dead_letters.append(dead, large, bad(large))
            dead_letters.append(dead, small, bad(small))
            dead.append(b"of somebody else", b"k")
        [cut, whole] = letters(log, LetterFilter())
        assert (cut.cut, cut.size, cut.headers, cut.page.key) == (True, 9 << 20, many[::2], b"large")
        assert MAX_KEPT_BYTES - 100 < bytes_of(cut.page) - len(b"large") < MAX_KEPT_BYTES
        assert (whole.cut, whole.size, whole.headers, whole.error) == (False, 1, own, "it is broken")
        report = replay(log, LetterFilter(), PageLimits())
        assert (report.sent, report.cut, dict(report.reasons)) == (1, 1, {"bad_json": 1})
        with log.open_reader(PAGES) as reader:
            [sent] = reader.poll(10, 0)
        assert (sent.key, sent.value) == (b"small", b"{")
        assert sent.headers == (*own, ("simstream-replayed-from", b"simstream.dead-letters/0/1"))


def test_a_letter_that_does_not_even_fit_when_it_is_cut_is_lost_and_told(caplog: pytest.LogCaptureFixture) -> None:
    class Refusing:
        """A topic that admits nothing."""

        def append(self, *_: object, **__: object) -> int:
            raise RecordTooLarge("the record is too large", "raise max.message.bytes")

    large = Record("simstream.pages", 0, 7, b"large", b"x" * (1 << 20))
    assert dead_letters.append(cast(Any, Refusing()), large, bad(large)) == 0
    assert "a dead letter is lost, since the topic does not admit it: the record is too large" in caplog.text


def test_letters_of_another_services_pages_are_listed_and_never_sent(tmp_path: Path) -> None:
    shared = LogOptions(prefix="ours", dead_letters_topic="shared")
    with open_log(str(tmp_path), shared) as log:
        log.create_topics()
        with log.open_appender(DEAD_LETTERS) as dead:
            for topic in ("theirs.pages", "ours.pages"):
                page = Record(topic, 0, 7, topic.encode(), b"{", ())
                dead_letters.append(dead, page, bad(page))
        assert [letter.record.key for letter in letters(log, LetterFilter())] == [b"theirs.pages", b"ours.pages"]
        report = replay(log, LetterFilter(), PageLimits())
        assert (report.sent, report.foreign) == (1, 1)
        with log.open_reader(PAGES) as reader:
            assert [record.key for record in reader.poll(10, 0)] == [b"ours.pages"]
        report = replay(log, LetterFilter(), PageLimits(), again=True, dry=True)
        assert (report.sent, report.foreign) == (1, 1)


def test_headers_of_a_page_are_never_taken_for_ours(tmp_path: Path) -> None:
    own = (("error", b"the crawler's own"), ("error-class", b"x"), ("replayed-from", b"a mirror"), ("cut", b"no"))
    with open_log(str(tmp_path), LogOptions()) as log:
        log.create_topics()
        page = Record("simstream.pages", 0, 7, b"k", b"{", own)
        with log.open_appender(DEAD_LETTERS) as dead:
            dead_letters.append(dead, page, bad(page))
        [letter] = letters(log, LetterFilter())
    ours = letter.record.headers[len(own) :]
    assert len(ours) == 6
    assert all(name.startswith("simstream-") for name, _ in ours)
    assert (letter.headers, letter.error, letter.cut) == (own, "it is broken", False)
    assert not letter.failed_again


def test_the_added_headers_fit_their_schema(tmp_path: Path) -> None:
    tree = json.loads((reference.FOLDER / "dead-letter.schema.json").read_text(encoding="utf-8"))
    check = jsonschema.Draft202012Validator({**tree, "additionalProperties": False}).validate
    with open_log(str(tmp_path), LogOptions(max_record_bytes=1024)) as log:
        log.create_topics()
        with log.open_appender(DEAD_LETTERS) as dead:
            for value in (b"{", b"x" * (9 << 20)):
                page = Record("simstream.pages", 0, 7, b"k", value)
                dead_letters.append(dead, page, bad(page))
        found = list(letters(log, LetterFilter()))
        assert [letter.cut for letter in found] == [False, True]
        for letter in found:
            check({name: value.decode() for name, value in letter.record.headers})
            assert ("simstream-cut" in dict(letter.record.headers)) == letter.cut
            with pytest.raises(jsonschema.ValidationError):
                check({name: value.decode() for name, value in letter.record.headers[1:]})


def test_letters_and_marks_from_before_the_prefix_are_read(tmp_path: Path) -> None:
    said = (b"bad", b"bad_json", b"simstream.pages", b"0", b"7")
    old = tuple(zip(dead_letters.OLD_ORIGIN, said, strict=True))
    with open_log(str(tmp_path), LogOptions()) as log:
        log.create_topics()
        with log.open_appender(DEAD_LETTERS) as dead:
            dead.append(b"{", b"a", old)
            dead.append(b"{", b"b", (*old, ("cut", b"99")))
            dead.append(None, b"a", (("replayed", b"0/0"),))
        [replayed, cut] = letters(log, LetterFilter())
    assert (replayed.replayed, replayed.reason, replayed.source_offset) == (True, "bad_json", 7)
    assert (cut.cut, cut.size, cut.replayed) == (True, 99, False)


def test_a_letter_cut_by_an_earlier_version_is_known_by_its_note() -> None:
    said = (b"bad (cut: the record of 99 bytes does not fit)", b"too_large", b"simstream.pages", b"0", b"7")
    headers = tuple(zip(dead_letters.ORIGIN[1:], said, strict=True))
    letter = read(Record("simstream.dead-letters", 0, 0, b"k", b"x", headers))
    assert letter is not None
    assert letter.cut


@pytest.mark.parametrize("number", [b"9" * 5_000, b"9" * 20, "²".encode(), b""])
def test_a_letter_whose_place_is_no_number_is_passed_over(number: bytes) -> None:
    said = [b"no text", b"no_text", b"simstream.pages", b"0", b"7"]
    for at in (3, 4):
        values = [*said[:at], number, *said[at + 1 :]]
        headers = tuple(zip(OLD_ORIGIN, values, strict=True))
        assert read(Record("simstream.dead-letters", 0, 0, b"k", b"x", tuple(zip(OLD_ORIGIN, said, strict=True))))
        assert read(Record("simstream.dead-letters", 0, 0, b"k", b"x", headers)) is None


def test_what_is_no_letter_is_passed_over() -> None:
    said = (b"bad", b"too_large", b"simstream.pages", b"zero", b"7")
    wrong = tuple(zip(dead_letters.ORIGIN[1:], said, strict=True))
    for headers in ((), wrong[:3], ((MARK, b"0/1"),), wrong, ((dead_letters.CUT, b"9"),)):
        assert read(Record("simstream.dead-letters", 0, 0, b"k", None, headers)) is None


def test_a_page_too_large_for_the_topic_is_counted_and_the_others_are_sent(tmp_path: Path) -> None:
    with open_log(str(tmp_path), LogOptions(max_record_bytes=1 << 20)) as log:
        log.create_topics()
        with log.open_appender(DEAD_LETTERS) as dead:
            for key, size in ((b"a", 10), (b"b", 500_000), (b"c", 10)):
                record = Record("simstream.pages", 0, 0, key, b"x" * size)
                dead_letters.append(dead, record, bad(record))
    with open_log(str(tmp_path), LogOptions(max_record_bytes=100_000)) as log:
        with log.open_appender(PAGES) as appender, pytest.raises(RecordTooLarge):
            appender.append(b"x" * 500_000)
        report = replay(log, LetterFilter(), PageLimits())
        assert (report.sent, report.refused) == (2, 1)
        assert [letter.replayed for letter in letters(log, LetterFilter())] == [True, False, True]


def test_a_page_that_came_again_or_was_withdrawn_since_is_not_sent_over_it(tmp_path: Path) -> None:
    """Each page failed when it came first. Its name is the key, or stands in the value."""
    with open_log(str(tmp_path), LogOptions()) as log:
        log.create_topics()
        with log.open_appender(PAGES) as pages:
            for key, value in (
                (b"again", b"1"),
                (b"gone", b"2"),
                (None, b'{"url": "u", "text": "3"}'),
                (b"only", b"4"),
                (b"again", b"5"),
                (b"gone", None),
                (None, b'{"url": "u", "text": "6"}'),
            ):
                pages.append(value, key)
        with log.open_reader(PAGES) as reader, log.open_appender(DEAD_LETTERS) as dead:
            for record in reader.poll(4, 1):
                dead_letters.append(dead, record, bad(record, "too_large"))
        dry = replay(log, LetterFilter(), PageLimits(), dry=True)
        assert (dry.sent, dry.newer) == (1, 3)
        report = replay(log, LetterFilter(), PageLimits())
        assert (report.sent, report.newer, report.unknown) == (1, 3, 0)
        with log.open_reader(PAGES, 7) as reader:
            assert [record.key for record in reader.poll(9, 0)] == [b"only"]
        assert replay(log, LetterFilter(), PageLimits(), again=True, dry=True).sent == 4


def test_a_page_whose_later_records_are_gone_is_sent_only_on_demand(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_log(str(tmp_path), LogOptions()) as log:
        log.create_topics()
        with log.open_appender(PAGES) as pages:
            for number in range(3):
                pages.append(b"{", b"%d" % number)
        with log.open_reader(PAGES) as reader, log.open_appender(DEAD_LETTERS) as dead:
            for record in reader.poll(3, 1):
                dead_letters.append(dead, record, bad(record))
        monkeypatch.setattr(log, "low_watermarks", lambda _: {0: 2})
        report = replay(log, LetterFilter(), PageLimits(), dry=True)
        assert (report.sent, report.unknown) == (2, 1)
        assert replay(log, LetterFilter(), PageLimits(), again=True, dry=True).sent == 3


class StubAppender(Closing):
    """Takes pages and answers each `flush` with the next of these: a number, or the error of a refused record."""

    def __init__(self, *answers: int | RecordTooLarge) -> None:
        self._answers, self._count = list(answers), 0

    def append(self, *_: object, **__: object) -> int:
        self._count += 1
        return self._count

    def flush(self, _: float) -> int:
        answer = self._answers.pop(0)
        if isinstance(answer, RecordTooLarge):
            raise answer
        return answer

    def close(self) -> None: ...


def replay_over(log: Log, monkeypatch: pytest.MonkeyPatch, *answers: int | RecordTooLarge) -> LetterReplay:
    """Two letters, which are sent by a StubAppender of `pages`."""
    log.create_topics()
    with log.open_appender(DEAD_LETTERS) as dead:
        for offset in range(2):
            page = Record("simstream.pages", 0, offset, b"%d" % offset, b"{")
            dead_letters.append(dead, page, bad(page))
    opened = log.open_appender
    monkeypatch.setattr(
        log, "open_appender", lambda topic: StubAppender(*answers) if topic == PAGES else opened(topic)
    )
    return replay(log, LetterFilter(), PageLimits())


def test_a_letter_is_not_marked_while_its_page_is_not_acknowledged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_log(str(tmp_path), LogOptions()) as log:
        with pytest.raises(BrokerUnreachable, match="2 pages were not acknowledged"):
            replay_over(log, monkeypatch, 1)
        assert [letter.replayed for letter in letters(log, LetterFilter())] == [False, False]


def test_letters_are_marked_after_so_many_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replaying, "MAX_BYTES_AT_ONCE", 1)
    with open_log(str(tmp_path), LogOptions()) as log:
        assert replay_over(log, monkeypatch, 1, 2).sent == 2


def test_a_letter_whose_page_only_the_broker_refuses_is_not_marked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = RecordTooLarge("the record is too large", "raise max.message.bytes")
    refused.number = 1
    with open_log(str(tmp_path), LogOptions()) as log:
        report = replay_over(log, monkeypatch, refused, 2)
        assert (report.sent, report.refused) == (1, 1)
        assert [letter.replayed for letter in letters(log, LetterFilter())] == [False, True]


def test_a_letter_that_comes_during_a_replay_counts_as_unknown(tmp_path: Path) -> None:
    with open_log(str(tmp_path), LogOptions()) as log:
        log.create_topics()
        later = LaterVersions(log, [], PageLimits())
        with log.open_appender(DEAD_LETTERS) as dead:
            page = Record("simstream.pages", 0, 7, b"k", b"{")
            dead_letters.append(dead, page, bad(page))
        [letter] = letters(log, LetterFilter())
        assert later.has(letter) is None
