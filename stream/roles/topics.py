"""What of the topics does not fit: a role does not begin where a rule is broken, and says what endangers it."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from stream.errors import TopicUnfit
from stream.log.base import FINGERPRINTS, POSITIONS, VERDICTS, Log, TopicDifference
from stream.roles.context import Context
from stream.settings import Settings

JUDGED = (FINGERPRINTS, VERDICTS, POSITIONS)
"""The topics that a judge relies on."""
RETENTION = "retention.ms"
_log = logging.getLogger("simstream")


def unfit(log: Log, topic: str, settings: Settings) -> list[TopicDifference]:
    """What of a topic does not fit. A log that is cut on purpose fits: the judge keeps its state, and the log is
    kept for longer than the window and two snapshots' time. Raises TopicMissing, BrokerUnreachable."""
    found = log.differences(topic)
    needed_ms = (settings.window_ms or 0) + 2_000 * settings.snapshot_every_s
    if topic == FINGERPRINTS and settings.state:
        found = [one for one in found if one.setting != RETENTION or int(one.found or 0) < needed_ms]
    return found


def check_topics(log: Log, topics: Sequence[str]) -> None:
    """Raises TopicUnfit where one of these topics breaks a rule; TopicMissing, BrokerUnreachable."""
    for topic in topics:
        broken = [str(one) for one in log.differences(topic) if one.breaks]
        if broken:
            raise TopicUnfit(
                f"{log.topic(topic).name} breaks the service's rules ({'; '.join(broken)})",
                "make it anew with `simstream topics create`, or choose another --prefix",
            )


class TopicWatch:
    """Says again and again what endangers the service: a metric, and a line in the log for what is new."""

    def __init__(self, log: Log, topics: Sequence[str], context: Context) -> None:
        self._log = log
        self._context = context
        self._said: dict[str, list[TopicDifference]] = {topic: [] for topic in topics}

    def look(self) -> None:
        """Raises TopicMissing, BrokerUnreachable."""
        for topic, said in self._said.items():
            found = unfit(self._log, topic, self._context.settings)
            self._context.metrics.unfit.labels(topic).set(len(found))
            if found and found != said:
                text = "; ".join(map(str, found))
                _log.warning("settings of the topic %s endanger the service: %s", topic, text)
            self._said[topic] = found
