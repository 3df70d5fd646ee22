"""`ucprun load` on the ranks of a job, under Open MPI's mpirun: each byte of the source is read by one of them."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
import unittest
from pathlib import Path
from typing import Any

from ranks import ENVIRONMENT

from programs import PROGRAMS, SOURCE, ProgramTest

FIXTURES = SOURCE / "tests" / "fixtures"


@unittest.skipUnless(shutil.which("mpirun") and (PROGRAMS / "ucp_mpi.so").exists(), "needs mpirun and a build with MPI")
class LoadOnRanks(ProgramTest):
    """Each test starts mpirun, which takes half a second."""

    def mpirun(self, ranks: int, source: Path, target: str, *options: object) -> subprocess.CompletedProcess[str]:
        command = ["mpirun", "-n", ranks, PROGRAMS / "ucprun", "load", source, "--to", target, "--threads", 1, *options]
        return subprocess.run(
            [str(word) for word in command],
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
            env=ENVIRONMENT,
        )

    def load(self, ranks: int, source: Path, target: str, *options: object) -> dict[str, Any]:
        """The report, after every element of every rank was compared."""
        result = self.mpirun(ranks, source, target, "--compare", "--json", *options)
        self.assertEqual(result.returncode, 0, result.stderr)
        report: dict[str, Any] = json.loads(result.stdout)
        self.assertEqual([rank["rank"] for rank in report["ranks"]], list(range(ranks)))
        for rank in report["ranks"]:
            self.assertEqual(rank["elements_that_differ"], 0)
            self.assertGreater(rank["elements_compared"], 0)
        return report

    def test_the_same_bytes_come_from_storage_for_any_number_of_ranks(self) -> None:
        """Eight ranks more than processors; what replicas need is given by those that read it."""
        source = FIXTURES / "zero1_dp4" / "checkpoint"
        alone = self.load(1, source, "deepspeed:dp=1,zero=1")
        of_eight = self.load(8, source, "deepspeed:dp=8,zero=1")
        self.assertEqual(of_eight["bytes_read_by_all"], alone["bytes_read_by_all"])
        self.assertEqual(sum(rank["bytes_read"] for rank in of_eight["ranks"]), of_eight["bytes_read_by_all"])
        self.assertTrue(all(rank["bytes_received"] > 0 for rank in of_eight["ranks"]))
        whole = self.load(8, source, "universal")
        placed = whole["ranks"][0]["bytes_placed"]
        self.assertLess(whole["bytes_read_by_all"], 1.1 * placed)
        most = max(rank["bytes_read"] for rank in whole["ranks"])
        self.assertLess(most, 0.25 * placed)

    def test_tensor_and_pipeline_ranks(self) -> None:
        """Each has its own part, and copies of what is not cut."""
        source = FIXTURES / "gpt_pp2_tp2_dp2" / "checkpoint"
        spec = ("--spec", "megatron_deepspeed_gpt")
        self.load(8, source, "deepspeed:pp=2,tp=2,dp=2", *spec)
        self.load(4, source, "deepspeed:tp=4,dp=1", *spec)

    def test_a_job_of_another_size_is_refused_once(self) -> None:
        """Before anything is loaded."""
        result = self.mpirun(3, FIXTURES / "zero1_dp4" / "checkpoint", "deepspeed:dp=4,zero=1")
        self.assertNotEqual(result.returncode, 0)
        self.assertEqual(result.stderr.count("is a job of 4 ranks, and 3 load"), 1, result.stderr)

    def test_damage_is_found_whichever_rank_read_it(self) -> None:
        """With --check."""
        source = self.checkpoint("zero1_dp4")
        path = next(source.glob("*/*zero_pp_rank_2*"))
        data = bytearray(path.read_bytes())
        data[len(data) // 2] ^= 1
        path.write_bytes(bytes(data))
        result = self.mpirun(4, source, "deepspeed:dp=4,zero=2", "--check")
        self.assertNotEqual(result.returncode, 0)
        self.assertEqual(result.stderr.count("is damaged"), 1, result.stderr)
        self.assertIn(path.name, result.stderr)

    def test_a_killed_rank_ends_the_run(self) -> None:
        """Within seconds."""
        sizes = ("layers=4", "hidden=512", "heads=8", "kv_heads=8", "ffn=2048", "vocab=32000")
        made = self.run_program(
            "ucprun",
            "synth",
            "llama",
            "big",
            "--to",
            "deepspeed:dp=2,zero=1",
            *(word for size in sizes for word in ("--set", size)),
        )
        self.assertEqual(made.returncode, 0, made.stderr)
        command = [
            "mpirun",
            "-n",
            "3",
            str(PROGRAMS / "ucprun"),
            "load",
            "big",
            "--to",
            "universal",
            "--threads",
            "1",
            "--compare",
        ]
        for _ in range(20):  # A run may end before all of its ranks are seen.
            with subprocess.Popen(
                command, cwd=self.folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=ENVIRONMENT
            ) as run:
                ranks: list[str] = []
                while run.poll() is None and len(ranks) < 3:
                    ranks = subprocess.run(
                        ["pgrep", "-P", str(run.pid), "ucprun"], capture_output=True, text=True, check=False
                    ).stdout.split()
                time.sleep(0.5)
                begin = time.monotonic()
                if run.poll() is None and len(ranks) == 3:
                    os.kill(int(ranks[1]), signal.SIGKILL)
                run.communicate(timeout=30)
            if run.returncode != 0:
                self.assertLess(time.monotonic() - begin, 10)
                return
        self.fail("no run could be interrupted")


if __name__ == "__main__":
    unittest.main()
