"""`ucpc plan --from STRATEGY`: what a conversion would cost, before there are files, and how long that takes to say."""

from __future__ import annotations

import json
import subprocess
import sys
import unittest

from programs import GPT_SPEC, SOURCE, ProgramTest

SIZES = ["layers=4", "hidden=16", "heads=4", "ffn=64", "vocab=101", "grain=16", "seq=8"]
SETTINGS = [word for size in SIZES for word in ("--set", size)]
STRATEGIES = [
    "deepspeed:pp=2,tp=2,dp=2,zero=1",
    "deepspeed:pp=1,tp=4,dp=3,zero=1,dtype=fp16",
    "deepspeed:dp=4,zero=3",
    "universal",
    "safetensors:states=all",
]
# Keys that are the same, whether the files are there or not.
KEYS = ["tensors", "bytes_to_copy", "bytes_to_compare", "target_files", "unused"]


class Planning(ProgramTest):
    """Numbers, refusals, and limits."""

    def plan(self, source: object, target: str, *further: object) -> dict[str, object]:
        """The report."""
        result = self.run_program("ucpc", "plan", GPT_SPEC, "--from", source, "--to", target, *SETTINGS, "--json",
                                  *further)  # fmt: skip
        self.assertEqual(result.returncode, 0, result.stderr)
        report: dict[str, object] = json.loads(result.stdout)
        return report

    def test_the_numbers_are_those_of_real_files(self) -> None:
        """A checkpoint on the same ranks is written, and the conversion from it planned."""
        for number, source in enumerate(STRATEGIES):
            made = self.folder / f"made{number}"
            written = self.run_program("ucprun", "synth", GPT_SPEC, made, "--to", source, *SETTINGS)
            self.assertEqual(written.returncode, 0, written.stderr)
            for target in STRATEGIES:
                if source.startswith("deepspeed:dp") and "pp=" in target:
                    continue  # From the files of a plain module nobody can tell the layers of a pipeline.
                if "pp=" in source and "zero=3" in target:
                    continue  # A pipeline that was saved stays one, and DeepSpeed has none at stage 3.
                if source.startswith(("universal", "safetensors")) and "deepspeed" in target:
                    continue  # These folders do not have what the native files of a job need.
                with self.subTest(source=source, target=target):
                    planned, real = self.plan(source, target), self.plan(made, target)
                    self.assertEqual([planned[key] for key in KEYS], [real[key] for key in KEYS])
                    # Facts that real files state of themselves are carried along: at most some KB a file.
                    more = real["bytes_to_write"] - planned["bytes_to_write"]
                    self.assertLessEqual(abs(more), 16_000 * real["target_files"])

    def test_cost(self) -> None:
        """Time follows from the bandwidth of all nodes."""
        one = self.plan(STRATEGIES[0], "universal", "--bandwidth", "1000")
        read = one["bytes_to_copy"] + one["bytes_to_compare"]
        self.assertAlmostEqual(one["seconds"], (read + one["bytes_to_write"]) / 1000)
        four = self.plan(STRATEGIES[0], "universal", "--bandwidth", "1000B/s", "--nodes", "4")
        self.assertAlmostEqual(four["seconds"], one["seconds"] / 4)
        text = self.run_program("ucpc", "plan", GPT_SPEC, "--from", STRATEGIES[0], "--to", "universal", *SETTINGS,
                                "--bandwidth", "2GB/s", "--nodes", "4").stdout  # fmt: skip
        self.assertRegex(text, r"(?m)^a node   of 4 reads [\d.]+ KB and writes [\d.]+ KB$")
        self.assertRegex(text, r"(?m)^time     0.0 s at 2.00 GB a second and node, read and written$")
        self.assertRegex(text, r"(?m)^plan     [\d.]+ KB, made in [\d.]+ s and verified in [\d.]+ s, peak memory ")

    def test_what_cannot_be_planned_is_said(self) -> None:
        for words, arguments in [
            ("only a spec says of which tensors", ["--from", "deepspeed:dp=2,zero=1", "--to", "universal"]),
            ("--bandwidth takes a rate", [GPT_SPEC, "--from", "universal", "--to", "universal", "--bandwidth", "fast"]),
            ("is a checkpoint", ["--from", self.checkpoint("zero2_dp2"), "--to", "universal", "--nodes", "2"]),
            ("no setting `mp`", [GPT_SPEC, "--from", "deepspeed:mp=2", "--to", "universal", *SETTINGS]),
        ]:
            with self.subTest(words=words):
                self.assert_refused(self.run_program("ucpc", "plan", *arguments), 1, words)

    def test_the_plan_of_files_that_are_not_there_is_refused(self) -> None:
        """It can be written and looked at; `run` says what it was made from, whether or not the plan is trusted."""
        self.plan(STRATEGIES[0], "universal", "-o", self.folder / "a.plan")
        self.assertEqual(self.run_program("ucpc", "dump", self.folder / "a.plan").returncode, 0)
        source = self.checkpoint("gpt_pp2_tp2_dp2")
        for more in ((), ("--trust-plan",)):
            result = self.run_program("ucprun", "run", "a.plan", self.out, "--from", source, *more)
            self.assert_refused(result, 2, "`a.plan`", f"from the strategy `{STRATEGIES[0]}`", "`ucpc plan --from DIR`")

    def test_sizes_that_nobody_has_here(self) -> None:
        """A trillion parameters and 20,000 tensors, within three times the processor time that they should take."""
        script = SOURCE / "tests" / "bench" / "plan.py"
        result = subprocess.run([sys.executable, str(script), "--quick"], capture_output=True, text=True, timeout=500,
                                check=False)  # fmt: skip
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)


if __name__ == "__main__":
    unittest.main()
