"""healing_agents.py [--agents N] [--rest S] [--losses N] [--write]: what a coordinator takes for many agents.

The agents are connections of one process on this machine. Each says a step every second, and each hundred is a job.
Then some jobs lose an agent each. With --write the table goes into docs/healing.md. UCP_BIN names the folder of the
programs.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import resource
import selectors
import socket
import struct
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
NODES = 100  # Of a job.
HEAD = ("agents", "jobs", "share of a processor at rest", "memory", "answer to a closed connection after")
BEGIN, END = "<!-- table of healing_agents.py -->\n", "<!-- end of table of healing_agents.py -->\n"


class Agent:
    """One connection."""

    def __init__(self, port: int, number: int) -> None:
        self.number, self.received = number, b""
        self.socket = socket.create_connection(("127.0.0.1", port), 30)
        self.say(type="hello", version=1, random="ab" * 32)
        answered = self.hear()["random"]
        parts = (b"", b"agent", b"ab" * 32, answered.encode())
        proof = hashlib.sha256(b"".join(struct.pack("<Q", len(part)) + part for part in parts)).hexdigest()
        self.say(type="proof", proof=proof)
        self.hear()

    def say(self, **words: object) -> None:
        """One line."""
        self.socket.sendall(json.dumps(words).encode() + b"\n")

    def hear(self) -> dict[str, Any]:
        """The next line."""
        while b"\n" not in self.received:
            received = self.socket.recv(1 << 16)
            if not received:
                raise ConnectionError("the coordinator has closed the connection")
            self.received += received
        line, self.received = self.received.split(b"\n", 1)
        return dict(json.loads(line))

    def join(self, nodes: int, epoch: int = 0) -> None:
        """The job of its hundred."""
        self.say(type="join", epoch=epoch, task=f"job-{self.number // NODES:03}", node=f"node-{self.number:05}",
                 host="127.0.0.1", port=1, least=1, most=nodes)  # fmt: skip


class Agents:
    """All of them, with what they say on their own."""

    def __init__(self, port: int, count: int) -> None:
        self.nodes = min(NODES, count)
        self.all = {number: Agent(port, number) for number in range(count)}
        self.epochs = dict.fromkeys(self.all, 0)
        self.step, self.begun = 0, time.monotonic()
        self.said: set[int] = set()
        self.selector = selectors.DefaultSelector()
        for agent in self.all.values():
            agent.join(self.nodes)
            self.selector.register(agent.socket, selectors.EVENT_READ, agent)

    def work(self, seconds: float) -> None:
        """Each says a step once a second, spread over it; a restart is followed."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            passed = time.monotonic() - self.begun
            if passed > 1:
                self.begun, self.step, passed = time.monotonic(), self.step + 1, 0.0
                self.said = set()
            for number in range(int(passed * 1.02 * (max(self.all) + 1))):
                if number in self.all and number not in self.said:
                    self.said.add(number)
                    self.all[number].say(type="beat", epoch=self.epochs[number], step=self.step)
            for key, _ in self.selector.select(0.005):
                self.take(key.data, key.data.hear())

    def take(self, agent: Agent, message: dict[str, Any]) -> None:
        """As an agent does."""
        if message["type"] == "world":
            self.epochs[agent.number] = message["epoch"]
        elif message["type"] == "restart":
            agent.join(self.nodes, message["epoch"])

    def lose(self, number: int) -> None:
        """Its connection is closed."""
        agent = self.all.pop(number)
        self.selector.unregister(agent.socket)
        agent.socket.close()


def processor_seconds(pid: int) -> float:
    """Of the process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def resident_mebibytes(pid: int) -> float:
    """Of the process now."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / (1 << 20)


def log_of(folder: Path) -> list[dict[str, Any]]:
    """The decisions in the journal."""
    return [json.loads(line.split(" ", 1)[1]) for line in (folder / "journal").read_text().splitlines()]


def loss(agents: Agents, folder: Path, number: int) -> float:
    """Seconds from a connection that is closed to the decision about its node."""
    began = time.time()
    agents.lose(number)
    while True:
        agents.work(0.2)
        for entry in log_of(folder):
            if entry["event"] == "failure" and entry["node"] == f"node-{number:05}":
                return float(entry["time"]) - began


def measure(count: int, rest: float, losses: int) -> list[str]:
    """The cells of the table."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = int(server.getsockname()[1])
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        command = [str(Path(os.environ["UCP_BIN"]).resolve() / "ucprun"), "coordinate", "--port", str(port),
                   "--journal", "journal"]  # fmt: skip
        with (folder / "log").open("w") as log, subprocess.Popen(command, cwd=folder, stdout=log) as run:
            try:
                while "listening" not in (folder / "log").read_text():
                    time.sleep(0.05)
                agents = Agents(port, count)
                agents.work(5)
                assert all(agents.epochs.values()), "some agents have no world"
                before, began = processor_seconds(run.pid), time.monotonic()
                agents.work(rest)
                share = (processor_seconds(run.pid) - before) / (time.monotonic() - began)
                found = [loss(agents, folder, 1 + NODES * i) for i in range(losses)]
                agents.work(3)
                begun = [entry for entry in log_of(folder) if entry["event"] == "epoch" and entry["epoch"] == 2]
                assert len(begun) == losses, "a job has no second epoch"
                seconds = f"{min(found):.1f} to {max(found):.1f} s"
                return [str(count), str(-(-count // NODES)), f"{share:.1%}",
                        f"{resident_mebibytes(run.pid):.0f} MiB", seconds]  # fmt: skip
            finally:
                run.kill()


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--agents", type=int, default=1000)
    parser.add_argument("--rest", type=float, default=20, help="seconds at rest")
    parser.add_argument("--losses", type=int, default=5, help="jobs that lose an agent")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    cells = measure(options.agents, options.rest, options.losses)
    table = f"| {' | '.join(HEAD)} |\n{'|---' * len(HEAD)}|\n| {' | '.join(cells)} |\n"
    print(table, end="")
    if options.write:
        page = ROOT / "docs" / "healing.md"
        before, rest = page.read_text().split(BEGIN)
        page.write_text(before + BEGIN + table + END + rest.split(END)[1])


if __name__ == "__main__":
    main()
