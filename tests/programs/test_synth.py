"""`ucprun synth` and `verify --synth`: checkpoints whose every element can be computed."""

from __future__ import annotations

import json
import struct
import sys
import unittest
from pathlib import Path

from programs import GPT_SPEC, SOURCE, ProgramTest

sys.path.insert(0, str(SOURCE / "tests"))
from fixtures.synthetic import tensor_bytes

SIZES = ["layers=4", "hidden=16", "heads=4", "ffn=64", "vocab=101", "grain=16", "seq=8"]
SETTINGS = [word for size in SIZES for word in ("--set", size)]
SPEC = ["--spec", GPT_SPEC, *SETTINGS]
WORDS = "tied_modules.embed.word_embeddings.weight"
NATIVE = "deepspeed:pp=2,tp=2,dp=2,zero=1"


class Synth(ProgramTest):
    """The output, the differences that are found, and the refusals."""

    def synth(self, strategy: str, out: Path, *further: object) -> None:
        """A checkpoint of the small GPT."""
        result = self.run_program("ucprun", "synth", GPT_SPEC, out, "--to", strategy, *SETTINGS, *further)
        self.assertEqual(result.returncode, 0, result.stderr)

    def assert_synthetic(self, checkpoint: Path, *spec: object) -> None:
        """Every element is right."""
        result = self.run_program("ucprun", "verify", checkpoint, "--synth", *spec)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        self.assertIn("every element is what `synth` writes", result.stdout)

    def header(self, file: Path) -> tuple[dict[str, dict[str, list[int]]], int]:
        """Of a safetensors file, and where its data begins."""
        (size,) = struct.unpack("<Q", file.read_bytes()[:8])
        return json.loads(file.read_bytes()[8 : 8 + size]), 8 + size

    def test_the_elements_are_as_defined(self) -> None:
        self.synth("safetensors:states=all", self.out)
        seen = 0
        for file in self.out.glob("*.safetensors"):
            header, data = self.header(file)
            for name, entry in header.items():
                if name == "__metadata__" or "." not in name:
                    continue
                tensor, _, state = name.rpartition(".") if file.name.startswith("optimizer") else (name, "", "weight")
                begin, end = entry["data_offsets"]
                dtype, item = {"BF16": ("bfloat16", 2), "F32": ("float32", 4)}[str(entry["dtype"])]
                expected = tensor_bytes(tensor, state, (end - begin) // item, dtype)
                self.assertEqual(file.read_bytes()[data + begin : data + end], expected, name)
                seen += 1
        self.assertGreaterEqual(seen, 4 * 52)

    def test_every_format_and_every_conversion_of_it(self) -> None:
        self.synth(NATIVE, self.out)
        self.assert_synthetic(self.out, *SPEC)
        for number, strategy in enumerate(["universal", "safetensors", "deepspeed:pp=1,tp=4,dp=1,zero=1,dtype=fp16"]):
            with self.subTest(strategy=strategy):
                direct, converted = self.folder / f"direct{number}", self.folder / f"converted{number}"
                self.synth(strategy, direct)
                spec = SPEC if strategy.startswith("deepspeed") else []
                self.assert_synthetic(direct, *spec)
                result = self.run_program("ucprun", "convert", self.out, converted, "--to", strategy, *SPEC)
                self.assertEqual(result.returncode, 0, result.stderr)
                self.assert_synthetic(converted, *spec)

    def test_a_wrong_element_is_named_with_its_place(self) -> None:
        self.synth("universal", self.out)
        (file,) = self.out.glob(f"*/zero/{WORDS}/exp_avg.pt")
        content = bytearray(file.read_bytes())
        row = tensor_bytes(WORDS, "exp_avg", 16 * 3, "float32")
        place = content.find(row) + (2 * 16 + 5) * 4  # [2, 5]
        self.assertGreater(place, 148)
        content[place : place + 4] = struct.pack("<f", 0.5)
        content[place + 4000] ^= 1
        file.write_bytes(content)
        result = self.run_program("ucprun", "verify", self.out, "--synth")
        self.assertEqual(result.returncode, 3)
        (should_be,) = struct.unpack("<f", row[148:152])
        (bits,) = struct.unpack("<I", row[148:152])
        self.assertRegex(
            result.stderr,
            rf"different: {WORDS}\[2,5\] `exp_avg` is 0.5 \(0x3f000000\) and should be "
            rf"{should_be:.4g}\d* \(0x{bits:08x}\), in `[^`]*exp_avg.pt` at byte {place}; 2 of 1,616 elements wrong",
        )
        self.assertIn("is not what was written", result.stderr)
        as_json = self.run_program("ucprun", "verify", self.out, "--synth", "--json")
        self.assertIn(f"{WORDS}[2,5]", json.loads(as_json.stdout)["differences"][2])

    def test_a_wrong_weight_is_found_beside_right_masters(self) -> None:
        self.synth(NATIVE, self.out)
        (file,) = self.out.glob("*/layer_08-model_00-model_states.pt")
        content = bytearray(file.read_bytes())
        place = content.find(tensor_bytes("8.weight", "weight", 16, "bfloat16"))
        content[place + 6] ^= 1
        file.write_bytes(content)
        result = self.run_program("ucprun", "verify", self.out, "--synth", *SPEC)
        self.assertEqual(result.returncode, 3)
        self.assertRegex(result.stderr, r"1 weight of `8.weight` .* element \[3\] .*layer_08-model_00")

    def test_a_checkpoint_of_another_kind_is_all_wrong(self) -> None:
        result = self.run_program("ucprun", "verify", self.checkpoint("zero2_dp2"), "--synth")
        self.assertEqual(result.returncode, 3)
        self.assertIn("not what `synth` writes", result.stdout)
        self.assertIn("3 of 3 elements wrong", result.stderr)

    def test_the_order_of_the_parameters_is_checked(self) -> None:
        order = self.folder / "order"
        for text, words in [
            ("8.weight\n8.wait\n", ["order`:2", "no trained tensor `8.wait`", "nearest is `8.weight`"]),
            ("8.weight\n\n8.weight\n", ["order`:3", "`8.weight` stands twice"]),
            ("8.weight\n", ["does not name the parameter `3.input_layernorm.bias`", "1 of 52"]),
        ]:
            order.write_text(text)
            self.assert_refused(self.made("--to", NATIVE, "--parameters", order), 1, *words)
        self.assert_refused(self.made("--to", NATIVE, "--parameters", self.folder / "none"), 2, "none")

    def made(self, *arguments: object) -> object:
        """Asks for `out`."""
        return self.run_program("ucprun", "synth", GPT_SPEC, self.out, *SETTINGS, *arguments)

    def test_what_cannot_be_made_is_said(self) -> None:
        self.assert_refused(self.made("--to", NATIVE, "--tied-layer", "embed"), 1, "--tied-layer takes KEY=N")
        self.assert_refused(self.made("--to", NATIVE, "--tied-layer", "embed=3"), 1,
                            "`3.` and `tied_modules.embed.` cannot both be layer 3")  # fmt: skip
        for result in (
            self.made("--to", "deepspeed:pp=3,tp=1,dp=1,zero=1"),
            self.run_program("ucprun", "synth", GPT_SPEC, self.out, "--to", "universal"),
        ):
            self.assertEqual(result.returncode, 1)
            self.assertIn("`layers`", result.stderr)
            self.assert_nothing_left()


if __name__ == "__main__":
    unittest.main()
