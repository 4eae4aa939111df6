"""Lists the topics of a local log, with their ids and their files."""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from simstream.errors import LogDamaged, SettingsError, TopicMissing
from simstream.files.file_system import FileSystem
from simstream.log.base import TopicInfo
from simstream.log.command_hints import remedy_for_missing
from simstream.log.local.lock import FileLock, cannot_use
from simstream.log.local.record_groups import FILE_HEADER, FILE_MAGIC
from simstream.log.local.topic_file import GroupFile, LogFiles, TopicWriter, replace_file
from simstream.log.options import MATCHES, POSITIONS, VERDICTS, LogOptions

_RESERVED: Final = re.compile(r"topics|.*\.(judge|source|matchers(-\d)?)")
"""Names whose lock file would be that of the folder, of judges, fingerprinters or matchers."""
_MAX_NAME: Final = 230
"""File systems take 255 bytes; a file that is being written has up to 20 more than its topic's name."""


class TopicCatalog:
    """The topics of a folder: `topics.json`, and one file of records a topic.

    `positions` has no file. Its records stand in the groups of `verdicts`, so that one append publishes both.
    """

    def __init__(self, folder: Path, options: LogOptions, files: FileSystem | None = None) -> None:
        """Raise SettingsError for a name that is too long, or whose lock another part of the log uses.

        A relative `folder` stays where it is when the program changes its working directory.
        """
        for name in (*options.own_names.values(), options.full_name(MATCHES)):
            if _RESERVED.fullmatch(name) or len(name) > _MAX_NAME:
                raise SettingsError(
                    f"a log in a folder cannot have the topic {name}",
                    f"give a name of at most {_MAX_NAME} characters, which is not `topics` and does not end with "
                    "`.judge`, `.source` or `.matchers`",
                )
        self._given = folder
        try:
            self.folder = folder.absolute()
        except FileNotFoundError:
            raise SettingsError(
                "the working directory was removed", "change to another one, or give the log an absolute path"
            ) from None
        self.options = options
        self.files = files or LogFiles()
        self._path = self.folder / "topics.json"

    def name(self, topic: str) -> str:
        """Return the full name."""
        return self.options.full_name(topic)

    def path(self, topic: str) -> Path:
        """Return the path of the file that holds a topic's records."""
        return self.folder / f"{self.name(_stored_in(topic))}.log"

    def open(self, topic: str) -> GroupFile:
        """Return the file that holds a topic's records, for reading. Raises TopicMissing, TopicRecreated."""
        self.info(topic)
        return GroupFile(self.path(topic), self.info(_stored_in(topic)), self.files)

    def writer(self, topic: str) -> TopicWriter:
        """Return the file that holds a topic's records, for appending. Raises TopicMissing, LogLocked."""
        self.info(topic)
        return TopicWriter(self.path(topic), self.info(_stored_in(topic)), self.files)

    def sync(self, *topics: str) -> None:
        """Write all records of these topics to the disk, so that they survive a power cut. Raises TopicMissing,
        LogError."""
        for topic in topics:
            with self.open(topic) as file:
                file.sync()

    def info(self, topic: str) -> TopicInfo:
        """Return the topic as it exists. Raises TopicMissing."""
        entry = self._read().get(self.name(topic))
        if entry is None:
            raise TopicMissing(
                f"there is no topic {self.name(topic)} in {self._given}",
                remedy_for_missing(str(self._given), self.options, topic),
            )
        return TopicInfo(self.name(topic), str(entry["id"]), int(entry["partitions"]))

    def partitions(self, topic: str) -> int | None:
        """Return the number of a topic's partitions; None if there is no such topic."""
        entry = self._read().get(self.name(topic))
        return int(entry["partitions"]) if entry else None

    def stamp(self) -> tuple[int, int]:
        """Return a value that changes whenever the topics do. Cheap enough to ask for every second."""
        try:
            found = self._path.stat()
        except FileNotFoundError:
            return (0, 0)
        return (found.st_ino, found.st_mtime_ns)

    def create(self, topic: str, partitions: int) -> bool:
        """Create a topic; return False if it exists already. Raises LogError if the folder cannot be made."""
        try:
            self.files.make_folder(self.folder)
        except OSError as error:
            raise cannot_use(self.folder, error) from error
        with FileLock(self.folder / "topics.lock", "makes topics"):
            topics = self._read()
            if self.name(topic) in topics:
                return False
            identity = uuid.uuid4()
            if topic != POSITIONS:
                replace_file(self.path(topic), FILE_MAGIC + identity.bytes, self.files)
            topics[self.name(topic)] = {"id": str(identity), "partitions": partitions}
            data = json.dumps({"version": 1, "topics": topics}, indent=1).encode()
            replace_file(self._path, data, self.files)
            return True

    def refuse_records(self, topics: Sequence[str]) -> None:
        """Raise LogDamaged if one of these topics is missing, and its file holds records.

        Then `topics.json` was lost, and a new file would replace this one.
        """
        known = self._read()
        for topic in topics:
            path = self.path(topic)
            if topic == POSITIONS or self.name(topic) in known or not path.exists():
                continue
            if path.stat().st_size > FILE_HEADER:
                raise LogDamaged(
                    f"{path} holds records, and {self._path.name} does not name its topic",
                    f"restore {self._path} from a copy, or use another folder",
                )

    def _read(self) -> dict[str, dict[str, str | int]]:
        try:
            data = json.loads(self._path.read_bytes())
            if data["version"] == 1:
                return {
                    name: {"id": str(one["id"]), "partitions": int(one["partitions"])}
                    for name, one in data["topics"].items()
                }
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise cannot_use(self._path, error) from error
        except (ValueError, KeyError, TypeError, AttributeError):
            pass
        raise LogDamaged(f"{self._path} is damaged", "restore the file, or use another folder")


def _stored_in(topic: str) -> str:
    return VERDICTS if topic == POSITIONS else topic
