"""`ucprun inspect`: which checkpoint it is, layers in groups, honest kinds; and `--objects`, a scanner of pickles."""

from __future__ import annotations

import json
import math
import pickle
import unittest
import zipfile

from programs import ProgramTest


class Command:
    """The objects that a hostile file would run."""

    def __reduce__(self) -> tuple[object, tuple[str]]:
        """The command only makes a file."""
        import os

        return os.system, ("touch ./pwned",)


class Inspect(ProgramTest):
    """From headers alone."""

    def lines(self, *words: object, code: int = 0) -> list[str]:
        """The output."""
        result = self.run_program("ucprun", "inspect", *words)
        self.assertEqual((result.returncode, result.stderr), (code, ""))
        return result.stdout.splitlines()

    def test_it_begins_with_what_was_read(self) -> None:
        source = self.checkpoint("zero2_dp2")
        lines = self.lines(source)
        self.assertEqual(lines[0], f"read      {source}/global_step4")
        self.assertEqual(lines[1], "          deepspeed, tag global_step4, DeepSpeed 0.19.8, step 4, pp=1 dp=2 tp=1")
        self.assertEqual(lines[2:5], ["tensors   17: 17 parameters of 13,633 elements", "dtypes    float32",
                                      "optimizer ZeRO stage 2, 3 parameter groups"])  # fmt: skip
        identity = json.loads(self.run_program("ucprun", "inspect", source, "--json").stdout)["checkpoint"]
        self.assertEqual(identity, {"folder": f"{source}/global_step4", "tag": "global_step4", "format": "deepspeed",
                                    "framework_version": "0.19.8", "step": 4,
                                    "ranks": {"pp": 1, "dp": 2, "tp": 1}})  # fmt: skip

    def test_every_report_begins_with_it(self) -> None:
        source = self.checkpoint("zero2_dp2")
        tag = f"{source}/global_step4"
        for words in (
            ("ucprun", "convert", source, self.out, "--to", "universal"),
            ("ucprun", "convert", source, self.out, "--to", "universal", "--dry-run", "--force"),
            ("ucprun", "verify", source),
            ("ucprun", "load", source, "--to", "deepspeed:dp=2", "--rank", "0"),
            ("ucprun", "trace", source, "blocks.0.down.bias[0]"),
            ("ucprun", "diff", source, source),
            ("ucpc", "plan", "--from", source, "--to", "universal"),
        ):
            result = self.run_program(*words)
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertRegex(result.stdout.splitlines()[0], rf"^(source|read|first) +{tag}$", words)
            report = json.loads(self.run_program(*words, "--json", *(["--force"] if "convert" in words else [])).stdout)
            identity = report["checkpoints"][0] if "checkpoints" in report else report["checkpoint"]
            self.assertEqual((identity["folder"], identity["step"]), (tag, 4), words)

    def test_layers_that_are_alike_are_one_line(self) -> None:
        source = self.checkpoint("llama_pp2_tp2_dp2")
        lines = self.lines(source)
        self.assertIn("parameter {3-5}.mlp.dense_h_to_4h.weight  x 3  [40, 32] on each of 2 tp ranks", lines)
        everything = self.lines(source, "--all")
        self.assertEqual(len([line for line in everything if line.startswith("parameter ")]), 21)
        self.assertNotIn(" x 3", "\n".join(everything))
        wide = [line for line in self.lines(self.checkpoint("zero2_dp2")) if len(line) > 80]
        self.assertEqual([line for line in wide if not line.startswith("next ")], [])  # This line has the whole path.

    def test_it_says_what_comes_next(self) -> None:
        """The spec of the catalogue that fits, and a command that does what is done most often."""
        source = self.checkpoint("gpt_pp2_tp2_dp2")
        lines = self.lines(source)
        self.assertIn("spec      `megatron_deepspeed_gpt` of the catalogue", lines)
        (command,) = [line.split()[1:] for line in lines if line.startswith("next ")]
        self.assertEqual(command, ["ucprun", "convert", str(source), "OUT", "--to", "universal"])
        result = self.run_program(command[0], *[str(self.out) if word == "OUT" else word for word in command[1:]])
        self.assertEqual(result.returncode, 0, result.stderr)
        report = json.loads(self.run_program("ucprun", "inspect", source, "--json").stdout)
        self.assertEqual((report["fitting_specs"], "elements" in report), (["megatron_deepspeed_gpt"], False))
        whole = json.loads(self.run_program("ucprun", "inspect", self.out, "--json").stdout)
        parameters = [math.prod(tensor["shape"]) for tensor in whole["tensors"] if tensor["kind"] == "parameter"]
        self.assertEqual(whole["elements"], sum(parameters))

    def test_weights_of_a_model_are_not_called_frozen(self) -> None:
        self.run_program("ucprun", "convert", self.checkpoint("zero2_dp2"), self.out, "--to", "safetensors")
        lines = self.lines(self.out)
        self.assertIn("tensors   17: 17 weights of 13,633 elements", lines)
        self.assertNotIn("frozen", "\n".join(lines))

    def test_objects_of_frameworks_are_known(self) -> None:
        lines = self.lines(self.checkpoint("gpt_pp1_tp1_dp2"), "--objects")
        self.assertTrue(all(line.startswith("known ") for line in lines[:-1]), lines)
        self.assertIn("argparse.Namespace", "\n".join(lines))
        self.assertIn("runs nothing but what frameworks write into checkpoints", lines[-1])

    def test_objects_that_no_framework_writes_are_named(self) -> None:
        """Any folder, any protocol, a file by itself; and nothing is run."""
        folder = self.folder / "downloaded"
        folder.mkdir()
        for protocol in range(6):
            (folder / f"p{protocol}.pkl").write_bytes(pickle.dumps({"x": Command()}, protocol))
        (folder / "plain.pkl").write_bytes(pickle.dumps({"x": [1, 2.0, "three"]}, 2))
        (folder / "notes.txt").write_text("not a pickle")
        with zipfile.ZipFile(folder / "model.pt", "w") as archive:
            archive.writestr("archive/data.pkl", pickle.dumps(Command(), 2))
            archive.writestr("archive/version", "3\n")
        lines = self.lines(folder, "--objects", code=3)
        self.assertRegex(lines[0], r"^UNKNOWN  posix\.system  called 7 times, in 7 files; `.*` would run `posix\.sys")
        report = json.loads(self.run_program("ucprun", "inspect", folder, "--objects", "--json").stdout)
        self.assertEqual((report["safe"], report["files"]), (False, 9))
        unknown = [row for row in report["objects"] if not row["known"]]
        self.assertEqual({row["calls"] for row in unknown}, {"posix.system('touch ./pwned')"})
        self.lines(folder / "p4.pkl", "--objects", code=3)
        self.lines(folder / "plain.pkl", "--objects")
        self.assertEqual(list(self.folder.rglob("pwned")), [])

    def test_what_cannot_be_read_is_not_called_safe(self) -> None:
        """Cut off at any byte, or with an instruction that torch.save never writes."""
        whole = pickle.dumps({"x": [1, 2.0, "three"] * 20}, 2)
        path = self.folder / "part.pkl"
        for size in range(2, len(whole), 7):
            path.write_bytes(whole[:size])
            result = self.run_program("ucprun", "inspect", path, "--objects")
            self.assertEqual(result.returncode, 3, (size, result.stdout))
        path.write_bytes(b"\x80\x02(S'touch ./pwned'\nios\nsystem\n.")  # INST
        lines = self.lines(path, "--objects", code=3)
        self.assertTrue(any(line.startswith("UNKNOWN") and "os.system" in line for line in lines), lines)


if __name__ == "__main__":
    unittest.main()
