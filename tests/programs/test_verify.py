"""`ucprun verify`: files against the manifest, and checkpoints of different layouts against one another."""

from __future__ import annotations

import json
import os
import shutil
import struct
import unittest
import zipfile
from pathlib import Path

from linear_collision import FORGED, WEIGHTS, elements

from programs import GPT_SPEC, MANIFEST, SOURCE, ProgramTest

GPT = "gpt_pp2_tp2_dp2"


class Verify(ProgramTest):
    """The files that were written, and their fate."""

    def universal(self, case: str = "zero2_dp2") -> Path:
        """A fixture's checkpoint and its universal form, in `out`."""
        source = self.checkpoint(case)
        spec = ["--spec", GPT_SPEC] if case == GPT else []
        self.assertEqual(self.convert(source, *spec).returncode, 0)
        return source

    def flip(self, path: Path, place: int) -> None:
        """One bit of a file."""
        content = bytearray(path.read_bytes())
        content[place] ^= 0x10
        path.write_bytes(content)

    def state_file(self, state: str) -> Path:
        """Of the largest parameter in `out`."""
        return max(self.out.rglob(f"{state}.pt"), key=lambda path: (path.stat().st_size, path))

    def test_what_was_written_is_as_it_was_written(self) -> None:
        self.universal()
        result = self.run_program("ucprun", "verify", self.out)
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        self.assertIn(": as they were written", result.stdout)
        self.assertIn(": as in the manifest", result.stdout)

    def test_masters_and_weights_of_a_native_checkpoint(self) -> None:
        """Both are cut alike, and each state has a digest of its own numbers."""
        source = self.checkpoint("zero2_dp4")
        result = self.run_program("ucprun", "convert", source, self.out, "--to", "deepspeed:dp=2,zero=1")
        self.assertEqual(result.returncode, 0, result.stderr)
        result = self.run_program("ucprun", "verify", self.out)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn(": as in the manifest", result.stdout)

    def test_the_folder_of_a_tag_will_do(self) -> None:
        self.universal()
        (tag,) = (path for path in self.out.iterdir() if path.is_dir())
        result = self.run_program("ucprun", "verify", tag)
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        self.assertIn(": as they were written", result.stdout)

    def test_a_flipped_bit_is_found_wherever_it_lies(self) -> None:
        self.universal()
        path = self.state_file("exp_avg")
        size = path.stat().st_size
        for place in (0, size // 3, size // 2, size - 1):
            with self.subTest(place=place):
                self.flip(path, place)
                result = self.run_program("ucprun", "verify", self.out)
                self.assertEqual(result.returncode, 3)
                self.assertIn(f"`{path.relative_to(self.out)}` is not what was written", result.stderr)
                self.assertEqual(len(result.stderr.splitlines()), 1)
                self.flip(path, place)

    def test_missing_and_shortened_files_are_named(self) -> None:
        self.universal()
        (self.out / "latest_universal").unlink()
        path = self.state_file("fp32")
        path.write_bytes(path.read_bytes()[:-1])
        result = self.run_program("ucprun", "verify", self.out)
        self.assertEqual(result.returncode, 3)
        self.assertIn("`latest_universal` is missing", result.stderr)
        self.assertIn("and had", result.stderr)

    def test_layouts_of_the_same_are_the_same(self) -> None:
        source = self.universal(GPT)
        native = self.folder / "native"
        strategy = "deepspeed:tp=4,pp=1,dp=3,zero=1"
        self.run_program("ucprun", "convert", self.out, native, "--to", strategy, "--spec", GPT_SPEC)
        for a, b in ((source, self.out), (self.out, native), (native, source)):
            with self.subTest(a=a.name, b=b.name):
                result = self.run_program("ucprun", "verify", a, "--same", b, "--spec", GPT_SPEC)
                self.assertEqual((result.returncode, result.stderr), (0, ""))
                self.assertIn("bit for bit the same", result.stdout)

    def test_the_tensor_that_differs_is_named(self) -> None:
        """One bit of one element, in a file whose checksum is left alone."""
        source = self.universal()
        changed = self.folder / "changed"
        shutil.copytree(self.out, changed)
        (changed / MANIFEST).unlink()
        path = max(changed.rglob("exp_avg_sq.pt"), key=lambda found: (found.stat().st_size, found))
        self.flip(path, path.stat().st_size // 2)
        result = self.run_program("ucprun", "verify", source, "--same", changed, "--ignore-crc")
        self.assertEqual(result.returncode, 3, result.stderr)
        (line,) = result.stderr.splitlines()
        self.assertIn(f"`{path.parent.name}` exp_avg_sq differs: float32 ", line)

    def test_what_one_side_lacks_is_named(self) -> None:
        source = self.universal()
        other = self.folder / "other"
        self.run_program("ucprun", "convert", source, other, "--to", "safetensors:states=all")
        result = self.run_program("ucprun", "verify", source, "--same", other, "--json")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(json.loads(result.stdout)["differences"], [])
        content = struct.pack("<2f", 1, 2)
        more = self.write_tensors("more", {name: ("F32", [2], content) for name in "vw"})
        fewer = self.write_tensors("fewer", {"w": ("F32", [2], content)})
        self.assertEqual(self.same(fewer, more, code=3)["differences"], [f"`v` weight is only in {more}"])

    def write_tensors(self, name: str, tensors: dict[str, tuple[str, list[int], bytes]]) -> Path:
        """A folder with one file in safetensors' format: of each tensor its dtype, its shape and its bytes."""
        header, data = {}, b""
        for tensor, (dtype, shape, content) in tensors.items():
            header[tensor] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(content)]}
            data += content
        text = json.dumps(header).encode()
        (self.folder / name).mkdir()
        (self.folder / name / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + data)
        return self.folder / name

    def same(self, a: Path, b: Path, *options: object, code: int = 0) -> dict[str, object]:
        """The report of one checkpoint held against another."""
        result = self.run_program("ucprun", "verify", a, "--same", b, "--json", *options)
        self.assertEqual(result.returncode, code, result.stderr)
        return json.loads(result.stdout)

    def test_the_same_numbers_in_another_shape_are_not_the_same(self) -> None:
        content = struct.pack("<6f", *range(6))
        a = self.write_tensors("a", {"w": ("F32", [2, 3], content)})
        b = self.write_tensors("b", {"w": ("F32", [3, 2], content)})
        for options in ([], ["--bytes"]):
            report = self.same(a, b, *options, code=3)
            self.assertEqual(report["differences"], [f"`w` differs: its shape is [2, 3] in {a}, [3, 2] in {b}"])
            self.assertEqual(report["same"]["result"], "different")

    def test_elements_that_the_first_version_of_digests_could_not_tell_apart(self) -> None:
        """Small changes of many elements made up for a large one of the first in sums that were linear."""
        contents = [elements(digits) for digits in (WEIGHTS, FORGED)]
        changed = sum(x != y for x, y in zip(*(struct.iter_unpack("<I", content) for content in contents), strict=True))
        sides = [
            self.write_tensors(name, {"w": ("F32", [len(content) // 4], content)})
            for name, content in zip("ab", contents, strict=True)
        ]
        for options in ([], ["--bytes"]):
            report = self.same(*sides, *options, code=3)
            (line,) = report["differences"]
            self.assertTrue(line.startswith("`w` weight differs"), line)
        self.assertIn(f" {changed} of ", line)

    def test_one_element_is_found_by_its_bytes(self) -> None:
        source = self.universal()
        self.assertEqual(self.same(source, self.out, "--bytes")["same"]["compared"], "elements")
        path = max(self.out.rglob("exp_avg_sq.pt"), key=lambda found: (found.stat().st_size, found))
        self.flip(path, path.stat().st_size // 2)
        (self.out / MANIFEST).unlink()
        report = self.same(source, self.out, "--bytes", "--ignore-crc", code=3)
        (line,) = report["differences"]
        self.assertIn(f"`{path.parent.name}` exp_avg_sq differs in 1 of ", line)

    def test_rounded_weights_are_equal_by_cast_and_wrong_ones_are_not(self) -> None:
        source = self.checkpoint("zero2_dp2")
        for dtype, name in (("bf16", "bfloat16"), ("fp16", "float16"), ("fp32", "float32")):
            weights = self.folder / dtype
            result = self.run_program("ucprun", "convert", source, weights, "--to", f"safetensors:dtype={dtype}")
            self.assertEqual(result.returncode, 0, result.stderr)
            same = self.same(source, weights)["same"]
            self.assertEqual(same["result"], "same" if dtype == "fp32" else "cast")
            self.assertEqual({state["to_dtype"] for state in same["states_cast"]}, set() if dtype == "fp32" else {name})
            self.assertEqual({state["state"] for state in same["states_beyond_weights"]}, {"exp_avg", "exp_avg_sq"})
        text = self.run_program("ucprun", "verify", source, "--same", self.folder / "bf16").stdout
        self.assertIn("equal by declared cast: ", text)
        self.assertIn("not compared, since the other holds weights alone: ", text)
        path = self.folder / "bf16" / "model.safetensors"
        content = bytearray(path.read_bytes())
        content[-2] ^= 1  # The last place of the last weight: another rounding.
        path.write_bytes(content)
        (line,) = self.same(source, self.folder / "bf16", code=3)["differences"]
        self.assertRegex(line, r"^`.*` weight in .*bf16 is not fp32 float32 in .*, cast to bfloat16, in 1 of ")

    def test_a_manifest_of_the_first_version_is_read(self) -> None:
        """ucp 0.1.0 wrote it, of this very conversion, before digests had their second version."""
        source = self.checkpoint("zero2_dp2")
        self.run_program("ucprun", "convert", source, self.out, "--to", "safetensors:states=all")
        old = SOURCE / "tests" / "fixtures" / "manifests" / "version_1_safetensors.json"
        shutil.copy(old, self.out / MANIFEST)
        result = self.run_program("ucprun", "verify", self.out, "--json")
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        report = json.loads(result.stdout)
        self.assertEqual((report["differences"], report["digest_version"]), ([], 1))
        self.assertEqual(self.same(self.out, source)["same"]["compared"], "elements")
        path = self.out / "model.safetensors"
        self.flip(path, path.stat().st_size - 4)
        result = self.run_program("ucprun", "verify", self.out)
        self.assertEqual(result.returncode, 3)
        self.assertIn("`model.safetensors` is not what was written", result.stderr)

    def test_without_a_manifest_it_is_read_all_the_same(self) -> None:
        source = self.checkpoint("zero2_dp2")
        result = self.run_program("ucprun", "verify", source)
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        self.assertIn(f"no {MANIFEST}", result.stdout)
        (optimizer, *_) = sorted(source.rglob("*optim_states.pt"))
        self.flip(optimizer, optimizer.stat().st_size // 2)
        result = self.run_program("ucprun", "verify", source)
        self.assertEqual(result.returncode, 2)
        self.assertIn(optimizer.name, result.stderr)

    def test_weights_that_are_not_their_masters_are_named(self) -> None:
        """The largest record of the model's file is a weight; the lowest byte of one of its numbers is another."""
        source = self.checkpoint("zero2_dp2")
        (model,) = source.rglob("mp_rank_00_model_states.pt")
        with zipfile.ZipFile(model) as archive:
            record = max(archive.infolist(), key=lambda info: "/data/" in info.filename and info.file_size)
            place = model.read_bytes().index(archive.read(record))
        self.flip(model, place)
        result = self.run_program("ucprun", "verify", source, "--ignore-crc")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertRegex(result.stderr, r"warning: .* are not the rounding of their masters in 1 element\. First: ")

    def test_a_broken_manifest_is_an_error(self) -> None:
        self.universal()
        path = self.out / MANIFEST
        path.write_text(path.read_text()[:-20])
        result = self.run_program("ucprun", "verify", self.out)
        self.assertEqual(result.returncode, 2)
        self.assertIn(MANIFEST, result.stderr)

    def test_a_manifest_that_is_no_file_is_an_error(self) -> None:
        """It is not taken for one that is absent."""
        self.assert_done(self.convert(self.checkpoint("zero1_dp2")))
        manifest = self.out / "ucp_manifest.json"
        manifest.unlink()
        for make in (lambda: manifest.symlink_to("nowhere"), lambda: os.mkfifo(manifest)):
            make()
            result = self.run_program("ucprun", "verify", self.out)
            self.assertEqual(
                (result.returncode, result.stderr), (2, f"ucprun: error: `{manifest}` is not a regular file\n")
            )
            manifest.unlink()

    def test_the_manifest_does_not_depend_on_who_wrote_it(self) -> None:
        source = self.universal()
        written = (self.out / MANIFEST).read_text()
        self.assertNotIn(str(self.folder), written)
        for threads in (1, 5):
            shutil.rmtree(self.out)
            self.convert(source, "--threads", threads, "--memory", "64MiB")
            self.assertEqual((self.out / MANIFEST).read_text(), written)


if __name__ == "__main__":
    unittest.main()
