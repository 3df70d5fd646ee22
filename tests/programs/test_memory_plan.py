"""`ucprun memory plan`: the paper's figures from the command line, and refusals that say both values."""

from __future__ import annotations

import json
import unittest

from programs import ProgramTest

JOB = ("--bytes", "75.2GB", "--network", "400Gb/s")


class MemoryPlan(ProgramTest):
    """Checkpoints in the memory of machines."""

    def plan(self, *arguments: object) -> dict[str, object]:
        """The report."""
        result = self.run_program("ucprun", "memory", "plan", *arguments, "--json")
        self.assertEqual(result.returncode, 0, result.stderr)
        report: dict[str, object] = json.loads(result.stdout)
        return report

    def refused(self, *arguments: object) -> str:
        """The sentence."""
        result = self.run_program("ucprun", "memory", "plan", *arguments)
        self.assertEqual((result.returncode, result.stdout), (1, ""))
        self.assertEqual(len(result.stderr.splitlines()), 1, result.stderr)
        return result.stderr

    def test_figures_of_the_paper(self) -> None:
        """GPT-2 with 100 billion parameters on 16 machines."""
        report = self.plan("--machines", 16, *JOB, "--iteration", 62, "--storage", "20Gb/s")
        self.assertEqual((report["groups"], report["ring"], report["interval"]), (8, 0, 1))
        self.assertAlmostEqual(report["chances"][1], 0.9333, 4)
        for key, seconds in (("others_memory", 94.5), ("storage_often", 1210), ("storage_seldom", 6362)):
            self.assertAlmostEqual(report[key]["seconds"] / seconds, 1, 3)
        result = self.run_program("ucprun", "memory", "plan", "--machines", 17, *JOB, "--iteration", 62)
        for words in ("7 groups of 2 machines", "a ring of 3 machines", "300.8 GB on each machine", "92.65 %"):
            self.assertIn(words, result.stdout)

    def test_domains(self) -> None:
        """Copies go to other racks; a rack that holds all machines cannot be lost."""
        racks = self.folder / "racks"
        racks.write_text("a\na\nb\nb\n")
        report = self.plan("--machines", 4, *JOB, "--domains", racks)
        self.assertEqual(report["keepers"], [[0, 2], [2, 0], [1, 3], [3, 1]])
        self.assertEqual(report["domains_that_must_not_be_lost"], [])
        racks.write_text("a\na\na\na\n")
        self.assertEqual(self.plan("--machines", 4, *JOB, "--domains", racks)["domains_that_must_not_be_lost"], ["a"])

    def test_refusals(self) -> None:
        """Each with what was read."""
        self.assertIn("5 copies of each state on 4 machines", self.refused("--machines", 4, "--copies", 5, *JOB))
        self.assertIn("not `75 apples`", self.refused("--machines", 4, "--bytes", "75 apples", "--network", "1Gb/s"))
        self.assertIn("not `fast`", self.refused("--machines", 4, "--bytes", "75GB", "--network", "fast"))
        idle = self.refused("--machines", 4, *JOB, "--iteration", 1, "--idle", 2)
        self.assertIn("--idle is 2 s of an iteration of 1 s", idle)
        racks = self.folder / "racks"
        racks.write_text("a\nb\n")
        self.assertIn("has 2 lines, and --machines is 4", self.refused("--machines", 4, *JOB, "--domains", racks))
        racks.write_text("a\n\nb\n")
        self.assertIn("line 2 is empty", self.refused("--machines", 3, *JOB, "--domains", racks))


if __name__ == "__main__":
    unittest.main()
