"""What a record of `dead-letters` says, and what of it is sent again."""

from __future__ import annotations

from pathlib import Path

from stream.errors import RecordTooLarge
from stream.log import open_log
from stream.log.base import DEAD_LETTERS, PAGES, LogOptions
from stream.model import Page, Record
from stream.roles import dead_letters
from stream.tools.dead_letters import MARK, Wanted, letters, read
from stream.tools.dead_letters_replay import replay


def bad(record: Record, reason: str = "bad_json") -> Page:
    return Page(id="x", identity=b"\0" * 16, offset=record.offset, time=0, reason=reason, detail="it is broken")


def test_a_letter_that_was_cut_is_listed_with_its_size_and_never_sent(tmp_path: Path) -> None:
    with open_log(str(tmp_path), LogOptions(max_record_bytes=1024)) as log:
        log.create_topics()
        own = (("a", b"1"),)
        large = Record("simstream.pages", 0, 7, b"large", b"x" * (9 << 20), own)
        small = Record("simstream.pages", 0, 8, b"small", b"{", own)
        with log.appender(DEAD_LETTERS) as dead:
            dead_letters.append(dead, large, bad(large))
            dead_letters.append(dead, small, bad(small))
            dead.append(b"of somebody else", b"k")
        [cut, whole] = letters(log, Wanted())
        assert (cut.cut, cut.size, cut.headers, cut.name) == (True, 9 << 20, (), "large")
        assert (whole.cut, whole.size, whole.headers, whole.error) == (False, 1, own, "it is broken")
        report = replay(log, Wanted())
        assert (report.sent, report.cut, dict(report.reasons)) == (1, 1, {"bad_json": 1})
        with log.reader(PAGES) as reader:
            [sent] = reader.poll(10, 0)
        assert (sent.key, sent.value) == (b"small", b"{")
        assert sent.headers == (*own, ("replayed-from", b"simstream.dead-letters/0/1"))


def test_a_letter_cut_by_an_earlier_version_is_known_by_its_note() -> None:
    said = (b"bad (cut: the record of 99 bytes does not fit)", b"too_large", b"simstream.pages", b"0", b"7")
    headers = tuple(zip(dead_letters.ORIGIN, said, strict=True))
    letter = read(Record("simstream.dead-letters", 0, 0, b"k", b"x", headers))
    assert letter is not None
    assert letter.cut


def test_what_is_no_letter_is_passed_over() -> None:
    said = (b"bad", b"too_large", b"simstream.pages", b"zero", b"7")
    wrong = tuple(zip(dead_letters.ORIGIN, said, strict=True))
    for headers in ((), ((MARK, b"0/1"),), wrong, (("cut", b"9"),)):
        assert read(Record("simstream.dead-letters", 0, 0, b"k", None, headers)) is None


def test_what_the_topic_does_not_admit_is_counted_and_the_others_are_sent(tmp_path: Path) -> None:
    with open_log(str(tmp_path), LogOptions(max_record_bytes=1 << 20)) as log:
        log.create_topics()
        with log.appender(DEAD_LETTERS) as dead:
            for key, size in ((b"a", 10), (b"b", 500_000), (b"c", 10)):
                record = Record("simstream.pages", 0, 0, key, b"x" * size)
                dead_letters.append(dead, record, bad(record))
    with open_log(str(tmp_path), LogOptions(max_record_bytes=100_000)) as log:
        with log.appender(PAGES) as appender:
            try:
                appender.append(b"x" * 500_000)
                raise AssertionError("the topic admits it")
            except RecordTooLarge:
                pass
        report = replay(log, Wanted())
        assert (report.sent, report.refused) == (2, 1)
        assert [letter.replayed for letter in letters(log, Wanted())] == [True, False, True]
