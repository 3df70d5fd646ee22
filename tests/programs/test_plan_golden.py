"""Small plans as `ucpc dump` prints them, and the hash of their bytes: a plan that changes shows where.

UCP_REWRITE=1 writes the files in tests/programs/plans anew. Then look at what changed.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import unittest
from pathlib import Path

from programs import ProgramTest

PLANS = Path(__file__).parent / "plans"
SIZES = ("--set", "layers=1", "--set", "hidden=4", "--set", "ffn=4", "--set", "vocab=6")

# By name: the source's ranks, the target, and options.
CASES: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "tp2_to_dp2": ("deepspeed:tp=2,zero=1", "deepspeed:dp=2,zero=1", ()),
    "dp2_to_tp2": ("deepspeed:dp=2,zero=2", "deepspeed:tp=2,zero=2", ()),
    "tp2_to_tp4": ("deepspeed:tp=2,dp=2,zero=1", "deepspeed:tp=4,dp=1,zero=1", ()),
    "zero0_to_zero1": ("deepspeed:dp=2,zero=0", "deepspeed:dp=2,zero=1", ()),
    "zero1_to_zero0": ("deepspeed:dp=3,zero=1", "deepspeed:dp=1,zero=0", ()),
    "zero1_to_zero3": ("deepspeed:dp=2,zero=1", "deepspeed:dp=3,zero=3", ()),
    "zero3_to_zero3": ("deepspeed:dp=3,zero=3", "deepspeed:dp=2,zero=3", ()),
    "zero3_sub_groups": ("deepspeed:dp=2,zero=3", "deepspeed:dp=2,zero=3,sub_group_size=40", ()),
    "round_robin": ("deepspeed:dp=2,zero=2", "deepspeed:dp=2,zero=2,round_robin=true", ()),
    "elastic": ("deepspeed:dp=2,zero=1", "deepspeed:dp=2,zero=1,elastic=true", ()),
    "fp16": ("deepspeed:dp=2,zero=2,dtype=fp16", "deepspeed:dp=1,zero=2,dtype=fp16", ()),
    "universal": ("deepspeed:tp=2,zero=1", "universal", ()),
    "universal_mp2": ("deepspeed:dp=2,zero=3", "universal:zero=3", ()),
    "weights": ("deepspeed:tp=2,dp=2,zero=1", "safetensors", ()),
    "weights_rounded": ("deepspeed:dp=2,zero=1,dtype=bf16", "safetensors:dtype=fp16,max_shard=200B", ()),
    "all_states": ("deepspeed:tp=2,zero=1", "safetensors:states=all,names=memory", ()),
    "trusted": ("deepspeed:tp=2,dp=2,zero=0", "deepspeed:dp=1,zero=1", ("--replicas", "trust")),
    "dropped_state": ("deepspeed:dp=2,zero=1", "universal", ("--drop-state", "exp_avg")),
    "preferred_rank": ("deepspeed:tp=2,zero=1", "universal", ("--prefer-rank", "tp=1")),
    "tagged": ("deepspeed:dp=1,zero=1", "deepspeed:dp=2,zero=1", ("--tag", "step_one")),
}


class SmallPlans(ProgramTest):
    """Planned from ranks that a strategy names, in a folder with the spec."""

    maxDiff = None

    def planned(self, case: str) -> str:
        source, target, options = CASES[case]
        shutil.copy(PLANS / "small.ucp", self.folder)
        plan = self.folder / f"{case}.plan"
        made = self.run_program("ucpc", "plan", "small.ucp", "--from", source, "--to", target, *SIZES, *options,
                                "-o", plan)  # fmt: skip
        self.assertEqual(made.returncode, 0, made.stderr)
        dumped = self.run_program("ucpc", "dump", plan)
        self.assertEqual(dumped.returncode, 0, dumped.stderr)
        return f"{dumped.stdout}sha256 {hashlib.sha256(plan.read_bytes()).hexdigest()}\n"

    def test_plans(self) -> None:
        for case in CASES:
            with self.subTest(case):
                file = PLANS / f"{case}.txt"
                found = self.planned(case)
                if os.environ.get("UCP_REWRITE"):
                    file.write_text(found)
                self.assertMultiLineEqual(found, file.read_text(), f"{file}: UCP_REWRITE=1 writes it anew")

    def test_every_file_is_of_a_case(self) -> None:
        self.assertEqual({path.stem for path in PLANS.glob("*.txt")}, set(CASES))


if __name__ == "__main__":
    unittest.main()
