"""`ucprun load --device`: into the memory of a GPU. Where there is none, a stand-in takes the plugin's place beside the
program: its memory is the host's, and its streams are late on purpose."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import unittest
from typing import Any

from ranks import CAN_RUN, ENVIRONMENT, WHY_NOT

from programs import GPT_SPEC, PROGRAMS, SOURCE, ProgramTest

FIXTURES = SOURCE / "tests" / "fixtures"
STAND_IN = PROGRAMS.parent / "lib" / "ucp_host_device.so"
NCCL_STAND_IN = PROGRAMS.parent / "nccl_stand_in"


class DeviceTest(ProgramTest):
    """The program in a folder of its own, with or without a plugin."""

    def setUp(self) -> None:
        """A link would be followed to where the plugins lie."""
        super().setUp()
        self.installed = self.folder / "installed"
        self.installed.mkdir()
        try:
            os.link(PROGRAMS / "ucprun", self.installed / "ucprun")
        except OSError:
            shutil.copy2(PROGRAMS / "ucprun", self.installed / "ucprun")

    def run_installed(
        self, *arguments: object, stand_in: str = "", local_rank: int = 0
    ) -> subprocess.CompletedProcess[str]:
        """`stand_in` says what the stand-in is like."""
        environment = os.environ | {"UCP_HOST_DEVICE": stand_in, "SLURM_LOCALID": str(local_rank)}
        return subprocess.run(
            [self.installed / "ucprun", *map(str, arguments)],
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
            env=environment,
        )


class WithoutPlugin(DeviceTest):
    """As a machine has it on which ucp was built without nvcc."""

    def test_what_is_missing_is_said(self) -> None:
        """In one sentence, before anything is read; what else there is works."""
        source = FIXTURES / "zero1_dp2" / "checkpoint"
        for device in ("cuda", "cuda:3"):
            result = self.run_installed("load", source, "--to", "universal", "--device", device)
            self.assert_refused(result, 2, f"`{device}`", "built without CUDA", "docs/building.md")
        self.assertEqual(self.run_installed("load", source, "--to", "universal").returncode, 0)
        self.assertIn("no CUDA)", self.run_installed("--version").stdout)

    def test_what_is_no_device(self) -> None:
        """By its name."""
        source = FIXTURES / "zero1_dp2" / "checkpoint"
        for device in ("gpu", "cuda:", "cuda:x", "cuda:99999", "mps:0"):
            result = self.run_installed("load", source, "--to", "universal", "--device", device)
            self.assert_refused(result, 1, f"`{device}` is not a device that can be loaded into")


@unittest.skipUnless(STAND_IN.exists(), "the stand-in for a GPU is not built")
class WithStandIn(DeviceTest):
    """Everything but the kernels' own instructions is as with a GPU."""

    def setUp(self) -> None:
        """It has the plugin's name."""
        super().setUp()
        shutil.copy2(STAND_IN, self.installed / "ucp_cuda.so")

    def load(self, fixture: str, target: str, *options: object, stand_in: str = "delay=300") -> dict[str, Any]:
        """The report of a load that goes well, with every element compared."""
        result = self.run_installed(
            "load",
            FIXTURES / fixture / "checkpoint",
            "--to",
            target,
            "--device",
            "cuda:1",
            "--compare",
            "--json",
            *options,
            stand_in=stand_in,
        )
        self.assertEqual(result.returncode, 0, result.stderr)
        report: dict[str, Any] = json.loads(result.stdout)["ranks"][0]
        self.assertEqual(report["elements_that_differ"], 0)
        self.assertGreater(report["elements_compared"], 1000)
        return report

    def test_every_element_is_the_sources(self) -> None:
        """Casts, cuts, ZeRO stages and formats."""
        for fixture, target, options in (
            ("zero1_dp4", "deepspeed:dp=3,zero=2", ("--rank", 1)),
            ("bf16_masters_zero2", "deepspeed:dp=2,zero=3", ("--rank", 0)),
            ("zero1_dp4", "safetensors:dtype=bf16", ("--threads", 3, "--memory", "40MiB", "--device-memory", "1MiB")),
            ("gpt_pp2_tp2_dp2", "deepspeed:pp=1,tp=2,dp=2", ("--rank", 3, "--spec", GPT_SPEC)),
        ):
            with self.subTest(fixture=fixture, target=target):
                report = self.load(fixture, target, *options)
                self.assertEqual(report["device"], "cuda:1")
                self.assertGreaterEqual(report["bytes_to_device"], 1000)
                self.assertLess(report["transfers"], 50)

    def test_a_number_that_differs_is_found(self) -> None:
        """It is the device's memory that is compared."""
        source = self.checkpoint("zero1_dp2")
        words = ("load", source, "--to", "universal", "--device", "cuda", "--compare")
        self.assertEqual(self.run_installed(*words).returncode, 0)
        result = self.run_installed(*words, stand_in="flip=1")
        self.assertEqual(result.returncode, 3, result.stderr)
        self.assertIn("differ from the source; first: element", result.stdout)

    def test_the_text_says_how_it_came_there(self) -> None:
        """And with --ceiling, how fast it could have."""
        result = self.run_installed(
            "load",
            FIXTURES / "zero1_dp4" / "checkpoint",
            "--to",
            "deepspeed:dp=2,zero=1",
            "--rank",
            0,
            "--device",
            "cuda",
            "--ceiling",
        )
        self.assertEqual(result.returncode, 0, result.stderr)
        first, second = result.stdout.splitlines()[2:]
        self.assertRegex(first, r"\d+ % of the [\d.]+ GB/s of copying from pinned memory alone\)")
        self.assertRegex(second, r"^rank 0: [\d.]+ [KM]B came to cuda:0 in \d+ transfers?, with \d+ kernels?$")

    def test_bench_measures_the_bus(self) -> None:
        """Both ways."""
        result = self.run_installed("bench", self.folder, "--size", "8MiB", "--device", "cuda", "--json")
        self.assertEqual(result.returncode, 0, result.stderr)
        rates = {one["of"]: one["bytes"] / one["seconds"] for one in json.loads(result.stdout)["measured"]}
        self.assertGreater(rates["copy, pinned memory to cuda:0"], 0)
        self.assertGreater(rates["copy, pinned memory from cuda:0"], 0)

    def test_ranks_of_a_machine_have_each_its_own(self) -> None:
        """Counted round the GPUs that there are, as the launcher counts ranks."""
        for local_rank, device in ((0, "cuda:0"), (1, "cuda:1"), (2, "cuda:2"), (5, "cuda:2")):
            result = self.run_installed(
                "load",
                FIXTURES / "zero1_dp2" / "checkpoint",
                "--to",
                "universal",
                "--device",
                "cuda",
                stand_in="devices=3",
                local_rank=local_rank,
            )
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertIn(f" came to {device} in ", result.stdout)

    def test_the_benchmark_runs(self) -> None:
        """On tiny shapes; what its numbers are is not tested."""
        path = SOURCE / "tests" / "bench" / "load_gpu.py"
        script = [sys.executable, "-B", path, self.folder, "--tiny", "--rounds", "1"]
        ours = ["--no-peers", "--ucprun", self.installed / "ucprun", "--threads", "2"]
        for stand_in, code in (("delay=100", 0), ("devices=0", 1)):
            result = subprocess.run(
                [*script, *ours],
                env=os.environ | {"UCP_HOST_DEVICE": stand_in},
                timeout=120,
                capture_output=True,
                text=True,
                check=False,
            )
            self.assertEqual(result.returncode, code, result.stderr)
            if code == 0:
                self.assertRegex(result.stdout.splitlines()[0], r"^[\d,]+ elements compared and equal; ")
                self.assertRegex(result.stdout, r"(?m)^ucprun load +[\d.]+ GB/s +\d+% of pinned memory to cuda:0$")
            else:
                self.assertIn("load_gpu.py needs a GPU: ", result.stderr)

    def test_what_cannot_be_loaded_is_said_in_one_sentence(self) -> None:
        """No GPU, too few of them, too little memory, and a call that fails in the middle."""
        source = FIXTURES / "zero1_dp4" / "checkpoint"
        for stand_in, options, code, words in (
            ("devices=0", (), 2, ("this process sees no GPU",)),
            ("fail_at=1", (), 2, ("there is no GPU that can be used: count: told to fail",)),
            ("devices=2", ("--device", "cuda:2"), 1, ("`cuda:2`: this process sees 2 GPUs, counted from 0",)),
            ("memory=1000", (), 2, ("cuda:0: ", "out of memory")),
            ("fail_at=20", (), 2, ("cuda:0: ", "told to fail")),
            ("", ("--device-memory", "64KiB"), 1, ("of the device's memory is too little", "--device-memory")),
            ("", ("--device-memory", "much"), 1, ("--device-memory takes a size",)),
        ):
            with self.subTest(stand_in=stand_in, options=options):
                device = () if "--device" in options else ("--device", "cuda")
                result = self.run_installed("load", source, "--to", "universal", *device, *options, stand_in=stand_in)
                self.assert_refused(result, code, *words)


@unittest.skipUnless(CAN_RUN, WHY_NOT)
@unittest.skipUnless(STAND_IN.exists() and NCCL_STAND_IN.exists(), "the stand-ins for a GPU and NCCL are not built")
class RanksWithStandIn(DeviceTest):
    """Each rank has a GPU, and NCCL is a folder of messages that come late."""

    def setUp(self) -> None:
        """All plugins lie beside the program."""
        super().setUp()
        shutil.copy2(STAND_IN, self.installed / "ucp_cuda.so")
        for file in (PROGRAMS / "ucp_mpi.so", NCCL_STAND_IN / "ucp_nccl.so", NCCL_STAND_IN / "libnccl.so.2"):
            shutil.copy2(file, self.installed / file.name)

    def mpirun(
        self, ranks: int, fixture: str, target: str, *options: object, nccl: str = "", stand_in: str = "delay=300"
    ) -> subprocess.CompletedProcess[str]:
        """A load whose every element is compared; `nccl` says what its stand-in is like."""
        source = FIXTURES / fixture / "checkpoint"
        words = ("--to", target, "--device", "cuda", "--compare", "--threads", 2, *options)
        return subprocess.run(
            [str(word) for word in ("mpirun", "-n", ranks, self.installed / "ucprun", "load", source, *words)],
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
            env=ENVIRONMENT | {"UCP_HOST_DEVICE": "devices=8," + stand_in, "UCP_STAND_IN_NCCL": nccl},
        )

    def load(self, ranks: int, fixture: str, target: str, *options: object, nccl: str = "") -> list[dict[str, Any]]:
        """The reports of all ranks."""
        result = self.mpirun(ranks, fixture, target, "--json", *options, nccl=nccl)
        self.assertEqual(result.returncode, 0, result.stderr)
        reports: list[dict[str, Any]] = json.loads(result.stdout)["ranks"]
        for number, report in enumerate(reports):
            self.assertEqual((report["device"], report["elements_that_differ"]), (f"cuda:{number}", 0))
            self.assertGreater(report["elements_compared"], 0)
        return reports

    def test_what_all_want_crosses_the_bus_once(self) -> None:
        """And by the hosts once for each GPU; both ways the same bytes are read, and the same received."""

        def total(reports: list[dict[str, Any]], key: str) -> int:
            return sum(report[key] for report in reports)

        by_gpus = self.load(4, "zero1_dp4", "universal")
        by_hosts = self.load(4, "zero1_dp4", "universal", nccl="one_gpu")
        for key in ("bytes_read", "bytes_received", "bytes_placed"):
            self.assertEqual(total(by_gpus, key), total(by_hosts, key))
        self.assertEqual(total(by_gpus, "bytes_from_gpus"), total(by_gpus, "bytes_received"))
        self.assertEqual(total(by_hosts, "bytes_from_gpus"), 0)
        placed = by_gpus[0]["bytes_placed"]
        self.assertGreater(total(by_gpus, "bytes_from_gpus"), 2.9 * placed)
        self.assertLess(total(by_gpus, "bytes_to_device"), 1.2 * placed)
        self.assertGreater(total(by_hosts, "bytes_to_device"), 3.9 * placed)
        self.assertNotIn("why_by_hosts", by_gpus[0])
        self.assertIn("ncclCommInitRank: invalid usage", by_hosts[0]["why_by_hosts"])

    def test_parts_of_the_ranks_share_what_they_want(self) -> None:
        """Replicas, and what tensor parallelism does not cut, in rounds through little memory."""
        for ranks, fixture, target, options in (
            (3, "zero1_dp4", "deepspeed:dp=3,zero=2", ("--device-memory", "2MiB")),
            (4, "gpt_pp2_tp2_dp2", "deepspeed:pp=1,tp=2,dp=2", ("--spec", GPT_SPEC)),
            (2, "bf16_masters_zero2", "safetensors:dtype=bf16", ("--check",)),
        ):
            with self.subTest(fixture=fixture, target=target):
                reports = self.load(ranks, fixture, target, *options)
                self.assertGreater(sum(report["bytes_from_gpus"] for report in reports), 1000)

    def test_the_text_says_which_way(self) -> None:
        """And why it was the longer one."""
        result = self.mpirun(2, "zero1_dp2", "universal")
        self.assertRegex(result.stdout, r"(?m)^rank 1: .* came to cuda:1 in .* kernels?; [\d.]+ [KM]B from other GPUs$")
        (self.installed / "ucp_nccl.so").unlink()
        result = self.mpirun(2, "zero1_dp2", "universal")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("went by way of the hosts: rank 0 of 2: this ucp was built without NCCL", result.stdout)

    def test_a_call_that_fails_ends_all_ranks(self) -> None:
        """With one sentence."""
        result = self.mpirun(2, "zero1_dp2", "universal", stand_in="fail_at=60")
        self.assertEqual(result.returncode, 2, result.stderr)
        self.assertEqual(result.stderr.count(": error: "), 1, result.stderr)
        self.assertIn("told to fail", result.stderr)

    def test_an_exchange_that_fails_on_one_rank_ends_all(self) -> None:
        """With the reason of that rank, though the others wait for ever and NCCL does not notify them."""
        result = self.mpirun(2, "zero1_dp2", "universal", "--rank-timeout", 0, nccl="fails")
        self.assertEqual(result.returncode, 2, result.stderr)
        self.assertIn("rank 1 of 2: its GPU cannot reach those of other ranks through NCCL: ", result.stderr)
        self.assertIn("unhandled system error", result.stderr)

    def test_without_first_bytes_the_hosts_give(self) -> None:
        """NCCL joins the ranks, and only then cannot connect their GPUs."""
        reports = self.load(2, "zero1_dp2", "universal", nccl="no_p2p")
        self.assertEqual([report["bytes_from_gpus"] for report in reports], [0, 0])
        self.assertIn("unhandled system error", reports[0]["why_by_hosts"])


if __name__ == "__main__":
    unittest.main()
