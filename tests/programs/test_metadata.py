"""Checkpoints that state their own cuts. Tests of wrong metadata need PyTorch: tests/engine."""

from __future__ import annotations

import json
import shutil
import unittest
from pathlib import Path

from programs import PROGRAMS, ProgramTest

NOTE = "metadata says how its 21 tensors are cut over 2 ranks, 21 of them by affine maps and 0 by patterns"


class Metadata(ProgramTest):
    """A Llama that AutoTP cut, and a GPT of one tensor-parallel rank."""

    def test_it_comes_before_the_catalogue(self) -> None:
        """It is not even looked at: this program has none."""
        (self.folder / "bin").mkdir()
        program = Path(shutil.copy(PROGRAMS / "ucprun", self.folder / "bin"))
        source = self.checkpoint("autotp_tp2_dp2")
        result = self.run_program(str(program), "convert", source, self.out, "--to", "universal")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("note: the checkpoint's own " + NOTE, result.stderr)

    def test_every_report_says_so(self) -> None:
        """As a note, and in JSON."""
        source = self.checkpoint("autotp_tp2_dp2")
        planned = self.run_program("ucpc", "plan", "--from", source, "--to", "universal", "--json")
        self.assertTrue(any(NOTE in remark for remark in json.loads(planned.stdout)["remarks"]), planned.stdout)
        explained = self.run_program("ucpc", "explain", "--from", source, "--tensor", "*.0.mlp.down_proj.weight")
        self.assertIn(NOTE, explained.stderr)
        self.assertIn("declared  [16, 26@tp]", explained.stdout)
        self.assertIn("by        `universal_checkpoint_info` in mp_rank_00_model_states.pt", explained.stdout)

    def test_options_of_a_spec_are_refused(self) -> None:
        """There is no spec that they could be for."""
        source = self.checkpoint("autotp_tp2_dp2")
        (self.folder / "config.json").write_text("{}")
        result = self.convert(source, "--config", self.folder / "config.json")
        self.assert_refused(result, 1, "--config gives values to the dims and facts of a spec")

    def test_one_rank_does_not_say_what_several_would_hold(self) -> None:
        """Megatron-DeepSpeed names no row-parallel matrices then."""
        result = self.convert(self.checkpoint("gpt_pp1_tp1_dp2"))
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("serves targets of one such rank; for others name a spec with --spec", result.stderr)
        named = self.convert(self.folder / "gpt_pp1_tp1_dp2", "--spec", "megatron_deepspeed_gpt", "--force")
        self.assert_done(named)


if __name__ == "__main__":
    unittest.main()
