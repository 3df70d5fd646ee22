"""Runs of several ranks under Open MPI's mpirun: the same bytes, one voice, and one rank's end is everybody's."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import unittest
from pathlib import Path

from ranks import CAN_RUN, ENVIRONMENT, WHY_NOT, run_with_one_killed

from programs import PROGRAMS, ProgramTest, all_files


@unittest.skipUnless(CAN_RUN, WHY_NOT)
class Ranks(ProgramTest):
    """Each test starts mpirun, which takes half a second."""

    def mpirun(self, *words: object) -> subprocess.CompletedProcess[str]:
        """`words` are those of mpirun."""
        command = ["mpirun", *map(str, words)]
        return subprocess.run(
            command, cwd=self.folder, capture_output=True, text=True, timeout=120, check=False, env=ENVIRONMENT
        )

    def convert_on(self, ranks: int, source: Path, out: str, *options: object) -> subprocess.CompletedProcess[str]:
        """To native files of three ranks."""
        return self.mpirun(
            "-n", ranks, PROGRAMS / "ucprun", "convert", source, out, "--to", "deepspeed:dp=3,zero=1", *options
        )

    def test_the_same_bytes_for_any_number_of_ranks(self) -> None:
        """And one report, of all ranks' work."""
        source = self.checkpoint("zero2_dp4")
        alone = self.run_program("ucprun", "convert", source, "alone", "--to", "deepspeed:dp=3,zero=1")
        self.assertEqual(alone.returncode, 0, alone.stderr)
        for ranks, options in ((2, ()), (8, ("--threads", 2))):
            result = self.convert_on(ranks, source, f"of-{ranks}", *options)
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertEqual(all_files(self.folder / f"of-{ranks}"), all_files(self.folder / "alone"))
            self.assertEqual(
                result.stdout.splitlines()[0].split(" written ")[0], alone.stdout.splitlines()[0].split(" written ")[0]
            )
            self.assertEqual(result.stderr.count("note: "), alone.stderr.count("note: "))

    def test_a_plan_file(self) -> None:
        """Also `run`."""
        source = self.checkpoint("zero1_dp2")
        for program, *words in (
            ("ucpc", "plan", "--from", source, "--to", "universal", "-o", "a.plan"),
            ("ucprun", "run", "a.plan", "alone", "--from", source),
        ):
            self.assertEqual(self.run_program(program, *words).returncode, 0)
        result = self.mpirun("-n", 3, PROGRAMS / "ucprun", "run", "a.plan", "out", "--from", source)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(all_files(self.out), all_files(self.folder / "alone"))

    def test_elements_that_are_computed(self) -> None:
        """`synth`: each rank computes the bytes that it writes; a fault of the command is reported once."""
        words = ("synth", "gpt2", "--set=layers=2", "--set=hidden=16", "--set=heads=2", "--set=seq=8", "--set=vocab=32")
        for to in ("deepspeed:dp=4,zero=1", "universal"):
            alone = self.run_program("ucprun", *words[:2], "alone", *words[2:], "--force", "--to", to)
            self.assertEqual(alone.returncode, 0, alone.stderr)
            made = self.mpirun("-n", 3, PROGRAMS / "ucprun", *words[:2], "made", *words[2:], "--force", "--to", to)
            self.assertEqual(made.returncode, 0, made.stderr)
            self.assertEqual(all_files(self.folder / "made"), all_files(self.folder / "alone"))
            self.assertEqual(made.stdout.split(" written ")[0], alone.stdout.split(" written ")[0])
            self.assertEqual(made.stdout.count("wrote made"), 1)
        wrong = self.mpirun("-n", 3, PROGRAMS / "ucprun", *words[:2], "out", *words[2:-1], "--to", "universal")
        self.assertEqual(wrong.returncode, 1, wrong.stderr)
        self.assertEqual(wrong.stderr.count("ucprun: error: 1 error in"), 1, wrong.stderr)
        self.assert_nothing_left()

    def test_weights_that_are_no_rounding_are_counted_over_all_ranks(self) -> None:
        """Each rank compares others of them."""
        source = self.checkpoint("zero2_dp4")
        path = next(source.glob("*/mp_rank_00_model_states.pt"))
        data = bytearray(path.read_bytes())
        for at in range(8000, len(data) - 4000, 997):  # Somewhere in the weights, most of it.
            data[at] ^= 1
        path.write_bytes(bytes(data))
        outcomes = []
        for ranks in (1, 4):
            result = self.mpirun(
                "-n", ranks, PROGRAMS / "ucprun", "convert", source, f"out-{ranks}", "--to", "universal", "--ignore-crc"
            )
            self.assertEqual(result.returncode, 0, result.stderr)
            outcomes.append([line for line in result.stderr.splitlines() if "rounding" in line])
        self.assertNotEqual(outcomes[0], [])
        self.assertEqual(outcomes[0], outcomes[1])

    def test_what_rank_0_finds_out_is_said_once(self) -> None:
        """Nothing was begun."""
        source = self.checkpoint("zero1_dp2")
        self.out.mkdir()
        result = self.convert_on(3, source, "out")
        self.assertEqual(result.returncode, 1)
        self.assertEqual(result.stderr.count("ucprun: error: `out` exists"), 1, result.stderr)

    def test_help_and_a_wrong_command_line_are_told_once(self) -> None:
        """All ranks have the same words; who has others than rank 0 says so."""
        shown = self.mpirun("-n", 3, PROGRAMS / "ucprun", "convert", "--help")
        self.assertEqual((shown.returncode, shown.stdout.count("Usage: ucprun convert")), (0, 1), shown.stdout)
        self.assertEqual(self.mpirun("-n", 3, PROGRAMS / "ucprun", "--version").stdout.count("ucprun "), 1)
        wrong = self.mpirun("-n", 3, PROGRAMS / "ucprun", "convret")
        self.assertEqual(wrong.returncode, 1)
        self.assertEqual(wrong.stderr.count("ucprun: error: "), 1, wrong.stderr)
        source = self.checkpoint("zero1_dp2")
        words = (PROGRAMS / "ucprun", "convert", source, "out", "--to", "universal")
        other = self.mpirun("-n", 1, *words, ":", "-n", 1, *words, "--colour")
        self.assertEqual(other.returncode, 1, other.stderr)
        self.assertEqual(other.stderr.count("ucprun: error: "), 1, other.stderr)
        self.assertIn("--colour", other.stderr)

    def test_a_launcher_of_another_mpi(self) -> None:
        """Each of its ranks would take itself for all of them."""
        command = [PROGRAMS / "ucprun", "convert", self.checkpoint("zero1_dp2"), "out", "--to", "universal"]
        results = [subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, cwd=self.folder,
                                  env=ENVIRONMENT | {"SLURM_STEP_NUM_TASKS": "2", "SLURM_PROCID": str(rank)})
                   for rank in (1, 0)]  # fmt: skip
        self.assertEqual([result.returncode for result in results], [1, 0], results)
        self.assertIn("`SLURM_STEP_NUM_TASKS` says that a launcher started 2 ranks, and MPI finds 1", results[0].stderr)

    def test_one_ranks_error_is_everybodys_and_names_it(self) -> None:
        """A rank that may not write files of that size."""
        source = self.checkpoint("zero2_dp4")
        words = f"{PROGRAMS}/ucprun convert {source} out --to deepspeed:dp=4,zero=1"
        limited = ("sh", "-c", f"ulimit -f 1; exec {words}")
        result = self.mpirun("-n", 2, *words.split(), ":", "-n", 1, *limited, ":", "-n", 1, *words.split())
        self.assertEqual(result.returncode, 2, result.stderr)
        self.assertEqual(result.stderr.count("ucprun: error: "), 1, result.stderr)
        self.assertRegex(result.stderr, r"ucprun: error: rank 2 of 4: cannot .* file too large")
        self.assert_nothing_left()

    def test_a_rank_that_cannot_begin_ends_the_run_of_all(self) -> None:
        """Its own machine has too little of something; the others do not wait for it."""
        source = self.checkpoint("zero2_dp4")
        words = [str(PROGRAMS / "ucprun"), "convert", str(source), "out", "--to", "deepspeed:dp=4,zero=1"]
        for option, value, reason in (
            ("--memory", "64KiB", "of memory is too little"),
            ("--memory", "lots", "--memory takes a size"),
        ):
            result = self.mpirun("-n", 2, *words, ":", "-n", 1, *words, option, value)
            self.assertEqual(result.returncode, 1, result.stderr)
            self.assertEqual(result.stderr.count("ucprun: error: rank 2 of 3: "), 1, result.stderr)
            self.assertIn(reason, result.stderr)
            self.assert_nothing_left()

    def test_a_rank_that_may_open_few_files(self) -> None:
        """Past the page cache every file is opened twice: by default all ranks do without then."""
        source = self.checkpoint("zero2_dp4")
        words = f"{PROGRAMS}/ucprun convert {source} out --to deepspeed:dp=4,zero=1 --threads 2 --json"
        few = ("sh", "-c", f"ulimit -n 40; exec {words}")
        reason = (
            r"rank 1 of 2: past the page cache every file is opened twice, and this process may have 40 open at "
            r"once \(`ulimit -n`\), too few for 2 threads so; raise the limit, lower --threads, or pass "
            r"--io buffered"
        )
        result = self.mpirun("-n", 1, *words.split(), ":", "-n", 1, *few)
        self.assertEqual(result.returncode, 0, result.stderr)
        for way in json.loads(result.stdout)["io"].values():
            self.assertEqual(way["means"], "buffered")
            self.assertRegex(way["reason"], f"^{reason}$")
        shutil.rmtree(self.out)
        result = self.mpirun("-n", 1, *words.split(), "--io=direct", ":", "-n", 1, *few[:2], few[2] + " --io=direct")
        self.assertEqual(result.returncode, 1, result.stderr)
        self.assertRegex(json.loads(result.stdout)["error"]["message"], f"^{reason}$")

    def test_damage_is_found_whichever_rank_read_it(self) -> None:
        """Parts that different ranks read are joined."""
        source = self.checkpoint("zero2_dp4")
        path = sorted(source.glob("*/*optim_states.pt"))[2]
        data = bytearray(path.read_bytes())
        data[len(data) // 2] ^= 1
        path.write_bytes(bytes(data))
        result = self.convert_on(4, source, "out")
        self.assertEqual(result.returncode, 2, result.stderr)
        self.assertEqual(result.stderr.count("is damaged"), 1, result.stderr)
        self.assertIn(path.name, result.stderr)
        self.assert_nothing_left()

    def test_a_killed_rank_ends_the_run(self) -> None:
        """Within seconds, with the destination untouched; a later run begins anew."""
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
            "convert",
            "big",
            "out",
            "--to",
            "universal",
            "--threads",
            "1",
        ]
        for _ in range(20):  # A run may end before it is seen to have begun.
            status, seconds = run_with_one_killed(command, self.folder)
            if status != 0:
                self.assertLess(seconds, 15)
                break
            shutil.rmtree(self.out)
        self.assertNotEqual(status, 0)
        self.assertFalse(self.out.exists())
        again = self.run_program("ucprun", "convert", "big", "out", "--to", "universal")
        self.assertEqual(again.returncode, 0, again.stderr)
        verified = self.run_program("ucprun", "verify", "out", "--synth")
        self.assertEqual(verified.returncode, 0, verified.stderr)


class WithoutMpi(ProgramTest):
    """The program alone, as a build without MPI installs it."""

    def test_a_launcher_is_told(self) -> None:
        """Else each rank would do all the work, and only the first one to come would succeed."""
        shutil.copy2(PROGRAMS / "ucprun", self.folder / "ucprun")
        source = self.checkpoint("zero1_dp2")
        command = [str(self.folder / "ucprun"), "convert", str(source), "out", "--to", "universal"]
        result = subprocess.run(
            command,
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            env=os.environ | {"OMPI_COMM_WORLD_SIZE": "4"},
        )
        self.assert_refused(result, 1, "a launcher started 4 ranks", "built without MPI")
        version = subprocess.run([command[0], "--version"], capture_output=True, text=True, check=True)
        self.assertIn(", no MPI, no CUDA)", version.stdout)
        self.assertEqual(subprocess.run(command, cwd=self.folder, check=False, capture_output=True).returncode, 0)


if __name__ == "__main__":
    unittest.main()
