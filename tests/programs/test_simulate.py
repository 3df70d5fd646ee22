"""`ucprun simulate`: one task that loses a node, by FLOP worked out by hand, and refusals that say both values."""

from __future__ import annotations

import json
import unittest
from typing import Any

from programs import ProgramTest

REPAIR_HOURS = 10


class Simulate(ProgramTest):
    """Four nodes, 100 hours."""

    def write(self, failures: list[dict[str, object]]) -> tuple[object, ...]:
        """The options for two files."""
        speeds = {str(nodes): nodes for nodes in range(1, 5)}
        task = {"name": "a", "nodes": 4, "speeds": speeds, "restart_seconds": 60}
        tasks = {"nodes": 4, "node_mtbf_hours": 1000, "network": "50GB/s", "tasks": [task]}
        (self.folder / "tasks.json").write_text(json.dumps(tasks))
        (self.folder / "trace.json").write_text(json.dumps({"hours": 100, "failures": failures}))
        return "--tasks", self.folder / "tasks.json", "--trace", self.folder / "trace.json"

    def failure(self, hours: float, name: str = "lost connection", node: int = 1) -> dict[str, object]:
        """Of one node."""
        return {"hours": hours, "node": node, "failure": name, "repair_hours": REPAIR_HOURS}

    def test_a_lost_node(self) -> None:
        """By hand; the report is a file as well."""
        files = self.write([self.failure(20)])
        report = self.folder / "out.json"
        result = self.run_program("ucprun", "simulate", *files, "--policy", "ucp,restart,wait", "--report", report)
        self.assertEqual(result.returncode, 0, result.stderr)
        policies: list[dict[str, Any]] = json.loads(report.read_text())["policies"]
        self.assertEqual([policy["policy"] for policy in policies], ["ucp", "restart", "wait"])
        all_of_it = 4 * 100 * 3600
        away = REPAIR_HOURS * 3600
        lost = {
            "ucp": away + 3 * (5.6 + 120) + 4 * 120,
            "restart": away + 3 * (5.6 + 2280) + 4 * 2280,
            "wait": 4 * (away + 2280),
        }
        for policy in policies:
            self.assertAlmostEqual(all_of_it - policy["flop"], lost[policy["policy"]], 3)
            self.assertEqual((policy["ideal_flop"], policy["isolated"]), (all_of_it, 1))
        again = self.run_program("ucprun", "simulate", *files, "--policy", "ucp", "--report", report)
        self.assertEqual(again.returncode, 0, again.stderr)
        self.assertEqual(len(again.stdout.splitlines()), 2)

    def test_refusals(self) -> None:
        """One sentence each, and nothing is written."""
        report = self.folder / "out.json"
        for failures, arguments, words in (
            ([self.failure(1, node=4)], (), "trace.json`: node 4 fails, and the cluster has 4 nodes, from 0 on"),
            ([self.failure(1, "flood")], (), "`flood` is not a kind of failure"),
            ([self.failure(2), self.failure(1)], (), "failure 2 is at 1 h, before the one before it, at 2 h"),
            ([], ("--policy", "hope"), "`hope` is not a policy; there are `ucp`, `own`, `restart`, `wait`"),
            ([], ("--nodes", 3), "with --nodes 3: the tasks have 4 nodes, and the cluster 3"),
        ):
            files = self.write(failures)
            result = self.run_program("ucprun", "simulate", *files, *arguments, "--report", report)
            self.assertEqual((result.returncode, result.stdout), (1, ""))
            self.assertEqual(len(result.stderr.splitlines()), 1, result.stderr)
            self.assertIn(words, result.stderr)
            self.assertFalse(report.exists())


if __name__ == "__main__":
    unittest.main()
