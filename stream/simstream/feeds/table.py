"""Keeps the fold's entries on Kafka, in a compacted topic of one partition, and how far both topics were read.

The topic has the changes in the order in which they were made, and after them the places that they lead to. So
after a kill some records are read again, which changes nothing.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator, MutableMapping, Sequence
from typing import Final

import msgspec

from simstream.closing import Closing
from simstream.errors import BrokerUnreachable, DeliveryFailed, LogLocked
from simstream.log import options_of
from simstream.log.base import TABLE, Appender, TopicInfo
from simstream.log.kafka.appender import KafkaAppender
from simstream.log.kafka.cluster import KafkaCluster, member_name
from simstream.log.kafka.polled_member import MemberKind, PolledMember
from simstream.log.kafka.reader import KafkaReader
from simstream.log.kafka.topics import group_state
from simstream.settings import Settings

PLACES_KEY: Final = "p"
"""The key of the places; no key of the fold begins with it."""
Change = tuple[str, bytes | None]
"""A key and its new entry; None if it has none any more."""
MAX_POLL_RECORDS = 5_000
STEP_S = 0.2
"""Seconds of waiting after which a write looks whether it has to end."""
_logger = logging.getLogger("simstream.news")


class TopicPlace(msgspec.Struct):
    """How far a topic was read: its id, and the next offset of each partition."""

    id: str
    offsets: dict[int, int]


_places = msgspec.json.Decoder(dict[str, TopicPlace])


class NewsTable(MutableMapping[str, bytes]):
    """The entries in memory, the places of what led to them, and the changes that are not written yet."""

    def __init__(self, entries: dict[str, bytes] | None = None) -> None:
        """Begin with what `TableTopic.read` returned. Raises msgspec.MsgspecError."""
        self._entries = entries or {}
        self.places: dict[str, TopicPlace] = _places.decode(self._entries.pop(PLACES_KEY, b"{}"))
        self.changes: list[Change] = []
        self._written = msgspec.json.encode(self.places)

    def __getitem__(self, key: str) -> bytes:
        return self._entries[key]

    def __setitem__(self, key: str, entry: bytes) -> None:
        self._entries[key] = entry
        self.changes.append((key, entry))

    def __delitem__(self, key: str) -> None:
        del self._entries[key]
        self.changes.append((key, None))

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def begin(self, topic: str, info: TopicInfo) -> dict[int, int]:
        """Return where to go on in a topic. If it was created again, begin anew."""
        place = self.places.get(topic)
        if place is None or place.id != info.id:
            place = self.places[topic] = TopicPlace(info.id, {})
        return dict(place.offsets)

    def take_changes(self) -> list[Change]:
        """Return the changes and the places after them, and count them as written. Nothing if nothing changed."""
        changes, self.changes = self.changes, []
        places = msgspec.json.encode(self.places)
        if changes or places != self._written:
            changes.append((PLACES_KEY, places))
        self._written = places
        return changes


class TableTopic(Closing):
    """The table's topic. It is read and written in one thread."""

    def __init__(self, cluster: KafkaCluster) -> None:
        self._cluster = cluster
        self._appender: Appender | None = None
        self._ending = threading.Event()

    def read(self) -> dict[str, bytes]:
        """Return the newest entry of each key, or after `end` some.

        Raises LogError.
        """
        found: dict[str, bytes] = {}
        with KafkaReader(self._cluster, TABLE, 0) as reader:
            while not self._ending.is_set() and not reader.caught_up():
                for record in reader.poll(MAX_POLL_RECORDS, STEP_S):
                    key = (record.key or b"").decode()
                    if record.value is None:
                        found.pop(key, None)
                    else:
                        found[key] = record.value
        return found

    def write(self, changes: Sequence[Change]) -> None:
        """Append the changes, and wait until the brokers have all of them, or until `end`. Raises LogError."""
        while not self._ending.is_set():
            try:
                self._append(changes)
                return
            except (DeliveryFailed, BrokerUnreachable) as error:
                _logger.debug("the table is written again: %s", error)
                self._discard()
                self._ending.wait(STEP_S)

    def end(self) -> None:
        """Give up what is being written. May be called in another thread."""
        self._ending.set()

    def close(self) -> None:
        """See Closing. Drops what is not written."""
        self.end()
        self._discard()

    def _append(self, changes: Sequence[Change]) -> None:
        appender = self._appender = self._appender or KafkaAppender(self._cluster, TABLE)
        last = 0
        for key, entry in changes:
            last = appender.append(entry, key.encode())
        while appender.flush(STEP_S) < last and not self._ending.is_set():
            pass

    def _discard(self) -> None:
        if self._appender is not None:
            self._appender.discard()
            self._appender = None


class NewsMembership(PolledMember, Closing):
    """The place of the one process that shows the stories of a log, and writes the table."""

    def __init__(self, cluster: KafkaCluster) -> None:
        """Apply for the place. Raises LogError."""
        group = cluster.options.prefix
        super().__init__(cluster, MemberKind("news", TABLE, group, "the news page's place"))

    @property
    def is_held(self) -> bool:
        """Whether this process has the place, as far as it knows. Raises LogError if it can no longer get it."""
        if self._error is not None:
            raise self._error
        return bool(self._owned)

    def check_other(self) -> None:
        """Ask the brokers who has the place. Raises LogLocked if it is another process."""
        try:
            members = group_state(self._cluster, self._kind.group).members
        except BrokerUnreachable:
            return
        own = member_name(self._cluster, self._kind.role)  # an earlier client of this process may still count
        holders = [one for one in members if one.assignment.topic_partitions and one.client_id != own]
        if holders and not self.is_held:
            hosts = ", ".join(sorted({one.host.lstrip("/") for one in holders}))
            raise LogLocked(
                f"another process shows the stories of this log (on {hosts})", "stop that process first"
            )

    def _warn_lost(self) -> None:
        _logger.warning("the group %s went on without this news page", self._kind.group)


def table_cluster(settings: Settings, name: str, pages: TopicInfo) -> KafkaCluster:
    """Return the brokers that the settings name, for a table's topic under a prefix of its own."""
    options = options_of(
        msgspec.structs.replace(settings, prefix=name, publish_to=None, pages_topic=pages.name), settings.give_up_s
    )
    return KafkaCluster(settings.log.removeprefix("kafka://"), options)
