"""Three real Kafka brokers on this machine, with a controller beside them, so that any of the three may be killed.

    with Brokers() as brokers:
        ...                      # brokers.address names all three
        brokers.nodes[1].kill()

Everything has three copies, of which two must agree; no leader is chosen that missed records.
"""

from __future__ import annotations

import shutil
import tempfile
import uuid
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Self

from deploy.kafka.broker import BrokerNode, KafkaBroker, free_port
from deploy.kafka.jars import Say, say_on_stderr

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
        """The broker that the cluster knows by this id."""
        return self.nodes[number - 1]

    def start(self, patience: float = 90.0) -> Self:
        """Start all and wait until they answer; raises BrokerError where one does not."""
        self.bring_up([self.controller, *self.nodes], patience)
        return self

    def bring_up(self, nodes: Sequence[KafkaBroker], patience: float = 90.0) -> None:
        """Start some of them side by side, and wait as `start`."""
        _each(nodes, KafkaBroker.launch)
        _each(nodes, lambda node: node.wait(patience))

    def stop(self) -> None:
        """End all, and remove what they kept."""
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
    """Do it to all at once; the first error is raised."""
    with ThreadPoolExecutor() as pool:
        list(pool.map(do, nodes))
