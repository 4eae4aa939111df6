"""Where scenarios run: one broker or three, started when first wanted, and a service whose kernels are compiled."""

from __future__ import annotations

import contextlib
import tempfile
import threading
from contextlib import ExitStack
from pathlib import Path

from deploy.kafka.broker import KafkaBroker
from deploy.kafka.brokers import BrokerCluster
from simstream.closing import Closing
from tests.chaos.arena import ChaosArena, ChaosScale
from tests.chaos.scenarios import ChaosScenario
from tests.e2e.harness import Program
from tests.kafka_fixtures import TopicPlace

COMPILING_S = 600.0


class ChaosGrounds(Closing):
    """A context manager that ends everything that it started. Safe in several threads."""

    def __init__(self, cache: Path, broker: KafkaBroker | None = None) -> None:
        """`broker` is one that somebody else ends."""
        self._cache = cache
        self._broker = broker
        self._brokers: BrokerCluster | None = None
        self._stack = ExitStack()
        self._lock = threading.Lock()
        self._cluster_in_use = threading.Lock()

    def run(self, scenario: ChaosScenario, scale: ChaosScale, folder: Path, seed: int) -> str:
        """Run one scenario, and return its report. Raises its error.

        Scenarios with three brokers wait for each other: each kills brokers and counts on the others.
        """
        alone = self._cluster_in_use if scenario.brokers == 3 else contextlib.nullcontext()
        with alone, ChaosArena(self._ground(scenario.brokers), folder, self._cache, seed) as arena:
            return scenario.run(arena, scale)

    def warm(self) -> None:
        """Start the service once, as the first start after a change compiles for a minute or two."""
        with tempfile.TemporaryDirectory(prefix="simstream-chaos-") as made:
            program = Program(Path(made), self._cache, TopicPlace(str(Path(made) / "log"), "warm"))
            program.good("topics", "create", "--partitions", 1)
            with program.serve("--state", "state") as service:
                service.until(lambda: service.get("/health/ready")[0] == 200, "it is ready", COMPILING_S)
                assert service.end() == 0, service.output

    def _ground(self, count: int) -> KafkaBroker | BrokerCluster:
        with self._lock:
            if count == 3:
                self._brokers = self._brokers or self._stack.enter_context(BrokerCluster())
                return self._brokers
            self._broker = self._broker or self._stack.enter_context(KafkaBroker())
            return self._broker

    def close(self) -> None:
        """End all that was started."""
        self._stack.close()
