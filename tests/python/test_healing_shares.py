"""Two jobs of real torchruns that share three nodes by what they are worth: `ucprun coordinate --tasks`."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

from healing_job import Job
from test_healing import uninterrupted  # noqa: F401

SPEEDS = {"1": 1e15, "2": 2e15}
TASKS = [
    {"name": "heavy", "weight": 2, "min_nodes": 2, "speeds": SPEEDS, "restart_seconds": 5},
    {"name": "light", "speeds": SPEEDS, "restart_seconds": 5},
]


def sizes(job: Job) -> list[int]:
    """Of the worlds that the job has had, in the order of time."""
    found: list[int] = []
    for start in job.said("start"):
        if start["rank"] == 0:
            found.append(start["size"])
    return found


def nodes(job: Job) -> dict[str, list[str]]:
    """Of each job that the coordinator knows, by rank."""
    return {task["task"]: task["nodes"] for task in job.ask("status")["tasks"] if task["state"] == "runs"}


def at_work(job: Job) -> tuple[int, int]:
    """How many nodes the two jobs have."""
    return len(nodes(job).get("heavy", [])), len(nodes(job).get("light", []))


def lose(node: str, *jobs: Job) -> None:
    """Both torchruns of the node, and their processes."""
    for job in jobs:
        os.killpg(job.nodes.pop(node).pid, signal.SIGKILL)


def test_a_node_moves(ucprun: Path, tmp_path: Path, uninterrupted: Any) -> None:  # noqa: F811
    """To the job that is worth more, when it has lost one. The other one waits, and gets all when that has ended."""
    file = tmp_path / "tasks.json"
    file.write_text(json.dumps({"nodes": 3, "node_mtbf_hours": 1000, "network": "1GB/s", "tasks": TASKS}))
    for name in ("heavy", "light"):
        (tmp_path / name).mkdir()
    with (
        Job(ucprun, tmp_path / "heavy", step_seconds=0.2, name="heavy") as heavy,
        Job(ucprun, tmp_path / "light", step_seconds=0.5, name="light") as light,
    ):
        light.port, light.endpoints = heavy.port, heavy.endpoints
        heavy.coordinate("--tasks", str(file))
        for node in ("n1", "n2", "n3"):
            heavy.start(node)
            light.start(node)
        heavy.wait_for(lambda: light.last_step() >= 0 and heavy.last_step() >= 0 and at_work(heavy) == (2, 1))
        lose(nodes(heavy)["heavy"][0], heavy, light)
        assert heavy.wait_for_end() == dict.fromkeys(heavy.nodes, 0), heavy.logs()
        assert light.wait_for_end() == dict.fromkeys(light.nodes, 0), light.logs()
        assert sizes(heavy)[-2:] == [2, 2]
        assert sizes(light)[-2:] == [1, 2]
        assert heavy.losses() == uninterrupted
        assert light.losses() == uninterrupted
        shares = [(entry["task"], entry["share"]) for entry in heavy.ask("log")["entries"] if entry["event"] == "share"]
        assert shares[-2:] == [("light", 0), ("light", 2)]
