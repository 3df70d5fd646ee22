"""`ucprun trace`: the bytes that it points at are the elements that the running engine held (truth.json)."""

from __future__ import annotations

import hashlib
import itertools
import json
import struct
import unittest
from pathlib import Path

from programs import GPT_SPEC, SOURCE, ProgramTest, line_of

GPT = "gpt_pp2_tp2_dp2"
ITEM_BYTES = {"float32": 4, "bfloat16": 2, "float16": 2}


def truth_of(case: str) -> dict[str, dict[str, object]]:
    """Shape and fingerprint of each tensor, gathered from the engine's memory when the fixture was made."""
    return json.loads((SOURCE / "tests" / "fixtures" / case / "truth.json").read_text())["tensors"]


def bytes_at(folder: Path, place: dict[str, object]) -> bytes:
    """The value that really lies there."""
    with (folder / str(place["file"])).open("rb") as file:
        file.seek(int(place["offset"]))
        return file.read(ITEM_BYTES[str(place["dtype"])])


def bits_of(value: str) -> bytes:
    """The bits of `0.25 (0x3e800000)`, as the file has them."""
    digits = value.rpartition("0x")[2].rstrip(")")
    return bytes.fromhex(digits)[::-1]


class Trace(ProgramTest):
    """One element after the other."""

    def trace(self, source: Path, element: str, *arguments: object, code: int = 0) -> dict[str, object]:
        """The report."""
        result = self.run_program("ucprun", "trace", source, element, "--json", *arguments)
        self.assertEqual(result.returncode, code, result.stderr)
        return json.loads(result.stdout)

    def gathered(self, folder: Path, name: str, shape: list[int], *arguments: object) -> dict[str, bytes]:
        """Every state of a tensor, element by element, from the files at the places that are named."""
        states: dict[str, bytes] = {}
        for index in itertools.product(*map(range, shape)):
            report = self.trace(folder.parent, f"{name}[{','.join(map(str, index))}]", *arguments)
            for copy in report["source"]:
                there = bytes_at(folder, copy)
                self.assertEqual(bits_of(copy["value"]), there)
                if copy["role"] == "copy":
                    states[copy["state"]] = states.get(copy["state"], b"") + there
                else:
                    self.assertTrue(copy["agrees"], copy)
        return states

    def test_every_element_is_where_it_is_said_to_be(self) -> None:
        """Cut over tp, fused, in partitions of ZeRO 1 and 3, and over ep: as the engine's memory had it."""
        for case, name, spec in (
            (GPT, "3.mlp.dense_h_to_4h.bias", ["--spec", GPT_SPEC]),
            (GPT, "3.self_attention.query_key_value.bias", ["--spec", GPT_SPEC]),
            (GPT, "3.input_layernorm.weight", ["--spec", GPT_SPEC]),
            ("zero3_dp4", "blocks.0.down.bias", []),
            ("zero2_dp2", "blocks.0.norm.weight", []),
            ("moe_pp2_ep2_dp4", "2.moe.deepspeed_moe.experts.deepspeed_experts.3.down.bias", []),
        ):
            with self.subTest(case=case, name=name):
                root = SOURCE / "tests" / "fixtures" / case / "checkpoint"
                (folder,) = (path for path in root.iterdir() if path.is_dir())
                truth = truth_of(case)[name]
                states = self.gathered(folder, name, truth["shape"], *spec)
                found = {state: hashlib.sha256(content).hexdigest() for state, content in states.items()}
                expected = {state: entry["sha256"] for state, entry in truth["states"].items()}
                self.assertEqual(found, expected)

    def test_where_a_conversion_takes_it(self) -> None:
        """By --to and by --plan: the written files have the stated value at the stated byte."""
        source = self.checkpoint(GPT)
        for number, target in enumerate(("universal", "deepspeed:tp=4,pp=1,dp=3,zero=1", "safetensors:dtype=bf16")):
            out = self.folder / f"out{number}"
            plan = self.folder / f"{number}.plan"
            made = self.run_program("ucpc", "plan", GPT_SPEC, "--from", source, "--to", target, "-o", plan)
            self.assertEqual(made.returncode, 0, made.stderr)
            ran = self.run_program("ucprun", "run", plan, out, "--from", source)
            self.assertEqual(ran.returncode, 0, ran.stderr)
            for element in ("3.mlp.dense_4h_to_h.weight[3,40]", "tied_modules.embed.word_embeddings.weight[100,15]"):
                with self.subTest(target=target, element=element):
                    report = self.trace(source, element, "--spec", GPT_SPEC, "--to", target)
                    self.assertEqual(report, self.trace(source, element, "--plan", plan))
                    self.assertTrue(report["target"])
                    for place in report["target"]:
                        self.assertEqual(bytes_at(out, place), bits_of(place["value"]))
                    (master,) = (copy for copy in report["source"] if (copy["state"], copy["role"]) == ("fp32", "copy"))
                    for place in report["target"]:
                        if place["from"] == "fp32" and place["dtype"] == "float32":
                            self.assertEqual(place["value"], master["value"])

    def test_the_text_names_file_byte_rank_and_line(self) -> None:
        source = self.checkpoint(GPT)
        result = self.run_program(
            "ucprun",
            "trace",
            source,
            "3.mlp.dense_4h_to_h.weight[3,40]",
            "--spec",
            GPT_SPEC,
            "--to",
            "safetensors:dtype=bf16",
        )
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        line = line_of('"mlp.dense_4h_to_h.weight"')
        self.assertIn(f"tensor   3.mlp.dense_4h_to_h.weight [16, 64], {GPT_SPEC.name}:{line}\n", result.stdout)
        self.assertRegex(
            result.stdout,
            r"  fp32 +copy +\S+ \(0x\w{8}\) +float32 "
            r"+bf16_zero_pp_rank_1_mp_rank_01_optim_states.pt byte \d+, pp=0 tp=1 dp=1\n",
        )
        self.assertRegex(
            result.stdout,
            r"  weight +from fp32, cast from float32 to bfloat16 +\S+ \(0x\w{4}\) "
            r"+bfloat16 +model.safetensors byte \d+\n",
        )
        self.assertIn("all that are compared agree", result.stdout)

    def test_copies_that_differ(self) -> None:
        """A replica's byte is changed where the report says that it lies."""
        source = self.checkpoint(GPT)
        element = "3.input_layernorm.weight[7].exp_avg"
        report = self.trace(source, element, "--spec", GPT_SPEC)
        (replica,) = (copy for copy in report["source"] if copy["role"] == "compare")
        path = source / "global_step4" / replica["file"]
        content = bytearray(path.read_bytes())
        (old,) = struct.unpack_from("<f", content, replica["offset"])
        struct.pack_into("<f", content, replica["offset"], old + 1)
        path.write_bytes(content)
        report = self.trace(source, element, "--spec", GPT_SPEC, code=3)
        self.assertEqual([copy.get("agrees") for copy in report["source"]], [None, False])
        self.assertAlmostEqual(float(report["source"][1]["value"].split()[0]), old + 1, places=6)
        result = self.run_program("ucprun", "trace", source, element, "--spec", GPT_SPEC)
        self.assertEqual(result.returncode, 3)
        self.assertIn(": not the same\n", result.stdout)
        self.assertIn("copies   1 is not what it should be\n", result.stdout)

    def test_copies_that_nobody_reads_are_shown(self) -> None:
        """The last stage's positions, which the spec declares unused."""
        element = "tied_modules.embed.position_embeddings.weight[5,5]"
        report = self.trace(self.checkpoint(GPT), element, "--spec", GPT_SPEC)
        unused = [copy for copy in report["source"] if copy["role"] == "unused"]
        self.assertTrue(unused)
        for copy in unused:
            self.assertEqual(copy["rank"]["pp"], 1)
            self.assertIn("declared unused on stage 1", copy["note"])

    def test_what_is_wrong_is_said(self) -> None:
        source = self.checkpoint("zero3_dp4")
        for element, *words in (
            ("blocks.0.up.weight[50,0]", "has the shape [50, 33], so there is no element [50, 0]"),
            ("blocks.0.up.wieght[0,0]", "no tensor `blocks.0.up.wieght`", "`blocks.0.up.weight`"),
            ("blocks.0.up.weight[0,0].step", "no state `step`; it has exp_avg, exp_avg_sq, fp32"),
            ("blocks.0.up.weight", "names no element"),
        ):
            self.assert_refused(self.run_program("ucprun", "trace", source, element), 1, *words)
        plan = self.folder / "other.plan"
        other = self.checkpoint("zero2_dp2")
        self.run_program("ucpc", "plan", "--from", other, "--to", "universal", "-o", plan)
        element = "blocks.0.up.weight[0,0]"
        self.assert_refused(self.run_program("ucprun", "trace", source, element, "--plan", plan), 2, "the plan reads `")
        self.assert_refused(
            self.run_program("ucprun", "trace", other, element, "--plan", plan, "--to", "universal"),
            1,
            "goes with neither --to nor",
        )


if __name__ == "__main__":
    unittest.main()
