"""A checkpoint that needs a spec, and a user who names none: the catalogue decides, or says why it cannot."""

from __future__ import annotations

import json
import shutil
import subprocess
import unittest
from pathlib import Path

from programs import PROGRAMS, SOURCE, ProgramTest, files_of

SPECS = SOURCE / "specs"
HALVES = "[2 * (ffn@tp), hidden]"
ACROSS_THE_HALVES = "[(2 * ffn)@tp, hidden]"


class PickedSpecs(ProgramTest):
    """With the catalogue as it is, and with catalogues of two or three specs."""

    def install(self, specs: dict[str, str]) -> Path:
        """An installed program whose catalogue has these texts."""
        catalogue = self.folder / "share" / "ucp" / "specs"
        catalogue.mkdir(parents=True)
        for name, text in specs.items():
            (catalogue / f"{name}.ucp").write_text(text)
        (self.folder / "bin").mkdir()
        return Path(shutil.copy(PROGRAMS / "ucprun", self.folder / "bin"))

    def convert_with(self, specs: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
        """Converts the Llama with that catalogue."""
        program = self.install(specs)
        source = self.checkpoint("llama_pp2_tp2_dp2")
        return self.run_program(str(program), "convert", source, self.out, "--to", "universal", *arguments)

    def llama(self) -> str:
        return (SPECS / "megatron_deepspeed_llama.ucp").read_text()

    def test_the_one_that_fits_is_picked(self) -> None:
        """It says which and why, and writes what it writes when the spec is named."""
        cases = {"gpt_pp2_tp2_dp2": "megatron_deepspeed_gpt", "llama_pp2_tp2_dp2": "megatron_deepspeed_llama"}
        for case, spec in cases.items():
            with self.subTest(case=case):
                source = self.checkpoint(case)
                picked = self.folder / f"picked-{case}"
                result = self.run_program("ucprun", "convert", source, picked, "--to", "universal")
                self.assertEqual(result.returncode, 0, result.stderr)
                self.assertIn(f"note: the spec `{spec}` of the catalogue fits, and no other does: ", result.stderr)
                self.assertRegex(result.stderr, r"metadata, which describes (36 of 52|18 of 21) tensors, agrees")
                named = self.folder / f"named-{case}"
                self.run_program("ucprun", "convert", source, named, "--to", "universal", "--spec", spec)
                self.assertEqual(files_of(picked), files_of(named))

    def test_json_says_so_too(self) -> None:
        """In the report of a dry run."""
        result = self.convert(self.checkpoint("llama_pp2_tp2_dp2"), "--dry-run", "--json")
        self.assertIn("`megatron_deepspeed_llama` of the catalogue fits", json.loads(result.stdout)["remarks"][-1])

    def test_two_that_mean_the_same(self) -> None:
        """An even cut and `heads` in another order of declarations: no conflict."""
        other = self.llama().replace("[hidden, kv_heads@tp * group * head]", "[hidden, (kv_heads * group)@tp * head]")
        self.assertNotEqual(other, self.llama())
        result = self.convert_with({"a": self.llama(), "b": other})
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("`a` of the catalogue fits; so does `b`, which means the same here", result.stderr)

    def test_two_that_differ_in_a_cut(self) -> None:
        """Same names, same shapes, other elements: that is for the user to say."""
        wrong = self.llama().replace(HALVES, ACROSS_THE_HALVES)
        self.assertNotEqual(wrong, self.llama())
        result = self.convert_with({"a": self.llama(), "b": wrong})
        self.assert_refused(result, 1, "`a` and `b`", "tensor `3.mlp.dense_h_to_4h.weight`", "--spec")

    def test_one_that_the_metadata_contradicts(self) -> None:
        """Megatron-DeepSpeed says that the halves are cut each for itself: not for the catalogue to overrule."""
        wrong = self.llama().replace(HALVES, ACROSS_THE_HALVES)
        result = self.convert_with({"b": wrong})
        self.assert_refused(
            result,
            1,
            "the spec `b` of the catalogue fits, but the checkpoint's metadata reads tensor "
            "`3.mlp.dense_h_to_4h.weight`, and 2 more of this pattern, as `[2 * (40@tp), 32]`, and the spec as "
            "`[(2 * 40)@tp, 32]`",
            "--spec",
        )

    def test_one_rank_to_several(self) -> None:
        """How the target's ranks cut is asked of the catalogue; the files are those that naming the spec gives."""
        source = self.checkpoint("gpt_pp1_tp1_dp2")
        target = ("--to", "deepspeed:pp=1,tp=2,dp=2,zero=1")
        result = self.run_program("ucprun", "convert", source, self.out, *target)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("the spec `megatron_deepspeed_gpt` of the catalogue fits, and no other does", result.stderr)
        named = self.folder / "named"
        result = self.run_program("ucprun", "convert", source, named, *target, "--spec", "megatron_deepspeed_gpt")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(files_of(self.out), files_of(named))
        result = self.run_program("ucprun", "convert", self.checkpoint("zero1_dp1"), self.folder / "x", *target)
        self.assertEqual(result.returncode, 1)
        self.assertIn("nothing says how tensors are cut over tp ranks; say it with --spec, since the", result.stderr)

    def test_without_a_configuration(self) -> None:
        """Those that come nearest, and what they lack, and not the reasons of all 31."""
        source = self.checkpoint("autotp_tp2_dp2")
        result = self.run_program("ucprun", "convert", source, self.out, "--to", "deepspeed:tp=4,dp=1,zero=1")
        self.assertEqual(result.returncode, 1)
        self.assertIn(
            "`gemma2`, `llama`, `mistral`, `qwen2` and 3 more: nothing says how large `heads` is, and no shape tells; "
            "24 others do not fit; no config.json was found beside the checkpoint: name one with --config",
            result.stderr,
        )
        self.assertFalse(self.out.exists())
        self.assertLess(len(result.stderr), 650)

    def test_a_folder_of_the_same_name(self) -> None:
        """A model's folder may be called as the spec of its family is: the name means the spec."""
        (self.folder / "llama").mkdir()
        command = [str(PROGRAMS / "ucpc"), "check", "llama"]
        result = subprocess.run(command, cwd=self.folder, capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        result = subprocess.run(
            [str(PROGRAMS / "ucpc"), "check", "megatron"], cwd=self.folder, capture_output=True, text=True, timeout=60,
            check=False,
        )  # fmt: skip
        self.assertIn("there is no spec `megatron`", result.stderr)

    def test_none_that_fits(self) -> None:
        """The first reasons of those that come nearest, and no diagnostics of specs."""
        misspelt = self.llama().replace("self_attention.dense", "self_attn.dense")
        another = (SPECS / "megatron_deepspeed_gpt.ucp").read_text()
        unreadable = "ucp 1\nlayout x { 3 }\n"
        result = self.convert_with({"a": misspelt, "b": another, "c": another, "d": unreadable})
        self.assert_refused(
            result,
            1,
            "2 tensor-parallel ranks",
            "--spec",
            "`a`: no pattern matches the tensor `3.self_attention.dense.weight`",
            "`b`, `c`: no pattern matches the tensor `1.word_embeddings.weight`",
            "`d`: ",
        )
        self.assertEqual(result.stderr.count("\n"), 1)
        self.assertIn(
            "names no pattern for 3 of its 21 tensors, among them `3.self_attention.query_key_value.weight`",
            result.stderr,
        )

    def test_shapes_decide(self) -> None:
        """Names that fit are not enough."""
        rows = self.llama().replace(
            '"mlp.dense_4h_to_h.weight"               [hidden, ffn@tp]',
            '"mlp.dense_4h_to_h.weight"               [hidden@tp, ffn]',
        )
        self.assertNotEqual(rows, self.llama())
        self.assert_refused(self.convert_with({"a": rows}), 1, "`a`: ", "3.mlp.dense_4h_to_h.weight")

    def test_an_empty_catalogue(self) -> None:
        """The message still names what to write."""
        self.assert_refused(self.convert_with({}), 1, "--spec", "the catalogue is empty")


if __name__ == "__main__":
    unittest.main()
