"""`ucprun load`: the files that a rank of a job would open, into memory, and every element held against the source."""

from __future__ import annotations

import json
import unittest
from pathlib import Path
from typing import Any

from programs import SOURCE, ProgramTest

FIXTURES = SOURCE / "tests" / "fixtures"


class Load(ProgramTest):
    """On real checkpoints; nothing is written."""

    def load(self, source: Path, target: str, *options: object) -> dict[str, Any]:
        """The report of a load that goes well, with every element compared."""
        result = self.run_program("ucprun", "load", source, "--to", target, "--compare", "--json", *options)
        self.assertEqual(result.returncode, 0, result.stderr)
        report: dict[str, Any] = json.loads(result.stdout)
        for rank in report["ranks"]:
            self.assertEqual(rank["elements_that_differ"], 0)
        self.assertEqual(list(self.folder.iterdir()), [])
        return report

    def files_of(self, fixture: str, target: str, rank: int, *options: object) -> set[str]:
        """Without the tag's folder, and without what is not read by ranks alone."""
        report = self.load(FIXTURES / fixture / "checkpoint", target, "--rank", rank, *options)
        paths = report["ranks"][0]["files"]
        return {Path(path).name for path in paths if path.endswith("_states.pt")}

    def test_every_element_is_the_sources(self) -> None:
        """Casts, cuts, ZeRO stages and formats; some of them need a spec."""
        for fixture, target, ranks, options in (
            ("zero1_dp4", "deepspeed:dp=3,zero=2", 3, ()),
            ("bf16_masters_zero2", "deepspeed:dp=2,zero=3", 2, ()),
            ("frozen_buffers_zero2", "universal", 1, ()),
            ("zero1_dp4", "safetensors:dtype=bf16", 1, ()),
            ("gpt_pp2_tp2_dp2", "deepspeed:pp=1,tp=2,dp=2", 4, ("--spec", "megatron_deepspeed_gpt")),
        ):
            for rank in range(ranks):
                with self.subTest(fixture=fixture, target=target, rank=rank):
                    report = self.load(FIXTURES / fixture / "checkpoint", target, "--rank", rank, *options)
                    loaded = report["ranks"][0]
                    self.assertGreater(loaded["elements_compared"], 1000)
                    self.assertGreater(loaded["bytes_placed"], loaded["elements_compared"])
                    self.assertFalse(loaded["nothing_converted"])

    def test_which_files_a_rank_opens(self) -> None:
        """By the names that DeepSpeed's engine makes of its ranks."""
        self.assertEqual(
            self.files_of("zero1_dp4", "deepspeed:dp=3,zero=2,dtype=fp32", 2),
            {"mp_rank_00_model_states.pt", "zero_pp_rank_2_mp_rank_00_optim_states.pt"},
        )
        self.assertEqual(
            self.files_of("zero1_dp4", "deepspeed:dp=3,zero=3,dtype=fp32", 1),
            {"zero_pp_rank_1_mp_rank_00_model_states.pt", "zero_pp_rank_1_mp_rank_00_optim_states.pt"},
        )
        spec = ("--spec", "megatron_deepspeed_gpt")
        # Rank 5 of pp=2, dp=2, tp=2 is stage 1, data 0, tensor 1.
        files = self.files_of("gpt_pp2_tp2_dp2", "deepspeed:pp=2,tp=2,dp=2", 5, *spec)
        states = {name for name in files if not name.startswith("layer_")}
        self.assertEqual(
            {name.removeprefix("bf16_") for name in states},
            {"mp_rank_03_model_states.pt", "zero_pp_rank_0_mp_rank_03_optim_states.pt"},
        )
        layers = [name for name in files if name.startswith("layer_")]
        self.assertTrue(layers)
        self.assertTrue(all("-model_01-" in name for name in layers), layers)
        # Each layer is on one stage, but for what is tied.
        others = self.files_of("gpt_pp2_tp2_dp2", "deepspeed:pp=2,tp=2,dp=2", 1, *spec)
        self.assertFalse(set(layers) & {name for name in others if name.startswith("layer_")})
        # Experts 2 and 3 of four are those of expert rank 1, which is data rank 1 and 3.
        for rank, experts in ((1, (2, 3)), (2, (0, 1)), (3, (2, 3))):
            self.assertEqual(
                self.files_of("moe_ep2_dp4", "deepspeed:dp=4,ep=2", rank),
                {
                    "mp_rank_00_model_states.pt",
                    f"bf16_zero_pp_rank_{rank}_mp_rank_00_optim_states.pt",
                    *(
                        f"layer_{layer}_expert_{expert}_mp_rank_00_model_states.pt"
                        for layer in (0, 1)
                        for expert in experts
                    ),
                },
            )

    def test_what_is_stored_as_it_is_wanted(self) -> None:
        """The report says so, and only then; each byte is read once, and the weights are not made of their masters."""
        source = FIXTURES / "zero1_dp4" / "checkpoint"
        loaded = self.load(source, "deepspeed:dp=4,zero=1", "--rank", 1)["ranks"][0]
        self.assertTrue(loaded["nothing_converted"])
        self.assertLessEqual(loaded["bytes_read"], loaded["bytes_placed"])
        for target, same in (("deepspeed:dp=4,zero=1", True), ("deepspeed:dp=2,zero=1", False)):
            result = self.run_program("ucprun", "load", source, "--to", target, "--rank", 1)
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertEqual("nothing had to be converted" in result.stdout, same, result.stdout)

    def test_the_text_says_what_was_placed_and_how_fast(self) -> None:
        """And with --ceiling, of how much."""
        source = FIXTURES / "zero1_dp4" / "checkpoint"
        result = self.run_program(
            "ucprun",
            "load",
            source,
            "--to",
            "deepspeed:dp=2,zero=1",
            "--rank",
            0,
            "--compare",
            "--ceiling",
            "--threads",
            2,
        )
        self.assertEqual(result.returncode, 0, result.stderr)
        first, second = result.stdout.splitlines()[2:]
        self.assertRegex(
            first,
            r"^rank 0: [\d.]+ [KM]B of \d+ files in [\d.]+ s \([\d.]+ GB/s, \d+ % of the [\d.]+ "
            r"GB/s of reading alone\); read [\d.]+ [KM]B, received 0 B$",
        )
        self.assertRegex(second, r"^rank 0: [\d,]+ elements compared with the source: equal$")

    def test_damage_is_named_where_it_is_looked_for(self) -> None:
        """Checksums are looked at on request."""
        source = self.checkpoint("zero1_dp4")
        path = next(source.glob("*/*zero_pp_rank_2*"))
        data = bytearray(path.read_bytes())
        data[len(data) // 2] ^= 1
        path.write_bytes(bytes(data))
        words = ("load", source, "--to", "deepspeed:dp=1,zero=1")
        self.assertEqual(self.run_program("ucprun", *words).returncode, 0)
        self.assert_refused(self.run_program("ucprun", *words, "--check"), 2, "is damaged", path.name)

    def test_what_cannot_be_loaded_is_said_in_one_sentence(self) -> None:
        """Before anything is read."""
        source = FIXTURES / "zero1_dp4" / "checkpoint"
        for options, code, words in (
            (("--to", "deepspeed:dp=4,zero=1"), 1, ("is a job of 4 ranks", "--rank", "mpirun")),
            (("--to", "deepspeed:dp=4,zero=1", "--rank", 4), 1, ("--rank 4", "a job of 4 ranks, from 0 on")),
            (("--to", "deepspeed:dp=1,zero=1", "--memory", "1MiB"), 1, ("of memory is too little",)),
            (("--to", "depspeed:dp=1"), 1, ("deepspeed",)),
        ):
            self.assert_refused(self.run_program("ucprun", "load", source, *options), code, *words)


if __name__ == "__main__":
    unittest.main()
