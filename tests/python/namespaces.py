"""Machines of one system: namespaces of the network, of processes and of memory, joined by a bridge.

Processes of two of them reach each other through their addresses alone, and do not see one another's processes and
`/dev/shm`. Losing a machine is ending its first process: then the system ends all others, and frees its memory.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

COUNT = itertools.count()
# Mounts, in the first process of a machine, its memory; says so, and waits.
FIRST = 'set -e; mount -t tmpfs tmpfs /dev/shm; mkdir -p "$0"; mount -t tmpfs tmpfs "$0"; echo ready; exec sleep 1000'


@dataclass
class Machine:
    """One of them."""

    name: str
    address: str
    first: subprocess.Popen[str]

    @property
    def enter(self) -> list[str]:
        """The words before a command that runs there."""
        (child,) = Path(f"/proc/{self.first.pid}/task/{self.first.pid}/children").read_text().split()
        return ["nsenter", "-t", child, "-n", "-m", "-p", "env", "GLOO_SOCKET_IFNAME=eth0"]

    def lose(self) -> None:
        """All its processes and memory at once."""
        self.first.kill()
        self.first.wait()


def ip(*words: str, check: bool = True) -> bool:
    """Whether the command for networks did this."""
    return subprocess.run(["ip", *words], capture_output=True, check=check, timeout=20).returncode == 0


def are_there() -> bool:
    """Only root makes them, and in many containers not even root."""
    name = f"ucp{os.getpid()}"
    try:
        made = ip("netns", "add", name, check=False)
    except FileNotFoundError:
        return False
    ip("netns", "delete", name, check=False)
    tried = subprocess.run(["unshare", "-m", "-p", "-f", "true"], capture_output=True, check=False)
    return made and tried.returncode == 0


@contextlib.contextmanager
def machines(names: str, memory: Path) -> Iterator[dict[str, Machine]]:
    """By name, a letter each. `memory` has a folder for each, which is in its memory.

    No two calls of a process take the same names: a link is gone some time after the namespace of its other end.
    """
    base = f"ucp{os.getpid()}.{next(COUNT)}"
    made: dict[str, Machine] = {}
    try:
        ip("link", "add", base, "type", "bridge")
        ip("link", "set", base, "up")
        for number, name in enumerate(names):
            space, outside = f"{base}{name}", f"{base}{name}"
            address = f"10.213.{os.getpid() % 250}.{number + 1}"
            ip("netns", "add", space)
            ip("link", "add", outside, "type", "veth", "peer", "name", "eth0", "netns", space)
            ip("link", "set", outside, "master", base, "up")
            for words in (["link", "set", "lo", "up"], ["address", "add", f"{address}/24", "dev", "eth0"],
                          ["link", "set", "eth0", "up"]):  # fmt: skip
                ip("-n", space, *words)
            command = ["ip", "netns", "exec", space, "unshare", "-m", "-p", "-f", "--kill-child", "--mount-proc"]
            first = subprocess.Popen(
                [*command, "sh", "-c", FIRST, str(memory / name)], stdout=subprocess.PIPE, text=True
            )
            made[name] = Machine(name, address, first)
            assert first.stdout is not None
            assert first.stdout.readline() == "ready\n"
        yield made
    finally:
        for machine in made.values():
            machine.lose()
        for name in names:
            ip("netns", "delete", f"{base}{name}", check=False)
        ip("link", "delete", base, check=False)
