"""`ucpc explain` on a spec: at a checkpoint's degrees, at a strategy's, and alone."""

from __future__ import annotations

import json
import math
import subprocess
import unittest
from typing import Any

from programs import GPT_SPEC, ProgramTest, line_of

LLAMA_7B = (
    "--set",
    "layers=32",
    "--set",
    "hidden=4096",
    "--set",
    "heads=32",
    "--set",
    "ffn=11008",
    "--set",
    "vocab=32000",
)
SHAPES = """ucp 1
dim layers
mesh pp, dp, tp
layout shapes {
  "embed" [pad(101, 16 * tp)@tp, 8] at pp.first, pp.last
  block "layers.{i: layers@pp}" {
    "norm" [8]
    "up" [2 * (12@tp), 8]
    "down" [8, 12@tp]
  }
  buffer "positions" [5]
  tie "head" = "embed"
}
"""


class Explain(ProgramTest):
    """Each asks one question."""

    def explain(self, *arguments: object) -> subprocess.CompletedProcess[str]:
        """It must go well."""
        result = self.run_program("ucpc", "explain", *arguments)
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        return result

    def explain_json(self, *arguments: object) -> dict[str, Any]:
        """The explanation as a value."""
        value: dict[str, Any] = json.loads(self.explain(*arguments, "--json").stdout)
        return value

    def spec(self) -> str:
        """A spec with one tensor of each kind."""
        path = self.folder / "shapes.ucp"
        path.write_text(SHAPES)
        return str(path)

    def test_a_checkpoint(self) -> None:
        """Dims with their origin, holders with their files."""
        value = self.explain_json(GPT_SPEC, "--from", self.checkpoint("gpt_pp2_tp2_dp2"))
        self.assertEqual(value["mesh"], {"pp": 2, "dp": 2, "tp": 2})
        self.assertIn({"name": "hidden", "value": 16, "origin": "read from `args.hidden_size`"}, value["dims"])
        fused = next(t for t in value["tensors"] if t["name"] == "3.self_attention.query_key_value.weight")
        self.assertEqual((fused["pattern"], fused["stages"]), ("Shard-V", [0]))
        self.assertEqual(fused["line"], line_of("query_key_value.weight"))
        self.assertEqual(
            fused["holders"],
            [
                {"at": {"tp": 0}, "local": [24, 16], "box": "[0..24, 0..16]"},
                {"at": {"tp": 1}, "local": [24, 16], "box": "[24..48, 0..16]"},
            ],
        )
        self.assertEqual(
            fused["shards"][0],
            {
                "at": {"pp": 0, "tp": 0},
                "states": [{"names": ["weight"], "files": ["layer_03-model_00-model_states.pt"]}],
            },
        )

    def test_a_spec_alone(self) -> None:
        """One rank, every name and shape; the published number of parameters of Llama-2-7B."""
        value = self.explain_json("megatron_deepspeed_llama", *LLAMA_7B)
        self.assertEqual(value["totals"], {"tensors": 195, "parameters": 6_738_415_616, "buffers": 0, "ties": 0})
        self.assertEqual(sum(math.prod(tensor["shape"]) for tensor in value["tensors"]), 6_738_415_616)
        self.assertTrue(all(len(tensor["holders"]) == 1 for tensor in value["tensors"]))
        norm = next(t for t in value["tensors"] if t["name"] == "3.input_layernorm.weight")
        self.assertEqual((norm["pattern"], norm["why"]), ("Replicate", "whole on 2 ranks of tp (if tp=2)"))

    def test_patterns_and_totals(self) -> None:
        """Parameters, buffers and ties are counted apart."""
        value = self.explain_json(self.spec(), "--from", "deepspeed:pp=2,tp=2", "--set", "layers=4")
        patterns = {tensor["name"]: tensor["pattern"] for tensor in value["tensors"]}
        self.assertEqual(patterns["embed"], "Shard-V")
        self.assertEqual(patterns["layers.0.norm"], "Replicate")
        self.assertEqual(patterns["layers.0.up"], "Shard-NC")
        self.assertEqual(patterns["layers.0.down"], "Shard-H")
        self.assertEqual(
            value["totals"], {"tensors": 14, "parameters": 101 * 8 + 4 * (8 + 24 * 8 + 8 * 12), "buffers": 5, "ties": 1}
        )
        up = next(t for t in value["tensors"] if t["name"] == "layers.3.up")
        self.assertEqual(up["stages"], [1])
        self.assertEqual([holder["box"] for holder in up["holders"]], ["[0..6 12..18, 0..8]", "[6..12 18..24, 0..8]"])

    def test_layers_are_one_paragraph(self) -> None:
        """Unless they are asked for."""
        alone = ("--from", "deepspeed:pp=2,tp=2", "--set", "layers=4")
        text = self.explain(self.spec(), *alone).stdout
        self.assertIn("layers.{0-3}.up  x 4\n  pattern   Shard-NC: cut along dimension 0 over tp, in 2 pieces", text)
        self.assertIn("  stages    0, 1, each on one of them\n", text)
        self.assertEqual([line for line in text.splitlines() if len(line) > 80], [])
        self.assertIn("layers.2.up\n", self.explain(self.spec(), *alone, "--tensor", "*.up").stdout)

    def test_source_beside_target(self) -> None:
        """The same tensor, cut for both."""
        sides = ("--from", "deepspeed:tp=2", "--to", "deepspeed:tp=3")
        value = self.explain_json(self.spec(), *sides, "--set", "layers=1")
        down = next(t for t in value["tensors"] if t["name"] == "layers.0.down")
        self.assertEqual([holder["box"] for holder in down["holders"]], ["[0..8, 0..6]", "[0..8, 6..12]"])
        self.assertEqual(
            [holder["box"] for holder in down["target_holders"]], ["[0..8, 0..4]", "[0..8, 4..8]", "[0..8, 8..12]"]
        )
        text = self.explain(self.spec(), "--from", "deepspeed:tp=2", "--to", "universal", "--set", "layers=1").stdout
        self.assertIn("  target    every rank  [8, 12] local, elements [0..8, 0..12]\n", text)

    def test_no_affine_map_says_that_all_ranks_hold_an_expert(self) -> None:
        """An expert of its own name is on some ranks of `ep` only, whichever axis the map is of."""
        spec = self.folder / "experts.ucp"
        spec.write_text('ucp 1\nmesh dp, tp\nmesh edp, ep\nlayout x {\n  "e.{k: 4@ep}.w" [4]\n}\n')
        said = json.loads(self.explain(spec, "--from", "deepspeed:tp=2,dp=2,ep=2", "--affine").stdout)
        info = said.get("universal_checkpoint_info", said)
        self.assertEqual(info["affine_map"]["params"], {})
        self.assertEqual(len(info["autotp_unsupported_parameter_patterns"]), 4)

    def test_uneven_and_virtual_stages(self) -> None:
        """Layers by stage; with two chunks on each of two stages, chunk 2 is on stage 0 again."""
        for strategy, wanted in (("pp=2+1", [[0], [0], [1]]), ("pp=1+0+1+1,interleave=2", [[0], [0], [1]])):
            value = self.explain_json(self.spec(), "--from", f"deepspeed:{strategy}", "--set", "layers=3")
            stages = [t["stages"] for t in value["tensors"] if t["name"].endswith(".norm")]
            self.assertEqual(stages, wanted, strategy)

    def test_what_is_refused(self) -> None:
        """One sentence, and the exit code of a wrong command line."""
        for arguments, words in (
            (("--from", "deepspeed:tp=0", "--set", "layers=1"), "`tp` in a strategy of the format `deepspeed`"),
            (("--from", "deepspeed:tp=3000000", "--set", "layers=1"), "not `3000000`"),
            (("--from", "deepspeed:pp=2+1", "--set", "layers=4"), "4"),
            (("--from", "deepspeed:tq=2", "--set", "layers=1"), "did you mean `tp`?"),
            (("--from", "depspeed:tp=2", "--set", "layers=1"), "depspeed:tp=2"),
            (("--set", "layers=1", "--tensor", "nothing"), "no tensor's name fits `nothing`"),
            (("--set", "layers=1", "--to", "deepspeed:tp=5"), "12"),
        ):
            result = self.run_program("ucpc", "explain", self.spec(), *arguments)
            self.assertIn(result.returncode, (1, 2), result.stderr)
            self.assertIn(words, result.stderr)
        self.assert_refused(self.run_program("ucpc", "explain"), 1, "name a spec")


if __name__ == "__main__":
    unittest.main()
