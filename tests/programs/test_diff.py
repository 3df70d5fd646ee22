"""`ucprun diff`: differences that were made on purpose are found with their place, and measured as they are."""

from __future__ import annotations

import json
import math
import shutil
import struct
import unittest
from pathlib import Path

from programs import GPT_SPEC, MANIFEST, ProgramTest

GPT = "gpt_pp2_tp2_dp2"
WITH_SPEC = ["--spec", GPT_SPEC]


class Diff(ProgramTest):
    """Two checkpoints."""

    def diff(self, a: Path, b: Path, *arguments: object, code: int = 3) -> dict[str, object]:
        """The report."""
        result = self.run_program("ucprun", "diff", a, b, "--json", *arguments)
        self.assertEqual(result.returncode, code, result.stderr)
        return json.loads(result.stdout)

    def universal(self, source: Path, *arguments: object) -> Path:
        """A converted copy, whose files may be changed."""
        self.assertEqual(self.convert(source, *arguments).returncode, 0)
        return self.out

    def set_number(self, folder: Path, tensor: str, state: str, number: int, value: float) -> float:
        """Changes element `number` of a tensor in a universal folder; what it was."""
        (path,) = folder.rglob(f"zero/{tensor}/{state}.pt")
        result = self.run_program("ucprun", "inspect", folder, "--tensor", tensor, "--json")
        (entry,) = json.loads(result.stdout)["tensors"]
        size = 4 * math.prod(entry["shape"])
        content = bytearray(path.read_bytes())
        begin = self.data_begin(content, size)
        (old,) = struct.unpack_from("<f", content, begin + 4 * number)
        struct.pack_into("<f", content, begin + 4 * number, value)
        path.write_bytes(content)
        return old

    def data_begin(self, content: bytearray, size: int) -> int:
        """Where the record of this size stands in a zip file: behind the local header of its only `data/` entry."""
        at = content.index(b"/data/0")
        header = content.rindex(b"PK\x03\x04", 0, at)
        name_bytes, extra_bytes = struct.unpack_from("<HH", content, header + 26)
        begin = header + 30 + name_bytes + extra_bytes
        self.assertLessEqual(begin + size, len(content))
        return begin

    def test_layouts_of_the_same_are_the_same(self) -> None:
        """Native, universal and native again on other ranks: no element differs."""
        source = self.checkpoint(GPT)
        universal = self.universal(source, *WITH_SPEC)
        native = self.folder / "native"
        strategy = "deepspeed:tp=4,pp=1,dp=3,zero=1"
        self.run_program("ucprun", "convert", universal, native, "--to", strategy, *WITH_SPEC)
        for a, b, arguments, by_digest in (
            (source, universal, [], 0),
            (native, source, ["--threads", "3", "--memory", "64MiB"], 0),
            (universal, native, [], 52),
            (universal, native, ["--read-all"], 0),
        ):
            with self.subTest(a=a.name, b=b.name, arguments=arguments):
                report = self.diff(a, b, *WITH_SPEC, *arguments, code=0)
                self.assertEqual((report["same"], report["same_by_digest"], report["tensors"]), (52, by_digest, []))
        result = self.run_program("ucprun", "diff", source, universal, *WITH_SPEC)
        self.assertEqual((result.stdout.splitlines()[4:], result.stderr), (["0 tensors differ, 52 are the same"], ""))

    def test_made_differences_are_measured(self) -> None:
        """Three elements of one state of one tensor, against sums that are made here."""
        source = self.checkpoint(GPT)
        other = self.universal(source, *WITH_SPEC)
        tensor, columns = "3.mlp.dense_4h_to_h.weight", 64
        steps = {(0, 5): 0.5, (3, 40): -2.0, (15, 63): 0.25}
        made = []
        for (row, column), step in steps.items():
            number = row * columns + column
            old = self.set_number(other, tensor, "exp_avg", number, 0.0)
            self.set_number(other, tensor, "exp_avg", number, old + step)
            made.append((old, struct.unpack("<f", struct.pack("<f", old + step))[0]))
        report = self.diff(source, other, *WITH_SPEC, "--ignore-crc")
        self.assertEqual((report["differ"], report["same"]), (1, 51))
        (found,) = report["tensors"]
        self.assertEqual((found["name"], found["shape_a"]), (tensor, [16, 64]))
        (state,) = found["states"]
        self.assertEqual((state["a"], state["elements"]), ({"state": "exp_avg", "dtype": "float32"}, 1024))
        self.assertEqual((state["differ"], state["not_finite"]), (3, 0))
        self.assertAlmostEqual(state["norm"], math.sqrt(sum((a - b) ** 2 for a, b in made)), places=12)
        self.assertEqual(state["first"]["at"], [0, 5])
        self.assertEqual(state["largest"]["at"], [3, 40])
        self.assertAlmostEqual(state["largest"]["difference"], abs(made[1][0] - made[1][1]), places=12)
        self.assertTrue(state["largest"]["b"].endswith(f"(0x{struct.pack('>f', made[1][1]).hex()})"))

        (path,) = other.rglob(f"zero/{tensor}/exp_avg.pt")
        content = bytearray(path.read_bytes())
        begin = self.data_begin(content, 4096)
        numbers = list(struct.unpack_from("<1024f", content, begin))
        for (row, column), (old, _) in zip(steps, made, strict=True):
            numbers[row * columns + column] = old
        self.assertAlmostEqual(state["norm_of_a"], math.sqrt(sum(number * number for number in numbers)), places=12)

        result = self.run_program("ucprun", "diff", source, other, *WITH_SPEC, "--ignore-crc")
        lines = result.stdout.splitlines()[4:]
        self.assertEqual(lines[:3], [f"--- {source}", f"+++ {other}", f"@@ {tensor} [16, 64] @@"])
        self.assertRegex(
            lines[3],
            r"^ exp_avg float32: 3 of 1,024 elements differ; norm of the difference 2\.07\d+, "
            r"\S+ of the first's; largest 2 at \[3, 40\]$",
        )
        self.assertRegex(lines[4], r"^-  \S+ \(0x\w{8}\)$")
        self.assertRegex(lines[5], r"^\+  \S+ \(0x\w{8}\)$")
        self.assertEqual(lines[6:], ["1 tensor differs, 51 are the same"])

    def test_what_is_no_number_is_counted_by_itself(self) -> None:
        other = self.universal(self.checkpoint("zero2_dp2"))
        same = self.folder / "same"
        shutil.copytree(other, same)
        for number, value in enumerate((math.nan, math.inf, 7.0)):
            self.set_number(other, "blocks.0.down.bias", "fp32", number, value)
        for folder in (other, same):  # The same value in both is not a difference.
            self.set_number(folder, "blocks.0.down.bias", "fp32", 3, math.nan)
        report = self.diff(same, other, "--read-all", "--ignore-crc")
        (state,) = report["tensors"][0]["states"]
        self.assertEqual((state["differ"], state["not_finite"]), (3, 2))
        self.assertEqual((state["first"]["at"], state["largest"]["at"]), ([0], [2]))
        self.assertTrue(math.isfinite(state["norm"]) and math.isfinite(state["norm_of_a"]))

    def test_weights_are_held_against_masters(self) -> None:
        """A folder of bfloat16 weights beside its source: every element is the rounding, and none is more off."""
        source = self.checkpoint(GPT)
        weights = self.folder / "weights"
        self.run_program("ucprun", "convert", source, weights, "--to", "safetensors:dtype=bf16", *WITH_SPEC)
        report = self.diff(source, weights, *WITH_SPEC, code=0)
        self.assertEqual((report["differ"], report["same"], report["equal_by_cast"]), (0, 0, 52))
        self.assertEqual(report["states_beyond_weights"], 2 * 52)
        for tensor in report["tensors"]:
            kinds = {(state.get("a", {}).get("state"), state.get("b", {}).get("state")) for state in tensor["states"]}
            self.assertEqual(kinds, {("fp32", "weight")})
            (pair,) = (state for state in tensor["states"] if "b" in state)
            self.assertEqual((pair["a"]["dtype"], pair["b"]["dtype"]), ("float32", "bfloat16"))
            self.assertEqual(pair["not_cast"], 0)
            if pair["differ"]:
                self.assertLessEqual(pair["norm"], pair["norm_of_a"] * 2**-8)
        result = self.run_program("ucprun", "diff", source, weights, *WITH_SPEC)
        self.assertEqual(result.returncode, 0)
        self.assertIn(
            ", 52 are equal by declared cast, 0 are the same; one side holds weights alone, and has not 104 states of ",
            result.stdout,
        )

    def test_what_one_side_lacks(self) -> None:
        """Other models: tensors of one alone, and of another shape."""
        report = self.diff(self.checkpoint("zero2_dp2"), self.checkpoint("moe_ep2_dp4"))
        self.assertGreater(report["only_in_a"], 0)
        self.assertGreater(report["only_in_b"], 0)
        self.assertEqual(
            report["only_in_a"] + report["only_in_b"] + report["differ"] + report["same"],
            len(report["tensors"]) + report["same"],
        )
        result = self.run_program("ucprun", "diff", self.folder / "zero2_dp2", self.folder / "moe_ep2_dp4")
        self.assertRegex(result.stdout, r"\n-blocks\.0\.down\.bias \[33\] exp_avg float32, exp_avg_sq float32, fp32 ")
        self.assertIn(f" only in {self.folder / 'zero2_dp2'}", result.stdout)

    def test_digests_of_other_files_are_not_believed(self) -> None:
        """A file that has grown, and one that the manifest does not know: all is read."""
        a = self.universal(self.checkpoint("zero2_dp2"))
        b = self.folder / "b"
        shutil.copytree(a, b)
        self.assertEqual(self.diff(a, b, code=0)["same_by_digest"], 17)
        manifest = json.loads((b / MANIFEST).read_text())
        manifest["files"] = [entry for entry in manifest["files"] if not entry["path"].endswith("exp_avg.pt")]
        (b / MANIFEST).write_text(json.dumps(manifest))
        report = self.diff(a, b, code=0)
        self.assertEqual((report["same"], report["same_by_digest"]), (17, 0))

    def test_some_tensors_alone(self) -> None:
        """And no other byte is read: a damaged file of another tensor is not noticed."""
        source = self.checkpoint("zero2_dp2")
        other = self.universal(source)
        self.set_number(other, "tone", "fp32", 1, 5.0)
        self.assertEqual(self.run_program("ucprun", "diff", source, other).returncode, 2)
        report = self.diff(source, other, "--tensor", "blocks.0.up.*", code=0)
        self.assertEqual(report["same"], 2)
        result = self.run_program("ucprun", "diff", source, other, "--tensor", "nothing*")
        self.assertEqual(result.returncode, 1)
        self.assertIn("has a name that fits `nothing*`", result.stderr)

    def test_damage_is_an_error(self) -> None:
        source = self.checkpoint("zero2_dp2")
        (optimizer, *_) = sorted(source.rglob("*optim_states.pt"))
        content = bytearray(optimizer.read_bytes())
        content[len(content) // 2] ^= 0x10
        optimizer.write_bytes(content)
        result = self.run_program("ucprun", "diff", source, self.checkpoint("zero1_dp2"))
        self.assertEqual(result.returncode, 2)
        self.assertIn(optimizer.name, result.stderr)
        self.assertEqual(len(result.stderr.splitlines()), 1)


if __name__ == "__main__":
    unittest.main()
