"""Defines every metric of simstream, with its unit and a sentence. No URL, host or id of a page is a label.

The table in docs/reference is made of this file (`python -m deploy.reference`). What pages bring is counted for
a whole batch at once.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping

from prometheus_client import Counter, ProcessCollector, generate_latest

from simstream.index.further_tables import FURTHER_TABLES
from simstream.index.packed import SCANNED
from simstream.index.plan import MAX_TABLES
from simstream.judge.acceptor import IgnoreReason
from simstream.judge.answer_book import AnswerIssue
from simstream.model import GIVEN_REASONS, VerdictKind
from simstream.telemetry import process_memory
from simstream.telemetry.registry import LabellingRegistry, MetricLabel, MetricRegistry

PREFIX_LABEL = "prefix"
"""The label on every series of a service."""
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
NO_DEAD_LETTER = ("few_words", "http_status")
"""Reasons of pages that are too short; they make no dead letters."""
SIZES = {1: "1", 2: "2", 4: "3-4", 9: "5-9", 99: "10-99", 999: "100-999"}
"""Classes of clusters, by the most pages that they may have; the class of larger ones is LARGER."""
LARGER = "1000+"
ROLE = MetricLabel("role", ("fingerprint", "judge", "query", "match"))
SHARD = MetricLabel("shard", bound="one a shard, at most 256")
COPY = MetricLabel("copy", bound="one a process, 1 to 3")
MATCHER = MetricLabel("matcher", bound="one a process: the setting `instance`, else HOST:PID")
ANSWER_ISSUE = MetricLabel("reason", tuple(issue.value for issue in AnswerIssue))
ELECTED = MetricLabel("role", ("judge",))
TOPIC = MetricLabel("topic", ("fingerprints", "verdicts", "positions", "matches"))
PARTITION = MetricLabel("partition", bound="one a partition of `pages`")
VERDICT = MetricLabel("verdict", tuple(kind.value for kind in VerdictKind))
DEAD_REASON = MetricLabel("reason", tuple(reason for reason in GIVEN_REASONS if reason not in NO_DEAD_LETTER))
IGNORED_REASON = MetricLabel("reason", tuple(reason.value for reason in IgnoreReason))
TRANSACTION_RESULT = MetricLabel("result", ("committed", "found", "aborted", "fenced"))
REGISTRY_RESULT = MetricLabel("result", ("found", "unknown", "failed"))
ASKED = MetricLabel("asked", ("match", "page", "cluster", "tokens", "judge"))
STAGE = MetricLabel("stage", ("decode", "fingerprint", "judge", "publish", "snapshot", "snapshot_write"))
TABLE = MetricLabel("table", (SCANNED, *(str(table) for table in range(MAX_TABLES)), *FURTHER_TABLES))
INDEX_PART = MetricLabel("part", ("tables", "sketches", "rows", "memtable", "released"))
STATE_PART = MetricLabel("part", ("rows_and_chains", "clusters", "directory", "page_store"))
SIZE = MetricLabel("size", (*SIZES.values(), LARGER))
MEMORY = MetricLabel("kind", ("own", "mapped"))
VERSION, RECIPE, POLICY = (MetricLabel(name, bound="one a process") for name in ("version", "recipe", "policy"))
SECONDS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 300, 1800)
ANSWER_SECONDS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5, 2, 10)
SIMILARITIES = tuple(step / 20 for step in range(10, 21))
DISTANCES = tuple(range(17))


class Metrics:
    """The counters, gauges and histograms of one process, in a registry of their own.

    If a role does not run here, its gauges have no series and its counters are at 0.
    """

    def __init__(self, prefix: str = "") -> None:
        """`prefix` is the prefix of the topics that this process publishes to. It becomes a label of every series,
        so that the judges of one log can be told apart. If it is empty, there is no such label."""
        make = MetricRegistry()
        self.described = make.described
        """The descriptions of all metrics, in the order of the table."""
        self._exposed = LabellingRegistry(make.collectors, {PREFIX_LABEL: prefix} if prefix else {})
        self.registry = make.collectors
        self._keepers: dict[object, tuple[Callable[[], float], Callable[[], int]]] = {}
        self._flow(make)
        self._log(make)
        self._state(make)
        self._quality(make)
        self._shards(make)
        self._process(make)

    def _flow(self, make: MetricRegistry) -> None:
        """Make the metrics of pages in, verdicts out, and latency."""
        self.pages = make.counter("pages_consumed", "Records of `pages` that were read.", unit="pages")
        self.page_bytes = make.counter("consumed_bytes", "Values of the pages that were read.")
        self.verdicts = make.counter("verdicts", "Verdicts committed, by kind.", VERDICT)
        self.late_pages = make.counter(
            "late_pages", "Pages that were older than the window when the judge came to them, also in a replay."
        )
        self.dead_letters = make.counter(
            "dead_letters", "Unreadable pages sent to `dead-letters`, by reason.", DEAD_REASON, unit="pages"
        )
        self.key_differs = make.counter(
            "key_differs", "Pages whose record key and field `id` differ; the key counts.", unit="pages"
        )
        self.set_aside = make.counter(
            "pages_set_aside",
            "Pages that were not extracted, because too many pages of their host took too long.",
            unit="pages",
        )
        self.texts_cut = make.counter(
            "texts_cut", "Texts longer than the recipe reads; only their beginning counts.", unit="pages"
        )
        self.headers_left_out = make.counter(
            "headers_left_out", "Headers of pages too long to go on to a verdict.", unit="headers"
        )
        self.source_lag = make.gauge(
            "source_lag_pages", "Offsets of `pages` not yet read, by partition.", PARTITION
        )
        self.source_lag_seconds = make.gauge(
            "source_lag_seconds",
            "The longest time that a page may have waited to be read; 0 if none waits.",
            PARTITION,
        )
        self.whole_latency = make.histogram(
            "end_to_end_latency_seconds",
            "From a page's record in `pages` (its timestamp) to the commit of its verdict.",
            SECONDS,
        )
        self.page_latency = make.histogram(
            "frame_latency_seconds",
            "From a page's record in `pages` (its timestamp) to the acknowledgement of its frame, the first part.",
            SECONDS,
        )
        self.latency = make.histogram(
            "verdict_latency_seconds",
            "From a page's frame in the log to the commit of its verdict, the second part.",
            SECONDS,
        )
        self.query_seconds = make.histogram(
            "query_seconds", "Time of an answer of the role `query`, by question.", ANSWER_SECONDS, ASKED
        )
        self.batch = make.histogram(
            "batch_seconds", "Time that a batch spent in a stage; `_sum` is the stage's total time.", SECONDS, STAGE
        )

    def _log(self, make: MetricRegistry) -> None:
        """Make the metrics of the log, its order, and the roles that work on it."""
        self.frames = make.counter("frames_accepted", "Frames of the log that the judge accepted.", unit="frames")
        self.frames_ignored = make.counter(
            "frames_ignored",
            "Frames of the log that the judge ignored, by reason. A replay does not count them again.",
            IGNORED_REASON,
            unit="frames",
        )
        self.transactions = make.counter(
            "transactions",
            "Attempts to publish, by result. `found`: committed, although its end was not seen. `fenced`: another "
            "judge or its own time limit ended it, or its client got no answer in that time.",
            TRANSACTION_RESULT,
        )
        self.registry_requests = make.counter(
            "registry_requests", "Requests for schemas to the schema registry, by their result.", REGISTRY_RESULT
        )
        self.registry_wait = make.gauge(
            "registry_wait_seconds", "How long pages have waited for a schema; 0: they do not wait."
        )
        self.restarts = make.counter(
            "delivery_restarts", "Times a failed delivery made the fingerprinter start again."
        )
        self.rebalances = make.counter(
            "rebalances", "Times that this process gained or lost partitions of `pages`."
        )
        self.elections_lost = make.counter(
            "elections_lost", "Times that this judge was elected and lost the election again.", unit="elections"
        )
        self.elected = make.gauge(
            "role_elected", "1 if this process's judge is elected, 0 on standby.", ELECTED, unit="1 or 0"
        )
        self.gaps = make.gauge(
            "source_gaps", "Source partitions with an open gap before the log's frames.", unit="partitions"
        )
        self.position = make.gauge("log_position", "Next frame of the log that the judge reads.", unit="frame")
        self.published = make.gauge(
            "published_position", "First frame whose verdicts are not committed.", unit="frame"
        )
        self.ordinal = make.gauge("next_ordinal", "The number that the next accepted page will have.")
        self.source_position = make.gauge(
            "source_position", "Next offset of `pages` that the judge has not accepted.", PARTITION, unit="offset"
        )
        self.log_lag_seconds = make.gauge("log_lag_seconds", "Age of the last judged frame; 0 at the log's end.")
        self.replay_remaining = make.gauge(
            "replay_remaining_frames",
            "Frames below the published position that are not yet judged, at a start or on standby.",
        )
        self.log_begins = make.gauge("log_first_frame", "First frame that the log still has.")
        self.retention = make.gauge(
            "retention_margin_seconds",
            "Time until retention removes the first frame that a restart needs; +Inf if the log keeps all.",
        )
        self.retention.set(float("inf"))
        self.unfit = make.gauge(
            "topic_settings_unfit",
            "Settings of a topic that endanger the service; a log line and `simstream status` name them.",
            TOPIC,
            unit="settings",
        )

    def _state(self, make: MetricRegistry) -> None:
        """Make the metrics of the judge's state and of its snapshots."""
        self.live_pages = make.gauge("live_pages", "Pages that a new page is compared with.")
        self.numbers_used = make.gauge(
            "numbers_used",
            "Numbers in use in the judge's fullest table, of 2,147,483,646. Pages that left may still have some. "
            "Each sealed chunk of pages counts as 32,768, however empty it is.",
            unit="numbers",
        )
        self.entries = make.gauge("index_entries", "Distinct entries of the index.")
        self.segments = make.gauge("index_segments", "Sealed segments of the index.")
        self.index_bytes = make.gauge("index_bytes", "Size of the index, in memory or mapped, by part.", INDEX_PART)
        self.table_entries = make.gauge(
            "index_table_entries",
            "Entries of sealed segments, by table; `second` to `fourth`: all tables of that lookup of a page.",
            TABLE,
        )
        self.table_bytes = make.gauge("index_table_bytes", "Size of each permuted table with its directory.", TABLE)
        self.state_bytes = make.gauge(
            "state_bytes", "Size of the judge's state besides the index, by part.", STATE_PART
        )
        self.stream_time = make.gauge("stream_time_timestamp_seconds", "The largest time of a page so far.")
        self.window = make.gauge("window_seconds", "The window; 0 without one.")
        self.window_span = make.gauge(
            "window_span_seconds", "From the oldest bucket of the index to stream time; 0 without a window."
        )
        self.snapshot_age = make.gauge(
            "snapshot_age_seconds",
            "Age of the newest snapshot of the judge's state; NaN without one, 0 without --state or for a matcher "
            "without shards.",
        )
        self.state_damaged = make.gauge(
            "state_damaged_files", "Files of snapshots that were set aside, kept in the state's folder `damaged`."
        )
        self.state_verified_bytes = make.counter(
            "state_verified_bytes", "Bytes of the state's files that were verified again in the background."
        )
        self.state_verified = make.gauge(
            "state_verified_timestamp_seconds",
            "When all files of the state were last verified again; 0 before the first time.",
        )
        self.snapshot_position = make.gauge(
            "snapshot_position", "First frame that a restart needs: the newest snapshot's, else 0.", unit="frame"
        )

    def _quality(self, make: MetricRegistry) -> None:
        """Make the metrics of the verdicts' quality. Shares come from `simstream_verdicts_total`."""
        self.similarity = make.histogram(
            "similarity_ratio", "Similarity of near duplicates to the page that they name.", SIMILARITIES
        )
        self.distance = make.histogram(
            "hamming_distance",
            "Distance of near duplicates to the page that they name.",
            DISTANCES,
            unit="bits that differ",
        )
        self.candidates = make.counter(
            "candidates", "Candidates: entries within the distance, before the sketch decides.", unit="entries"
        )
        self.rejected = make.counter(
            "candidates_rejected",
            "Candidates that the sketch or the rule for short pages rejected.",
            unit="entries",
        )
        self.clusters = make.gauge("clusters", "Live clusters, by their number of live pages.", SIZE)
        self.largest_cluster = make.gauge(
            "largest_cluster_pages",
            "Live pages of the largest cluster; a log line names each cluster that is too large.",
        )
        self.largest_share = make.gauge("largest_cluster_ratio", "The largest cluster's share of all live pages.")

    def _shards(self, make: MetricRegistry) -> None:
        """Make the metrics of an index that is divided among matchers."""
        self.shard_entries = make.gauge(
            "shard_entries", "Distinct entries of a shard of the index, on its matcher.", SHARD, unit="entries"
        )
        self.shard_bytes = make.gauge(
            "shard_bytes", "Size of a shard on its matcher: index and live pages, in memory or mapped.", SHARD
        )
        self.shard_position = make.gauge(
            "shard_position", "Next frame of the log that a matcher answers from a shard.", SHARD, unit="frame"
        )
        self.shard_replay = make.gauge(
            "shard_replay_frames",
            "Frames below the published position that a matcher has not yet read for a shard, after a start.",
            SHARD,
        )
        self.shard_info = make.gauge(
            "shard_info",
            "Names the matcher that holds a shard of a copy; a shard that this process gave back has no series.",
            SHARD,
            COPY,
            MATCHER,
            unit="1",
        )
        self.shard_lag = make.gauge(
            "shard_lag_frames", "Frames that the judge has read and a shard has not answered.", SHARD
        )
        self.answers = make.counter("answers", "Answers of shards that the judge took.", unit="answers")
        self.answers_ignored = make.counter(
            "answers_ignored",
            "Answers of shards that the judge ignored, by reason; `repeated` is normal after a restart and with "
            "copies.",
            ANSWER_ISSUE,
            unit="answers",
        )

    def _process(self, make: MetricRegistry) -> None:
        """Make the metrics of this process, besides `process_*` of the client library (CPU, files, start)."""
        self.turn_age = make.gauge(
            "turn_age_seconds",
            "How long ago a role gave its last sign; 0 before its first sign, and while it is told to wait.",
            ROLE,
        )
        self.ready = make.gauge(
            "ready", "1 if this process is ready: connected, and done with its replay.", unit="1 or 0"
        )
        self._memory = make.gauge("memory_bytes", "Memory of this process: its own, and mapped from files.", MEMORY)
        self._memory_limit = make.gauge("memory_limit_bytes", "Memory that the container or the machine allows.")
        self._memory_limit.set_function(process_memory.limit)
        self.info = make.gauge("info", "Version, recipe and policy in force.", VERSION, RECIPE, POLICY, unit="1")
        ProcessCollector(registry=self.registry)

    def describe(self, version: str, recipe: str, recipe_id: str, policy_id: str, window_ms: int | None) -> None:
        """Set the metrics of the version, recipe, policy and window in force."""
        self.info.labels(version, f"{recipe} {recipe_id}", policy_id).set(1)
        self.window.set((window_ms or 0) / 1000)

    def forget(self, partition: int) -> None:
        """Remove the series of a partition that is no longer read here."""
        for gauge in (self.source_lag, self.source_lag_seconds):
            with contextlib.suppress(KeyError):
                gauge.remove(str(partition))

    def forget_shard(self, shard: int, copy: int, matcher: str) -> None:
        """Remove the series of a shard that this process no longer holds."""
        for gauge in (self.shard_entries, self.shard_bytes, self.shard_position, self.shard_replay):
            with contextlib.suppress(KeyError):
                gauge.remove(str(shard))
        with contextlib.suppress(KeyError):
            self.shard_info.remove(str(shard), str(copy), matcher)

    def of_second_state(self) -> Metrics:
        """Return metrics for a role that keeps a state beside that of another role.

        Of these only the metrics of questions and snapshots are exposed, which tell roles or folders apart.
        """
        second = Metrics()
        second.query_seconds = self.query_seconds
        second.snapshot_age, second.state_damaged = self.snapshot_age, self.state_damaged
        second._keepers = self._keepers
        return second

    def watch_snapshots(self, keeper: object, age_s: Callable[[], float], damaged: Callable[[], int]) -> None:
        """Measure the folder of a keeper of snapshots. Of several folders one without a snapshot counts, or the
        oldest snapshot; without a folder the age is 0."""
        self._keepers[keeper] = age_s, damaged
        self.snapshot_age.set_function(
            lambda: max(
                (age() for age, _ in list(self._keepers.values())), key=lambda age: (age != age, age), default=0.0
            )
        )
        self.state_damaged.set_function(lambda: sum(number() for _, number in list(self._keepers.values())))

    def forget_snapshots(self, keeper: object) -> None:
        """Measure the folder of this keeper no more, and let go of its state."""
        self._keepers.pop(keeper, None)

    def text(self) -> bytes:
        """Return the text that Prometheus scrapes."""
        for kind, size in process_memory.held():
            self._memory.labels(kind).set(size)
        return generate_latest(self._exposed)


class RisingCounter:
    """Copies rising totals of other code to a counter with one label."""

    def __init__(self, counter: Counter) -> None:
        self._counter = counter
        self._seen: dict[str, int] = {}

    def follow(self, totals: Mapping[str, int]) -> None:
        """Add the rise since the last call."""
        for value, total in list(totals.items()):  # another thread may add keys meanwhile
            before = self._seen.get(value, 0)
            if total > before:
                self._counter.labels(value).inc(total - before)
                self._seen[value] = total


def cluster_sizes(sizes: Mapping[int, int]) -> dict[str, int]:
    """Return the number of clusters in each class; `sizes` counts clusters by their number of pages."""
    counts = dict.fromkeys(SIZE.values, 0)
    for pages, clusters in sizes.items():
        counts[next((name for most, name in SIZES.items() if pages <= most), LARGER)] += clusters
    return counts
