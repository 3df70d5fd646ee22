"""A conversion to the very thing that the source is says so, in every format; any other one does not."""

from __future__ import annotations

import json
import unittest
from pathlib import Path

from programs import GPT_SPEC, ProgramTest, files_of

WORDS = "source and target have the same format, cuts and dtypes: a copy of the files has the same tensors"
# A fixture, its spec, a first target, and others: of another cut, dtype, number of ranks or format.
CASES: list[tuple[str, list[str], str, list[str]]] = [
    ("dcp/fsdp2", [], "dcp:fsdp=3", ["dcp:fsdp=2", "dcp:fsdp=3,dtype=bf16", "dcp:fsdp=3,states=weights", "universal"]),
    ("dcp/fsdp2", [], "dcp", ["dcp:fsdp=3"]),
    ("zero2_dp2", [], "deepspeed:dp=3,zero=1", ["deepspeed:dp=2,zero=1", "deepspeed:dp=3,zero=3"]),
    ("zero3_dp4", [], "deepspeed:dp=4,zero=3", ["deepspeed:dp=2,zero=3", "deepspeed:dp=4,zero=1"]),
    ("zero2_dp2", [], "safetensors:states=all", ["safetensors:dtype=bf16", "universal"]),
    ("zero2_dp2", [], "universal", ["safetensors"]),
    ("gpt_pp2_tp2_dp2", [str(GPT_SPEC)], "deepspeed:pp=2,tp=2,dp=2,zero=1", ["deepspeed:pp=2,tp=1,dp=4,zero=1"]),
]


class Same(ProgramTest):
    """The judge is the next conversion: where cuts are kept, it writes the same bytes of every tensor's files."""

    def convert_to(self, source: Path, spec: list[str], out: Path, to: str) -> tuple[bool, str]:
        """Whether the report says that cuts are kept, and the messages."""
        words = ["--spec", spec[0]] if spec else []
        report = self.run_program("ucprun", "convert", source, out, "--to", to, *words, "--json", "--dry-run")
        self.assertEqual(report.returncode, 0, report.stderr)
        text = self.run_program("ucprun", "convert", source, out, "--to", to, *words, "--dry-run").stdout
        kept = json.loads(report.stdout)["keeps_cuts"]
        self.assertEqual(f"same     {WORDS}" in text, kept, text)
        result = self.run_program("ucprun", "convert", source, out, "--to", to, *words)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(f"note: {WORDS}" in result.stderr, kept, result.stderr)
        return kept, result.stderr

    def test_every_format(self) -> None:
        for number, (fixture, spec, to, others) in enumerate(CASES):
            with self.subTest(fixture=fixture, to=to):
                folder = self.folder / str(number)
                folder.mkdir()
                self.convert_to(self.checkpoint(fixture), spec, folder / "first", to)
                kept, messages = self.convert_to(folder / "first", spec, folder / "second", to)
                self.assertTrue(kept, messages)
                before, after = files_of(folder / "first"), files_of(folder / "second")
                if spec:  # The headers of the second alone have patterns of names.
                    compared = self.run_program("ucprun", "diff", folder / "first", folder / "second")
                    self.assertIn("0 tensors differ", compared.stdout)
                    self.assertEqual(before.keys(), after.keys())
                else:
                    self.assertTrue(before == after, [name for name in before if before[name] != after.get(name)])
                for other in others:
                    self.assertFalse(self.convert_to(folder / "first", spec, folder / other, other)[0], other)
            self.folder.joinpath(fixture).rename(self.folder / f"used{number}")

    def test_what_the_real_programs_saved(self) -> None:
        """To the mesh that saved them."""
        for fixture, to in [("dcp/fsdp2", "dcp:fsdp=4"), ("zero3_dp4", "deepspeed:dp=4,zero=3")]:
            with self.subTest(fixture=fixture):
                self.assertTrue(self.convert_to(self.checkpoint(fixture), [], self.folder / to, to)[0])


if __name__ == "__main__":
    unittest.main()
