"""The names of a log's topics, and the settings of a log besides its address.

A topic is named by its short name (`pages`, `fingerprints`, `verdicts`, `positions`, `dead-letters`, `matches`);
LogOptions has its full name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from simstream.errors import SettingsError

PAGES = "pages"
FINGERPRINTS = "fingerprints"
VERDICTS = "verdicts"
POSITIONS = "positions"
DEAD_LETTERS = "dead-letters"
TABLE = "table"
"""A topic of the newest entry of each key, under a prefix of its own: what a reader of a log keeps of it."""
TOPICS = (PAGES, FINGERPRINTS, VERDICTS, POSITIONS, DEAD_LETTERS)
"""The topics of every log."""
NAMED = (PAGES, FINGERPRINTS, VERDICTS, DEAD_LETTERS)
"""The topics whose full names can be set. `positions` and `matches` are named after `verdicts`."""
MATCHES = "matches"
"""The topic of the matchers' answers. Its partitions are the shards. Only a log with matchers has it."""
MAX_FRAME_BYTES = 8 << 20
"""The largest record of `fingerprints`: far more than a frame should have."""
DEAD_LETTER_ROOM_BYTES = 64 << 10


def setting_of(topic: str) -> str:
    """Return the setting of LogOptions, and of `Settings`, with the full name of a topic of NAMED."""
    return f"{topic.replace('-', '_')}_topic"


def _prefix_from(name: str, topic: str) -> str:
    """Return the prefix for all that belongs to a topic of this name.

    `p.TOPIC` gives `p`, and any other name gives itself and `.TOPIC`: different names give different prefixes. No
    prefix that a user may set ends with `.TOPIC`, so none is equal to one of these.
    """
    prefix = name.removesuffix(f".{topic}")
    return prefix if prefix not in ("", name) else f"{name}.{topic}"


@dataclass(frozen=True, slots=True)
class LogOptions:
    """The settings of a log besides its address."""

    prefix: str = "simstream"
    client: Mapping[str, str | int | float | bool] = field(default_factory=dict, repr=False)
    """Settings passed through to the Kafka client (`[kafka]` in the file); some are secret."""
    patience: float = 30.0
    """Seconds to wait for an unreachable broker before BrokerUnreachable."""
    logs_silence: bool = True
    """Whether to log a long silence of the brokers. False for a caller that reports the silence itself."""
    max_record_bytes: int = 1 << 20
    matches: str = "matches"
    """The last part of the name of the topic of answers."""
    shards: int | None = None
    """The partitions that this topic should have, for the command that creates it."""
    publish_to: str | None = None
    """The prefix of `verdicts`, `positions`, `matches`, and of the groups of judges and matchers; the default is
    `prefix`. With it, several policies can judge one log side by side."""
    pages_topic: str | None = None
    """The full name of `pages`, if it is a topic of the user's own: the log reads it, and never creates it."""
    fingerprints_topic: str | None = None
    """The full name of `fingerprints`, if it has one of its own. The fingerprinters' group is named after it."""
    verdicts_topic: str | None = None
    """The full name of `verdicts`, in the place of `publish_to`: all that `publish_to` names is named after it."""
    dead_letters_topic: str | None = None
    """The full name of `dead-letters`, if it has one of its own."""

    def __post_init__(self) -> None:
        """Raise SettingsError if two settings name the place of verdicts, or a name has two uses."""
        if self.publish_to is not None and self.verdicts_topic is not None:
            raise SettingsError(
                f"publish_to is {self.publish_to}, and verdicts_topic is {self.verdicts_topic}",
                "give one of them: both say where verdicts go",
            )
        if self.matches in TOPICS:
            raise SettingsError(f"matches is {self.matches}, which is another topic", "give it another name")
        self._check_prefix(FINGERPRINTS, self.log_prefix, self.prefix)
        self._check_prefix(VERDICTS, self.judged_prefix, self.publish_to or self.prefix)
        for topic, name in self.own_names.items():
            if name in (".", "..") or name in self._names_taken(topic):
                what = "that the service writes itself" if topic == PAGES else "that the service uses otherwise"
                raise SettingsError(
                    f"{setting_of(topic)} is {name}, a topic {what}", "give another name, or prefix"
                )

    def _check_prefix(self, topic: str, used: str, given: str) -> None:
        """Raise SettingsError if a topic named by `given`, or by its own setting, shares the prefix of another."""
        name: str | None = getattr(self, setting_of(topic))
        if used.endswith(f".{topic}") and name in (None, f"{used}.{topic}"):
            what = f"the prefix {given}" if name is None else f"{setting_of(topic)}, {name},"
            raise SettingsError(
                f"{what} has `.{topic}` once too often at its end", "give a name without it, or with another ending"
            )

    def _names_taken(self, topic: str) -> set[str]:
        """Return the names that this topic may not have: those of the other topics, and the default names of all
        topics that the service writes."""
        written = (*TOPICS[1:], MATCHES, self.matches)
        names = {f"{prefix}.{one}" for prefix in (self.prefix, self.judged_prefix) for one in written}
        names.discard(f"{self.judged_prefix if topic == VERDICTS else self.prefix}.{topic}")
        return names | {self.full_name(other) for other in (*TOPICS, MATCHES) if other != topic}

    @property
    def own_names(self) -> dict[str, str]:
        """The topics whose full name is set, by their short names."""
        named = ((topic, getattr(self, setting_of(topic))) for topic in NAMED)
        return {topic: name for topic, name in named if name is not None}

    @property
    def log_prefix(self) -> str:
        """The prefix of the fingerprinters' group: two logs never share one, whatever their topics are called."""
        return (
            self.prefix if self.fingerprints_topic is None else _prefix_from(self.fingerprints_topic, FINGERPRINTS)
        )

    @property
    def judged_prefix(self) -> str:
        """The prefix of the topics and groups that depend on the policy, and of fencing: two judges of one topic
        never publish at once, whatever their prefixes."""
        if self.verdicts_topic is not None:
            return _prefix_from(self.verdicts_topic, VERDICTS)
        return self.publish_to or self.prefix

    def full_name(self, topic: str) -> str:
        """Return the full name of a topic: the one that is set, or its prefix and short name."""
        if topic in NAMED and (name := getattr(self, setting_of(topic))) is not None:
            return str(name)
        if topic == MATCHES:
            return f"{self.judged_prefix}.{self.matches}"
        return f"{self.judged_prefix if topic in (VERDICTS, POSITIONS) else self.prefix}.{topic}"

    def matchers_group(self, copy: int) -> str:
        """Return the name of the group of matchers that share the shards of a copy of the index, counted from 1."""
        name = "matchers" if self.matches == MATCHES else f"{self.matches}.matchers"
        return f"{self.judged_prefix}.{name}" + (f"-{copy}" if copy > 1 else "")


def largest_record(topic: str, options: LogOptions) -> int:
    """Return the largest record of a topic in bytes, as `create_topics` sets it.

    A dead letter has room for the whole page and for its error.
    """
    if topic == PAGES:
        return options.max_record_bytes
    return max(MAX_FRAME_BYTES, options.max_record_bytes + DEAD_LETTER_ROOM_BYTES)
