"""Coordinators and agents of straw, for tests that look from outside."""

from __future__ import annotations

import hashlib
import json
import signal
import socket
import struct
import subprocess
import time
from typing import Any

from programs import PROGRAMS, ProgramTest

SECRET = b"a secret that is long enough"


def proof_of(secret: bytes, side: str, asked: str, answered: str) -> str:
    """SHA-256, each part behind its length."""
    parts = (secret, side.encode(), asked.encode(), answered.encode())
    return hashlib.sha256(b"".join(struct.pack("<Q", len(part)) + part for part in parts)).hexdigest()


class Agent:
    """One connection."""

    def __init__(self, port: int, secret: bytes = SECRET, version: int = 1) -> None:
        self.socket = self.connect(port)
        self.file = self.socket.makefile("rb")
        self.say(type="hello", version=version, random="ab" * 32)
        answered = self.hear()["random"]
        self.say(type="proof", proof=proof_of(secret, "agent", "ab" * 32, answered))
        welcome = self.hear()
        self.is_welcome = welcome.get("proof") == proof_of(secret, "coordinator", "ab" * 32, answered)

    def connect(self, port: int) -> socket.socket:
        """On this machine."""
        return socket.create_connection(("127.0.0.1", port), 20)

    def say(self, **words: object) -> None:
        """One line."""
        self.socket.sendall(json.dumps(words).encode() + b"\n")

    def hear(self) -> dict[str, Any]:
        """The next line; empty at the end. A coordinator that ends with something unread resets the connection."""
        try:
            line = self.file.readline()
        except ConnectionResetError:
            line = b""
        return json.loads(line) if line else {}

    def join(self, node: str, nodes: int, epoch: int = 0, task: str = "t") -> None:
        """A task of that many nodes."""
        self.say(type="join", epoch=epoch, task=task, node=node, host="h", port=1, least=1, most=nodes)

    def close(self) -> None:
        """The other side sees it."""
        self.file.close()
        self.socket.close()


class CoordinatorTest(ProgramTest):
    """Each test has a coordinator at a port of its own."""

    def setUp(self) -> None:
        """The secret is in a file."""
        super().setUp()
        self.secret = self.folder / "secret"
        self.secret.write_bytes(SECRET + b"\n")
        with socket.create_server(("127.0.0.1", 0)) as server:
            self.port = int(server.getsockname()[1])

    def start(self, *options: object, **how: Any) -> subprocess.Popen[str]:
        """Waits until it listens."""
        command = ["coordinate", "--port", self.port, "--secret-file", self.secret, *options]
        log = (self.folder / "log").open("w")
        self.addCleanup(log.close)
        process = subprocess.Popen(
            [str(PROGRAMS / "ucprun"), *map(str, command)], cwd=self.folder, stdout=log, stderr=log, text=True, **how
        )
        self.addCleanup(self.end, process)
        self.wait_for(lambda: "listening at port" in self.log() or process.poll() is not None)
        return process

    def end(self, process: subprocess.Popen[str]) -> None:
        """If it has not yet."""
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        self.assertIn(process.wait(20), (0, 2, -9), self.log())

    def log(self) -> str:
        """Of the last coordinator."""
        return (self.folder / "log").read_text()

    def wait_for(self, condition: Any, seconds: float = 30) -> None:
        """Fails with the log."""
        until = time.monotonic() + seconds
        while not condition():
            self.assertLess(time.monotonic(), until, self.log())
            time.sleep(0.02)

    def ask(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Of `ucprun cluster`."""
        return self.run_program(
            "ucprun", "cluster", *words, "--endpoint", f"127.0.0.1:{self.port}", "--secret-file", self.secret
        )

    def two(self) -> tuple[Agent, Agent]:
        """Agents that have a world."""
        agents = (Agent(self.port), Agent(self.port))
        for number, agent in enumerate(agents):
            self.addCleanup(agent.close)
            agent.join(f"n{number}", 2)
        for agent in agents:
            world = agent.hear()
            self.assertEqual((world["type"], world["epoch"], world["nodes"]), ("world", 1, 2))
        return agents
