"""A real etcd of one process, for tests of its own: its ports are free ones, and its data is in memory if there is room
for it, so that another program's writes do not hold up its syncs for longer than a lease."""

from __future__ import annotations

import base64
import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import urllib.request
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

IS_NOT_THERE = shutil.which("etcd") is None and os.environ.get("UCP_REQUIRE_ENGINE") != "1"
LEADER = "ucp/coordinator/leader"
ENTRIES = "ucp/coordinator/entries/"
MEMORY = Path("/dev/shm")
DATA_BYTES = 1 << 29  # etcd reserves 64 MB for each file of its log.


def free_ports(count: int) -> list[int]:
    """For a moment."""
    with ExitStack() as stack:
        servers = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [int(server.getsockname()[1]) for server in servers]


def encoded(text: str) -> str:
    """As the gateway has keys and values."""
    return base64.b64encode(text.encode()).decode()


class Etcd:
    """Started at once, and again with the same data, until it is removed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        has_room = MEMORY.is_dir() and shutil.disk_usage(MEMORY).free > DATA_BYTES
        self.data = Path(tempfile.mkdtemp(prefix="ucp-etcd-", dir=MEMORY if has_room else folder))
        self.port, self.peer_port = free_ports(2)
        self.start()

    @property
    def url(self) -> str:
        """As `--registry` has it."""
        return f"etcd://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Waits until it answers."""
        peers, clients = f"http://127.0.0.1:{self.peer_port}", f"http://127.0.0.1:{self.port}"
        options = {
            "data-dir": self.data,
            "listen-client-urls": clients,
            "advertise-client-urls": clients,
            "listen-peer-urls": peers,
            "initial-advertise-peer-urls": peers,
            "initial-cluster": f"default={peers}",
        }
        command = ["etcd", *(f"--{name}={value}" for name, value in options.items())]
        with (self.folder / "etcd.log").open("a") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log)
        until = time.monotonic() + 60
        while True:
            with suppress(OSError):
                self.call("kv/range", key=encoded("x"))
                return
            assert self.process.poll() is None and time.monotonic() < until, (self.folder / "etcd.log").read_text()
            time.sleep(0.1)

    def end(self) -> None:
        """As a machine that loses its power."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def remove(self) -> None:
        """With its data."""
        self.end()
        shutil.rmtree(self.data)

    def call(self, path: str, **words: Any) -> dict[str, Any]:
        """Of the gateway."""
        url = f"http://127.0.0.1:{self.port}/v3/{path}"
        with urllib.request.urlopen(url, json.dumps(words).encode(), 10) as answer:
            found: dict[str, Any] = json.loads(answer.read())
        return found

    def put(self, key: str, value: str) -> None:
        """Without a lease."""
        self.call("kv/put", key=encoded(key), value=encoded(value))

    def delete(self, key: str) -> None:
        """It is there."""
        assert self.call("kv/deleterange", key=encoded(key))["deleted"] == "1"

    def clear(self) -> None:
        """Of all keys."""
        self.call("kv/deleterange", key=encoded("\0"), range_end=encoded("\0"))

    def pairs(self, prefix: str) -> list[dict[str, Any]]:
        """All whose keys begin so, in order, as the gateway has them."""
        last = prefix[:-1] + chr(ord(prefix[-1]) + 1)
        found: list[dict[str, Any]] = self.call("kv/range", key=encoded(prefix), range_end=encoded(last)).get("kvs", [])
        return found

    def values(self, prefix: str) -> list[str]:
        """The same, alone and as text."""
        return [base64.b64decode(pair["value"]).decode() for pair in self.pairs(prefix)]

    def events(self) -> list[str]:
        """Of the decisions."""
        return [json.loads(value)["event"] for value in self.values(ENTRIES)]
