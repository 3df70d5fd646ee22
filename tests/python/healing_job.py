"""A coordinator and the nodes of a job: each node is a torchrun on this machine, under a name of its own."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
SECRET = "a secret that is long enough"


def free_port() -> int:
    """For a moment."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


class Job:
    """In a folder of its own. Its processes end with it."""

    def __init__(
        self, ucprun: Path, folder: Path, steps: int = 60, step_seconds: float = 0.1, name: str = "job"
    ) -> None:
        self.ucprun, self.folder, self.port, self.name = ucprun, folder, free_port(), name
        self.settings = {"folder": str(folder), "steps": steps, "step_seconds": step_seconds}
        self.secret = folder / "secret"
        self.secret.write_text(SECRET + "\n")
        self.registry = ["--journal", str(folder / "journal")]
        self.more_conf = ""  # Of --rdzv-conf.
        self.certificate: Path | None = None
        self.endpoints = f"127.0.0.1:{self.port}"
        self.coordinators: list[subprocess.Popen[str]] = []
        self.nodes: dict[str, subprocess.Popen[str]] = {}

    def __enter__(self) -> Job:
        return self

    def __exit__(self, *_: object) -> None:
        for coordinator in self.coordinators:
            coordinator.kill()
            coordinator.communicate()
        for process in self.nodes.values():
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
        for start in self.said("start"):
            with suppress(OSError):
                if b"healing_work" in Path(f"/proc/{start['pid']}/cmdline").read_bytes():
                    os.kill(start["pid"], signal.SIGKILL)

    @property
    def coordinator(self) -> subprocess.Popen[str]:
        """The last one."""
        return self.coordinators[-1]

    def coordinate(self, *options: str) -> None:
        """Starts a coordinator, and waits until it listens."""
        self.start_coordinator(*options)
        self.wait_for(lambda: self.can_connect(), 10)

    def start_coordinator(self, *options: str) -> None:
        """At the port of this job."""
        log = (self.folder / "coordinator.log").open("a")
        command = [self.ucprun, "coordinate", "--port", str(self.port), "--secret-file", self.secret,
                   *self.registry, *options]  # fmt: skip
        self.coordinators.append(
            subprocess.Popen([str(word) for word in command], stdout=log, stderr=subprocess.STDOUT, text=True)
        )

    def can_connect(self) -> bool:
        """Whether somebody listens."""
        try:
            socket.create_connection(("127.0.0.1", self.port), 1).close()
        except OSError:
            return False
        return True

    def rendezvous(self, node: str) -> list[str]:
        """The options of torchrun that name the coordinator."""
        settings = f"node={node},secret_file={self.secret},join_timeout=10{self.more_conf}"
        return ["--rdzv-backend", "ucp", "--rdzv-endpoint", self.endpoints, "--rdzv-conf", settings]

    def start(self, node: str, nodes: str = "1:2") -> None:
        """A node with one rank, by torchrun."""
        command = [
            sys.executable, "-m", "torch.distributed.run", *self.rendezvous(node), "--rdzv-id", self.name,
            "--nnodes", nodes, "--nproc-per-node", "1", str(HERE / "healing_work.py"), json.dumps(self.settings),
        ]  # fmt: skip
        log = (self.folder / f"{node}.log").open("a")
        self.nodes[node] = subprocess.Popen(
            command, stdout=log, stderr=subprocess.STDOUT, text=True, start_new_session=True,
            env=os.environ | {"OMP_NUM_THREADS": "1"},
        )  # fmt: skip

    def said(self, event: str) -> list[dict[str, Any]]:
        """The lines of the ranks, in the order of time."""
        path = self.folder / "said"
        lines = path.read_text().splitlines() if path.exists() else []
        return [line for line in map(json.loads, lines) if line["event"] == event]

    def ask(self, *words: str) -> Any:
        """Of `ucprun cluster`."""
        command = [self.ucprun, "cluster", *words, "--endpoint", f"127.0.0.1:{self.port}", "--secret-file",
                   self.secret, "--json"]  # fmt: skip
        result = subprocess.run(
            [str(word) for word in command], capture_output=True, text=True, timeout=30, check=False
        )
        assert result.returncode == 0, result.stdout + result.stderr
        return json.loads(result.stdout)

    def failures(self) -> list[dict[str, Any]]:
        """The failures that the coordinator has answered."""
        return [entry for entry in self.ask("log")["entries"] if entry["event"] == "failure"]

    def last_step(self) -> int:
        """That any rank has finished."""
        return max((step["step"] for step in self.said("step")), default=-1)

    def wait_for(self, condition: Callable[[], Any], seconds: float = 60) -> None:
        """Fails with all logs if it does not come true."""
        until = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < until, self.logs()
            time.sleep(0.02)

    def wait_for_end(self, seconds: float = 120) -> dict[str, int]:
        """The exit codes of the nodes."""
        self.wait_for(lambda: all(node.poll() is not None for node in self.nodes.values()), seconds)
        return {name: node.wait() for name, node in self.nodes.items()}

    def logs(self) -> str:
        """Of the coordinator and the nodes."""
        return "\n".join(f"{path.name}:\n{path.read_text()[-6000:]}" for path in sorted(self.folder.glob("*.log")))

    def losses(self) -> dict[int, set[float]]:
        """By step, of all ranks and starts; each step has one loss, unless something is lost or done twice."""
        losses: dict[int, set[float]] = {}
        for step in self.said("step"):
            losses.setdefault(step["step"], set()).add(round(step["loss"], 9))
        return losses
