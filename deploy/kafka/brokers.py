"""Three real Kafka brokers on this machine, with a controller beside them, so that any of the three may be killed.

    with BrokerCluster() as brokers:
        ...                      # brokers.address names all three
        brokers.nodes[1].kill()

Every record has three copies, and two must agree. A broker that missed records never becomes a leader.
"""

from __future__ import annotations

import shutil
import tempfile
import uuid
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Self

from deploy.kafka.broker import BrokerNode, KafkaBroker
from deploy.kafka.jars import Say, say_on_stderr
from deploy.server_process import free_port

CONTROLLER = 100
"""The controller's node id; the brokers count from 1."""


class BrokerCluster:
    """A cluster; also a context manager. Its records live in a temporary folder that goes with it."""

    def __init__(self, count: int = 3, say: Say = say_on_stderr) -> None:
        self.data = Path(tempfile.mkdtemp(prefix="simstream-kafkas-"))
        port, identity = free_port(), uuid.uuid4().bytes
        voters = f"{CONTROLLER}@127.0.0.1:{port}"
        self.controller = KafkaBroker(
            data=self.data / "controller",
            say=say,
            node=BrokerNode(CONTROLLER, "controller", port, voters, identity, count),
        )
        self.nodes = [
            KafkaBroker(data=self.data / f"{n}", say=say, node=BrokerNode(n, "broker", 0, voters, identity, count))
            for n in range(1, count + 1)
        ]

    @property
    def servers(self) -> str:
        """`HOST:PORT,...` of all brokers, as Kafka's clients take it."""
        return ",".join(node.servers for node in self.nodes)

    @property
    def address(self) -> str:
        """`kafka://HOST:PORT,...`, as `--log` takes it."""
        return f"kafka://{self.servers}"

    def node(self, number: int) -> KafkaBroker:
        """Return the broker with this id."""
        return self.nodes[number - 1]

    def start(self, patience: float = 90.0) -> Self:
        """Start all, and wait until they answer. Raises BrokerError if one does not."""
        self.bring_up([self.controller, *self.nodes], patience)
        return self

    def bring_up(self, nodes: Sequence[KafkaBroker], patience: float = 90.0) -> None:
        """Start some of them side by side, and wait like `start`."""
        _each(nodes, KafkaBroker.launch)
        _each(nodes, lambda node: node.wait(patience))

    def stop(self) -> None:
        """End all, and remove their data."""
        for node in [*self.nodes, self.controller]:
            node.kill()
        shutil.rmtree(self.data, ignore_errors=True)

    def __enter__(self) -> Self:
        try:
            return self.start()
        except BaseException:
            self.stop()
            raise

    def __exit__(self, *_: object) -> None:
        self.stop()


def _each(nodes: Sequence[KafkaBroker], do: Callable[[KafkaBroker], Any]) -> None:
    """Do it to all at once. Raises the first error."""
    with ThreadPoolExecutor() as pool:
        list(pool.map(do, nodes))
