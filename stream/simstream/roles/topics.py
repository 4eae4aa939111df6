"""Checks the topics' settings: a role does not start if a rule is broken, and reports settings that endanger it."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from simstream.errors import SettingsError, TopicUnfit
from simstream.index.shard import check_count
from simstream.log.base import Log, TopicDifference
from simstream.log.options import FINGERPRINTS, MATCHES, POSITIONS, VERDICTS
from simstream.roles.context import RoleContext
from simstream.settings import Settings

JUDGED = (FINGERPRINTS, VERDICTS, POSITIONS)
"""The topics that a judge relies on."""
JUDGED_WITH_SHARDS = (*JUDGED, MATCHES)
"""The topics that a judge relies on if its index is on matchers."""
RETENTION = "retention.ms"
POLICY = "cleanup.policy"
ALTER = "Kafka's kafka-configs.sh --alter --entity-type topics"
REASSIGN = "give it three with Kafka's kafka-reassign-partitions.sh, then set min.insync.replicas=2"
_logger = logging.getLogger("simstream")


def unfit_settings(log: Log, topics: Sequence[str], settings: Settings) -> dict[str, list[TopicDifference]]:
    """Return the settings of these topics that do not fit, by topic.

    A log that is cut on purpose fits if the judge keeps its state. The log must be kept longer than the window and
    the time of two snapshots. With matchers this holds for their answers, and the log must be kept whole: a shard
    that moves needs all of it. Raises TopicMissing, BrokerUnreachable.
    """
    unfit = log.differences(topics)
    needed_ms = (settings.window_ms or 0) + 2_000 * settings.snapshot_every_s
    may_be_cut = MATCHES if MATCHES in unfit else FINGERPRINTS
    if settings.state and may_be_cut in unfit:
        found = unfit[may_be_cut]
        unfit[may_be_cut] = [one for one in found if one.setting != RETENTION or int(one.found or 0) < needed_ms]
    return unfit


def remedy(topic: str, broken: TopicDifference, create: str) -> str:
    """Return what to do about a rule that a topic breaks. `create` is the command that creates missing topics."""
    if broken.setting == POLICY:
        return f"set {POLICY}=delete with {ALTER}"
    away = (
        "publish under another prefix with `simstream replay --to`"
        if topic == POSITIONS
        else "choose another --prefix"
    )
    return f"{away}. Only if it has no records, delete it and create it again with `{create}`"


def check_topics(log: Log, topics: Sequence[str]) -> None:
    """Raise TopicUnfit if one of these topics breaks a rule. Also raises TopicMissing, BrokerUnreachable."""
    for topic, found in log.differences(topics).items():
        broken = [one for one in found if one.breaks]
        if broken:
            raise TopicUnfit(
                f"{log.topic(topic).name} breaks the service's rules ({'; '.join(map(str, broken))})",
                "; ".join(dict.fromkeys(remedy(topic, one, "simstream topics create") for one in broken)),
            )


def check_shards(log: Log, found: int, wanted: int | None) -> int:
    """Return the number of shards `found`, which is that of the partitions of `matches`.

    Raises SettingsError if it is not possible, or if `wanted` is another one.
    """
    if wanted not in (None, found):
        raise SettingsError(
            f"shards is {wanted}, but the topic {log.topic(MATCHES).name} has {found} partitions",
            f"give --shards {found}, or name another topic with --matches",
        )
    return check_count(found)


def warn_of_lost_verdicts(log: Log, published: int) -> None:
    """Warn if there are fewer verdicts than the `published` ones of the position. Raises TopicMissing,
    BrokerUnreachable."""
    kept = sum(log.end_offsets(VERDICTS).values())
    if kept < published:
        _logger.warning(
            "%d verdicts were published, but the end of the topic %s is at %d: it was deleted and created again, "
            "or it is another topic; the earlier verdicts come again only by `simstream replay`",
            published,
            log.topic(VERDICTS).name,
            kept,
        )


class TopicWatch:
    """Reports settings that endanger the service, in a metric and in a log line when they change, and topics that
    are created again, in a log line."""

    def __init__(self, log: Log, topics: Sequence[str], context: RoleContext) -> None:
        self._log = log
        self._context = context
        self._said: dict[str, list[TopicDifference]] = {topic: [] for topic in topics}
        self._ids: dict[str, str] = {}

    def look(self) -> None:
        """Read the settings of all topics, and report them. Raises TopicMissing, BrokerUnreachable."""
        for topic in self._said:
            info = self._log.topic(topic)
            if self._ids.get(topic, info.id) != info.id:
                _logger.warning(
                    "the topic %s was deleted and created again while it was in use; what was in it is gone",
                    info.name,
                )
            self._ids[topic] = info.id
        unfit = unfit_settings(self._log, list(self._said), self._context.settings)
        for topic, found in unfit.items():
            self._context.metrics.unfit.labels(topic).set(len(found))
            if found and found != self._said[topic]:
                text = "; ".join(map(str, found))
                _logger.warning("settings of the topic %s endanger the service: %s", topic, text)
            self._said[topic] = found
