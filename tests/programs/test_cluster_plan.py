"""`ucprun cluster plan`: the allocations of a small cluster, worked out by hand, and refusals that say both values."""

from __future__ import annotations

import json
import subprocess
import unittest
from typing import Any

from programs import PROGRAMS, ProgramTest


def task(name: str, weight: float, **more: object) -> dict[str, object]:
    """Twice as fast on twice the nodes, and quick to move."""
    speeds = {str(nodes): nodes * 1e15 for nodes in range(1, 10)}
    return {"name": name, "weight": weight, "speeds": speeds, "restart_seconds": 60, "state_bytes": 1e12, **more}


class ClusterPlan(ProgramTest):
    """A cluster of eight nodes that fails once in ten days."""

    def write(self, tasks: list[dict[str, object]], starts: list[dict[str, object]] | None = None) -> None:
        """The file `cluster.json`."""
        content = {"nodes": 8, "node_mtbf_hours": 1920, "network": "50GB/s", "tasks": tasks, "starts": starts or []}
        (self.folder / "cluster.json").write_text(json.dumps(content))

    def plans(self) -> dict[tuple[str, str | None], dict[str, Any]]:
        """By event and task."""
        result = self.run_program("ucprun", "cluster", "plan", self.folder / "cluster.json", "--json")
        self.assertEqual(result.returncode, 0, result.stderr)
        return {(plan["event"], plan["task"]): plan for plan in json.loads(result.stdout)["plans"]}

    def test_every_event(self) -> None:
        """The heaviest task gets all that is not promised to others."""
        self.write([task("a", 1, nodes=2, min_nodes=2), task("b", 2, nodes=6)], [task("c", 0.5), task("d", 3)])
        plans = self.plans()
        expected = {
            ("now", None): {"a": 2, "b": 6},
            ("node-lost", "a"): {"a": 2, "b": 5},
            ("node-lost", "b"): {"a": 2, "b": 5},
            ("node-joins", None): {"a": 2, "b": 7},
            ("task-ends", "a"): {"a": 0, "b": 8},
            ("task-ends", "b"): {"a": 8, "b": 0},
            ("task-starts", "c"): {"a": 2, "b": 5, "c": 1},
            ("task-starts", "d"): {"a": 2, "b": 1, "d": 5},
        }
        self.assertEqual({event: plan["nodes"] for event, plan in plans.items()}, expected)
        self.assertEqual(plans["now", None]["flops"], 14e15)
        table = self.run_program("ucprun", "cluster", "plan", self.folder / "cluster.json").stdout.splitlines()
        self.assertEqual(len(table), 9)
        self.assertRegex(table[-1], r"^d starts +1\.9e\+16 +2 +1 +5$")

    def test_a_promise_that_does_not_fit(self) -> None:
        """The lightest task waits."""
        self.write([task("a", 1, nodes=4, min_nodes=4), task("b", 2, nodes=4, min_nodes=4)])
        plan = self.plans()["node-lost", "b"]
        self.assertEqual((plan["nodes"], plan["waiting"]), ({"a": 0, "b": 7}, ["a"]))

    def test_planned_transitions(self) -> None:
        """Of 64 elements with 12 bytes each, under ZeRO-3."""
        (self.folder / "one.ucp").write_text(
            'ucp 1\ndim rows\nmesh pp, dp, tp\nlayout one {\n  "rows.weight" [rows]\n}\n'
        )
        layouts = {
            "spec": str(self.folder / "one.ucp"),
            "set": ["rows=64"],
            "copies": 1,
            "strategies": {"1": "deepspeed:dp=1,zero=3", "2": "deepspeed:dp=2,zero=3", "4": "deepspeed:dp=4,zero=3"},
        }
        planned: dict[str, object] = {**task("a", 1, nodes=4), **layouts}
        del planned["state_bytes"]
        self.write([planned])
        result = self.run_program("ucprun", "cluster", "plan", self.folder / "cluster.json", "--json")
        self.assertEqual(result.returncode, 0, result.stderr)
        moved = {
            (change["from"], change["to"]): change["bytes"]
            for change in json.loads(result.stdout)["transitions"]
            if not change["loses_node"]
        }
        elements = {(1, 1): 0, (2, 2): 0, (4, 4): 0}
        elements |= {(0, 1): 64, (0, 2): 32, (0, 4): 16}
        elements |= {(1, 2): 32, (1, 4): 48, (2, 4): 32, (4, 2): 32, (2, 1): 32, (4, 1): 48}
        self.assertEqual(moved, {change: 12 * count for change, count in elements.items()})
        self.write([{**planned, "state_bytes": 1}])
        result = self.run_program("ucprun", "cluster", "plan", self.folder / "cluster.json")
        self.assertEqual(result.returncode, 1)
        self.assertIn("`a`: it has `state_bytes` and `strategies`, which both say what a change moves", result.stderr)

    def test_refusals(self) -> None:
        """One sentence each, with the file, and nothing printed."""
        for tasks, words in (
            ([task("a", 0)], "task 1: `a`: `weight`: it is 0, and must be a number from 0.001 to 1000"),
            ([task("a", 1, nodes=5), task("b", 1, nodes=4)], "the tasks have 9 nodes, and the cluster 8"),
            ([task("a", 1, min_nodes=9)], "`a` needs 9 nodes, and the cluster has 8"),
            ([task("a", 1, wait=1)], "`wait` is not a known key"),
        ):
            self.write(tasks)
            result = self.run_program("ucprun", "cluster", "plan", self.folder / "cluster.json")
            self.assertEqual((result.returncode, result.stdout), (1, ""))
            self.assertEqual(len(result.stderr.splitlines()), 1, result.stderr)
            self.assertIn("cluster.json`: ", result.stderr)
            self.assertIn(words, result.stderr)

    def test_large_clusters_are_quick(self) -> None:
        """The benchmark's own limits have room here: other programs run at the same time."""
        lines = subprocess.run([PROGRAMS / "cluster_plans"], capture_output=True, text=True, check=True).stdout
        tables, look = (float(line.split()[-2]) for line in lines.splitlines())
        self.assertLess(tables, 2.5)
        self.assertLess(look, 1)


if __name__ == "__main__":
    unittest.main()
