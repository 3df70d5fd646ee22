"""The target decides what a source must have: weights are read where an optimizer is lost, and a file that
would hold nothing but copies may be absent."""

from __future__ import annotations

import unittest
from pathlib import Path

from programs import GPT_SPEC, SOURCE, ProgramTest

WEIGHTS = "safetensors:names=memory"


def has_lost_weights(root: Path) -> bool:
    """Stage 3 has the weights in the optimizer's files."""
    return any(root.glob("*/zero_pp_rank_*_model_states.pt"))


class WhatTargetsNeed(ProgramTest):
    """Files are taken out of copies of real checkpoints."""

    def weights(self, source: Path, name: str) -> bytes:
        """The output of a conversion to weights alone."""
        result = self.run_program("ucprun", "convert", source, self.folder / name, "--to", WEIGHTS)
        self.assertEqual(result.returncode, 0, result.stderr)
        return (self.folder / name / "model.safetensors").read_bytes()

    def test_weights_without_any_optimizer(self) -> None:
        """The same bytes as with it: below stage 3, each fixture's weights are its masters, rounded."""
        compared = 0
        for truth in sorted((SOURCE / "tests" / "fixtures").glob("*/truth.json")):
            case = truth.parent.name
            if "tp2" in case and not case.startswith("auto"):
                continue  # These need a spec, and the next test has one.
            if case == "pipeline_zero0_bf16":
                continue  # Nothing but the optimizer names its tied tensor.
            root = self.checkpoint(case)
            lost = list(root.glob("*/*optim_states.pt"))
            if not lost or has_lost_weights(root):
                continue
            with self.subTest(case=case):
                before = self.weights(root, f"{case}_before")
                for file in lost:
                    file.unlink()
                self.assertEqual(self.weights(root, f"{case}_after"), before)
                compared += 1
        self.assertGreater(compared, 25)

    def test_one_lost_file_of_the_optimizer(self) -> None:
        root = self.checkpoint("gpt_pp2_tp2_dp2")
        lost = root / "global_step4" / "bf16_zero_pp_rank_1_mp_rank_02_optim_states.pt"
        spec = ("--spec", GPT_SPEC)
        result = self.run_program("ucprun", "convert", root, self.folder / "before", "--to", WEIGHTS, *spec)
        self.assertEqual(result.returncode, 0, result.stderr)
        lost.unlink()
        result = self.run_program("ucprun", "convert", root, self.folder / "after", "--to", WEIGHTS, *spec)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn(f"`{lost.name}` is missing", result.stderr)
        before, after = ((self.folder / name / "model.safetensors").read_bytes() for name in ("before", "after"))
        self.assertEqual(before, after)
        for target in ("universal", "deepspeed:pp=1,tp=1,dp=2,zero=1", "safetensors:states=all"):
            result = self.run_program("ucprun", "convert", root, self.out, "--to", target, *spec)
            self.assert_refused(result, 2, f"`{lost.name}` is missing", "`--to safetensors` needs nothing but its")
        result = self.run_program("ucprun", "inspect", root)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("Its weights are read alone", result.stdout)

    def test_stage_3_has_its_weights_in_the_optimizer(self) -> None:
        root = self.checkpoint("zero3_dp4")
        for file in root.glob("*/*optim_states.pt"):
            file.unlink()
        result = self.run_program("ucprun", "convert", root, self.out, "--to", "safetensors")
        self.assert_refused(result, 2, "which under stage 3 also have the weights")

    def test_absent_copies(self) -> None:
        """As DeepSpeed 0.16.4 saves after it resumed from a universal folder: whichever of the files is there."""
        whole = self.checkpoint("zero3_dp4")
        self.convert(whole)
        for kept in (0, 2):
            root = self.folder / f"kept{kept}"
            whole.rename(root)
            for file in root.glob("*/zero_pp_rank_*_model_states.pt"):
                if f"_rank_{kept}_mp" not in file.name:
                    file.rename(self.folder / file.name)
            out = self.folder / f"from{kept}"
            result = self.run_program("ucprun", "convert", root, out, "--to", "universal")
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertIn("it would hold copies of what", result.stderr)
            compare = self.run_program("ucprun", "verify", out, "--same", self.out, "--bytes")
            self.assertEqual(compare.returncode, 0, compare.stdout + compare.stderr)
            for file in self.folder.glob("zero_pp_rank_*_model_states.pt"):
                file.rename(root / "global_step4" / file.name)
            root.rename(whole)

    def test_an_absent_part_of_frozen_parameters(self) -> None:
        root = self.checkpoint("zero3_frozen_dp4")
        absent = root / "global_step4" / "zero_pp_rank_2_mp_rank_00_model_states.pt"
        absent.unlink()
        self.assert_refused(self.convert(root), 2, f"`{absent.name}` is missing", "it has a part of `")


if __name__ == "__main__":
    unittest.main()
