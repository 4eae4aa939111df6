"""A TCP proxy before a broker: it sees which request passes, and can cut, hold, slow down or edit what passes.

Clients that connect to `KafkaProxy.address` are told by the broker to stay with it (see `KafkaBroker.detour`).
"""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
import time
from collections.abc import Callable
from enum import Enum
from typing import NamedTuple, Self

from deploy.kafka.broker import KafkaBroker

PRODUCE, FETCH, METADATA, COMMIT, HEARTBEAT = 0, 1, 3, 8, 12
ADD_PARTITIONS, END_TRANSACTION = 24, 26
NAMES = {
    PRODUCE: "Produce",
    FETCH: "Fetch",
    COMMIT: "OffsetCommit",
    HEARTBEAT: "Heartbeat",
    ADD_PARTITIONS: "AddPartitionsToTxn",
    END_TRANSACTION: "EndTxn",
}
CHUNK = 64 << 10
FIRST_FLEXIBLE_METADATA = 9
"""From this version of the call on, an answer's lists and strings have lengths of one byte and more."""
_HEAD = struct.Struct(">ihhih")


class ProxiedRequest(NamedTuple):
    """What a request's header says: Kafka's number of the call, and the client's `client.id`."""

    api: int
    client: str

    @property
    def role(self) -> str:
        """The client's name without the machine and process that members of groups add."""
        return self.client.partition("@")[0]


class RequestFate(Enum):
    """What becomes of a request."""

    PASS = "pass"
    CUT = "cut before it"
    """The connection ends, and the broker never hears of the request."""
    UNANSWERED = "cut after it"
    """The broker has done it; the connection ends before the client hears so."""


Rule = Callable[[ProxiedRequest], RequestFate]


def always(_: ProxiedRequest) -> RequestFate:
    """The rule that lets everything pass."""
    return RequestFate.PASS


class KafkaProxy:
    """Stands at `broker.detour` from `with` on; one at a time, others wait for it. It calls `rule` for every
    request, in the thread of its connection; the rule may also delay the request. `slow` maps an ending of a
    client's name to bytes a second. While `is_hiding_brokers`, answers name no broker, as those of a lone broker
    that was silent for too long and has just come back."""

    _turn = threading.Lock()

    def __init__(self, broker: KafkaBroker, rule: Rule = always) -> None:
        self._turn.acquire()
        try:
            self._stand(broker)
        except BaseException:
            self._turn.release()
            raise
        self.rule = rule
        self.slow: dict[str, int] = {}
        self.is_hiding_brokers = False
        self._connections: set[_Connection] = set()
        self._lock = threading.Lock()
        self._closed = False
        self._thread = threading.Thread(target=self._accept, name="proxy", daemon=True)
        self._thread.start()

    def _stand(self, broker: KafkaBroker) -> None:
        self._to = ("127.0.0.1", broker.detour_port)
        self._listener = socket.create_server(("127.0.0.1", broker.detour), backlog=128)
        self.address = f"kafka://127.0.0.1:{broker.detour}"

    def cut(self) -> None:
        """End all connections now."""
        with self._lock:
            connections = list(self._connections)
        for connection in connections:
            connection.close()

    def fate(self, request: ProxiedRequest) -> RequestFate:
        """What becomes of a request."""
        return self.rule(request)

    def forget(self, connection: _Connection) -> None:
        """A connection has ended."""
        with self._lock:
            self._connections.discard(connection)

    def _accept(self) -> None:
        while not self._closed:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            try:
                broker = socket.create_connection(self._to, timeout=5)
            except OSError:
                client.close()
                continue
            broker.settimeout(None)
            connection = _Connection(self, client, broker)
            with self._lock:
                self._connections.add(connection)
            connection.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._closed = True
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut()
        self._thread.join(5)
        self._turn.release()


class _Connection:
    """One client's connection, with a thread for each direction."""

    def __init__(self, proxy: KafkaProxy, client: socket.socket, broker: socket.socket) -> None:
        self._proxy = proxy
        self._client = client
        self._broker = broker
        self._name = ""
        self._mute = False
        self._open_metadata: set[bytes] = set()
        """The numbers of this connection's open questions about the brokers."""
        for wire in (client, broker):
            wire.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def start(self) -> None:
        for pump in (self._requests, self._answers):
            threading.Thread(target=self._run, args=(pump,), daemon=True).start()

    def close(self) -> None:
        for wire in (self._client, self._broker):
            with contextlib.suppress(OSError):
                wire.shutdown(socket.SHUT_RDWR)
            wire.close()
        self._proxy.forget(self)

    def _run(self, pump: Callable[[], None]) -> None:
        with contextlib.suppress(OSError):
            pump()
        self.close()

    def _requests(self) -> None:
        while head := _exactly(self._client, _HEAD.size):
            length, api, version, number, name_length = _HEAD.unpack(head)
            if api == METADATA and version >= FIRST_FLEXIBLE_METADATA:
                self._open_metadata.add(struct.pack(">i", number))
            rest = _exactly(self._client, length + 4 - _HEAD.size)
            self._name = rest[: max(0, name_length)].decode()
            fate = self._proxy.fate(ProxiedRequest(api, self._name))
            if fate is RequestFate.CUT:
                return
            self._mute = self._mute or fate is RequestFate.UNANSWERED
            self._pass_on(self._broker, head + rest)

    def _answers(self) -> None:
        while length := _exactly(self._broker, 4):
            answer = _exactly(self._broker, int.from_bytes(length))
            if self._mute:
                return
            if answer[:4] in self._open_metadata:
                self._open_metadata.discard(answer[:4])
                answer = _without_brokers(answer) if self._proxy.is_hiding_brokers else answer
            self._pass_on(self._client, len(answer).to_bytes(4) + answer)

    def _pass_on(self, wire: socket.socket, data: bytes) -> None:
        rate = next((rate for ending, rate in self._proxy.slow.items() if self._name.endswith(ending)), 0)
        if not rate:
            wire.sendall(data)
            return
        for start in range(0, len(data), CHUNK):
            part = data[start : start + CHUNK]
            wire.sendall(part)
            time.sleep(len(part) / rate)


def _without_brokers(answer: bytes) -> bytes:
    """Return a flexible answer to Metadata with an empty list of brokers, and without a controller."""
    begin = at = 9  # after the question's number, no tags, and the time to hold back
    count, at = answer[at] - 1, at + 1
    for _ in range(count):
        at += 4  # the node's number
        at += answer[at]  # its host; a string's length counts itself
        at += 4  # its port
        at += max(1, answer[at]) + 1  # its rack, which may be missing, and no tags
    cluster = answer[at : at + answer[at]]
    return answer[:begin] + b"\x01" + cluster + b"\xff" * 4 + answer[at + len(cluster) + 4 :]


def _exactly(wire: socket.socket, count: int) -> bytes:
    """Return `count` bytes, or none if the other side has ended."""
    data = bytearray()
    while len(data) < count:
        part = wire.recv(count - len(data))
        if not part:
            return b""
        data += part
    return bytes(data)
