"""The scripts in tests/bench run, on small things: lines with numbers in them. The numbers are not tested."""

from __future__ import annotations

import os
import random
import re
import subprocess
import sys
import unittest
from pathlib import Path

from etcd import IS_NOT_THERE

from programs import GPT_SPEC, PROGRAMS, SOURCE, ProgramTest

SIZES = ["layers=2", "hidden=64", "heads=4", "ffn=256", "vocab=128", "grain=16", "seq=16"]


class Benchmarks(ProgramTest):
    """One script each."""

    # Copies are synced on a disk.
    parent_folder = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None

    def bench(self, script: str, *arguments: object) -> list[str]:
        """The lines that it prints."""
        command = [sys.executable, "-B", str(SOURCE / "tests" / "bench" / script), *map(str, arguments)]
        result = subprocess.run(command, cwd=self.folder, capture_output=True, text=True, timeout=120, check=False)
        self.assertEqual((result.returncode, result.stderr), (0, ""), result.stdout)
        return result.stdout.splitlines()

    def test_two_builds(self) -> None:
        """Every kind of run, of a program beside itself."""
        program = PROGRAMS / "ucprun"
        lines = self.bench("two_builds.py", program, program, "--work", self.folder / "work", "--rounds", 1,
                           *(word for size in SIZES for word in ("--set", size)))  # fmt: skip
        self.assertEqual(len(lines), 7, lines)
        for line in lines:
            self.assertRegex(line, r"^[a-z -]+ +\d+\.\d\d s +\d+\.\d\d$")

    def test_compare(self) -> None:
        """Conversions beside `cp -r`."""
        source = self.folder / "source"
        made = self.run_program("ucprun", "synth", GPT_SPEC, source, "--to", "deepspeed:tp=2,pp=2,dp=2,zero=1",
                                *(word for size in SIZES for word in ("--set", size)))  # fmt: skip
        self.assertEqual(made.returncode, 0, made.stderr)
        work = self.folder / "work"
        lines = self.bench("compare.py", source, "--work", work, "--rounds", 2, "--no-peers", "--spec", GPT_SPEC,
                           "--set", "layers=2", "--set", "heads=4", "--set", "grain=16",
                           "--to", "deepspeed:tp=1,pp=1,dp=2,zero=1")  # fmt: skip
        for name in ("cp -r, the source", "ucprun, universal", "its passes, bare", "ucprun, safetensors",
                     "ucprun, deepspeed:tp=1,pp=1,dp=2,zero=1"):  # fmt: skip
            found = [line for line in lines if line.startswith(name)]
            self.assertEqual(len(found), 1, name)
            self.assertRegex(found[0][len(name) :], r"^( +\d+(\.\d+)?){5}$")
        self.assertEqual(list(work.iterdir()), [])

    def test_memory_tier(self) -> None:
        """The page has what it prints; the time that trains is that of failures that are drawn."""
        page = (SOURCE / "docs" / "memory-tier.md").read_text()
        table = page.split("<!-- table of memory_tier.py -->\n")[1].split("<!-- end of table -->")[0]
        self.assertEqual(self.bench("memory_tier.py"), table.splitlines())
        sys.path.insert(0, str(SOURCE / "tests" / "bench"))
        self.addCleanup(sys.path.remove, str(SOURCE / "tests" / "bench"))
        from memory_tier import DAY, ways

        numbers = random.Random(1)
        for way in ways():
            until_failures = [numbers.expovariate(15 / DAY) for _ in range(100_000)]
            trained = sum(until_failures) * (1 - way.share)
            self.assertAlmostEqual(
                trained / (sum(until_failures) + len(until_failures) * way.seconds), way.effective(15), delta=0.005
            )

    def test_sizes(self) -> None:
        """Each size has its line, and nothing is left."""
        lines = self.bench("sizes.py", self.folder, "--gigabytes", 0.01, "--rounds", 1)
        self.assertEqual(len(lines), 2)
        self.assertRegex(lines[1], r"^( +\d+\.\d\d){5}$")
        self.assertEqual([path.name for path in Path(self.folder).glob("sizes-*")], [])

    def test_tensors(self) -> None:
        """Each conversion and load has its line, and nothing is left."""
        lines = self.bench("tensors.py", self.folder, "--quick", "--gigabytes", 0.001, "--rounds", 2)
        shown = [line for line in lines if re.search(r"( +\d+\.\d{3}){2}( +\d+\.\d\d){2}( +-?\d+\.\d){2}$", line)]
        self.assertEqual(len(shown), 8, lines)
        self.assertEqual(list(Path(self.folder).iterdir()), [])
        lines = self.bench(
            "tensors.py", self.folder, "--quick", "--gigabytes", 0.001, "--rounds", 1, "--case", "ZeRO-3"
        )
        self.assertEqual([line.split(",")[0] for line in lines[2:]], ["ZeRO-3"], lines)

    def test_means(self) -> None:
        """A line for each way, and what was chosen."""
        lines = self.bench("means.py", self.checkpoint("zero1_dp2"), "--work", self.folder, "--rounds", 1)
        self.assertEqual([line.split(" ")[0] for line in lines[1:]], ["buffered", "direct", "auto", "cp", "auto:"])
        self.assertEqual(lines[-1], "auto: reading buffered, writing buffered, 1 of 1")
        result = subprocess.run([str(PROGRAMS / "bare_means"), str(self.folder / "bare"), "16", "1"],
                                capture_output=True, text=True, timeout=120, check=False)  # fmt: skip
        if result.returncode == 0:  # Else io_uring, or direct input and output, is not there.
            self.assertEqual(len(result.stdout.splitlines()), 8)

    def test_growth(self) -> None:
        """Three rows of two."""
        lines = self.bench("growth.py", "--quick")
        self.assertEqual(len([line for line in lines if re.match(r"^ +[\d,]+ +\d+\.\d{3} s$", line)]), 6)
        self.assertEqual(len([line for line in lines if line.startswith("  grew by the power of ")]), 3)

    def test_healing(self) -> None:
        """The table is the page's: the same traces give the same numbers."""
        page = (SOURCE / "docs" / "healing.md").read_text().split("<!-- table of healing.py -->\n")[1]
        self.assertEqual(self.bench("healing.py"), page.split("<!-- end of table -->")[0].splitlines())

    @unittest.skipIf(IS_NOT_THERE, "NOT RUN: etcd is not installed")
    def test_takeover(self) -> None:
        """Both ends of a leader."""
        lines = self.bench("takeover.py", "--rounds", 1)
        self.assertEqual(len(lines), 4, lines)
        for line in lines[2:]:
            self.assertRegex(line, r"^\| is [a-zA-Z ]+( \| \d+\.\d\d s \(\d+\.\d\d to \d+\.\d\d\)){2} \|$")

    def test_healing_agents(self) -> None:
        """Two jobs, of which each loses an agent; a node counts as lost after 5 s."""
        lines = self.bench("healing_agents.py", "--agents", 200, "--rest", 2, "--losses", 2)
        self.assertEqual(len(lines), 3, lines)
        cells = [cell.strip() for cell in lines[2].strip("|").split("|")]
        self.assertEqual(cells[:2], ["200", "2"])
        self.assertGreaterEqual(float(cells[4].split(" ")[0]), 5)


if __name__ == "__main__":
    unittest.main()
