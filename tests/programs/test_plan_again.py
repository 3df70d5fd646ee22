"""`ucprun run` plans again what a plan file says was asked for, and runs no other plan."""

from __future__ import annotations

import json
import shutil
import subprocess
import unittest
from pathlib import Path

from programs import GPT_SPEC, MANIFEST, ProgramTest, all_files, files_of

DS_CONFIG = {
    "train_batch_size": 8, "train_micro_batch_size_per_gpu": 2, "bf16": {"enabled": True},
    "zero_optimization": {"stage": 1},
}  # fmt: skip
LINES = GPT_SPEC.read_text().replace("dim seq     from args.max_position_embeddings", "dim seq")


class PlanAgain(ProgramTest):
    """Each starts in a folder of its own."""

    def plan(self, source: Path, target: str, *arguments: object) -> Path:
        """Writes `a.plan`."""
        result = self.run_program("ucpc", "plan", *arguments, "--from", source, "--to", target, "-o", "a.plan")
        self.assertEqual(result.returncode, 0, result.stderr)
        return self.folder / "a.plan"

    def run_plan(self, source: Path, *arguments: object) -> subprocess.CompletedProcess[str]:
        """Into the test's `out`."""
        return self.run_program("ucprun", "run", "a.plan", self.out, "--from", source, *arguments)

    def assert_same_as_convert(self, source: Path, target: str, *arguments: object) -> None:
        """Also manifests, which name the plan."""
        result = self.run_program("ucprun", "convert", source, "converted", "--to", target, *arguments)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(all_files(self.folder / "converted"), all_files(self.out))
        shutil.rmtree(self.folder / "converted")
        shutil.rmtree(self.out)

    def test_nothing_but_the_checkpoint_is_needed(self) -> None:
        """The plan file has the spec with what it includes, both configurations and all words, and no path of them."""
        source = self.checkpoint("gpt_pp2_tp2_dp2")
        elsewhere = self.folder / "elsewhere"
        (elsewhere / "parts").mkdir(parents=True)
        spec = elsewhere / "mine.ucp"
        head, layout = LINES.split("layout ", 1)
        spec.write_text('ucp 1\n\ninclude "parts/dims.ucp"\n\nstrategy small { format deepspeed; pp = 2; dp = 2; '
                        "zero = 1 }\n\nlayout " + layout)  # fmt: skip
        (elsewhere / "parts" / "dims.ucp").write_text(head)
        config = elsewhere / "ds.json"
        config.write_text(json.dumps(DS_CONFIG))
        model = elsewhere / "model.json"
        model.write_text('{"unused": 1}')
        asked = ["--set", "seq=16", "--ds-config", config, "--config", model, "--tag", "other", "--replicas", "trust",
                 "--prefer-rank", "tp=1", "--keep-opaque", "a.B"]  # fmt: skip
        plan = self.plan(source, "small", spec, *asked).read_bytes()
        self.assertNotIn(str(self.folder).encode(), plan)
        self.assertNotIn(b"elsewhere", plan)
        hidden = self.folder / "hidden"
        elsewhere.rename(hidden)
        result = self.run_plan(source)
        self.assertEqual(result.returncode, 0, result.stderr)
        hidden.rename(elsewhere)
        self.assert_same_as_convert(source, "small", "--spec", spec, *asked)
        dump = self.run_program("ucpc", "dump", "a.plan").stdout
        for line in ("asked --to small", "asked --spec mine.ucp", '| include "parts/dims.ucp"', "asked --tag other",
                     "asked --spec parts/dims.ucp", "asked --config model.json", "asked --ds-config ds.json",
                     "asked --set seq=16", "asked --keep-opaque a.B", "asked --replicas trust"):  # fmt: skip
            self.assertIn(line + "\n", dump)

    def test_words_without_a_spec(self) -> None:
        """--unused and --drop-state; what the catalogue finds is found again."""
        for fixture, target, arguments in [
            ("gpt_pp2_tp2_dp2", "deepspeed:dp=2,zero=1", []),
            ("autotp_tp2_dp2", "universal", []),
            ("pipeline_pp2", "universal", []),
            ("zero2_dp2", "safetensors:dtype=bf16", []),
            ("zero2_dp2", "universal", ["--drop-state", "exp_avg_sq"]),
        ]:
            with self.subTest(fixture=fixture, target=target):
                source = self.checkpoint(fixture)
                self.plan(source, target, *arguments)
                result = self.run_plan(source)
                self.assertEqual(result.returncode, 0, result.stderr)
                self.assert_same_as_convert(source, target, *arguments)
                shutil.rmtree(source)

    def test_a_list_for_a_fact(self) -> None:
        """Values of --set stay what they are: numbers, texts, lists, and names behind `has`."""
        source = self.checkpoint("zero2_dp2")
        spec = self.folder / "lists.ucp"
        names = self.run_program("ucprun", "inspect", source, "--json").stdout
        tensors = "\n".join(
            f'  "{tensor["name"]}" [{", ".join(map(str, tensor["shape"]))}]' for tensor in json.loads(names)["tensors"]
        )
        spec.write_text("ucp 1\n\nmesh tp\n\nfact kinds from args.kinds\nfact tied from args.tied\n\nlayout x {\n"
                        f"{tensors}\n}}\n")  # fmt: skip
        arguments = [spec, "--set", 'kinds=[dense, "moe", 3]', "--set", "tied=some words"]
        self.plan(source, "universal", *arguments)
        result = self.run_plan(source)
        self.assertEqual(result.returncode, 0, result.stderr)
        dump = self.run_program("ucpc", "dump", "a.plan").stdout
        self.assertIn('asked --set kinds=["dense","moe",3]\nasked --set tied="some words"\n', dump)

    def test_what_lies_beside_the_checkpoint_counts(self) -> None:
        """A model's configuration that has changed since is named; changes in remarks alone are not."""
        source = self.checkpoint("zero2_dp2")
        (source / "config.json").write_text('{"model_type": "llama"}')
        self.plan(source, "safetensors")
        (source / "notes.txt").write_text("a remark speaks of it")
        (source / "config.json").write_text('{"model_type": "gemma"}')
        result = self.run_plan(source)
        self.assert_refused(result, 2, "`a.plan` is not the plan that is made of this checkpoint", "of the blobs",
                            "`config.json`")  # fmt: skip
        (source / "config.json").write_text('{"model_type": "llama"}')
        result = self.run_plan(source)
        self.assertEqual(result.returncode, 0, result.stderr)

    def test_another_checkpoint_is_told_first(self) -> None:
        """As before plans were made again."""
        self.plan(self.checkpoint("zero2_dp2"), "universal")
        other = self.checkpoint("zero1_dp2")
        for more in ((), ("--trust-plan",)):
            self.assert_refused(self.run_plan(other, *more), 2, "plan")

    def test_resume(self) -> None:
        """It is one plan whether it was made again, was taken as it is, or was `convert`'s own."""
        source = self.checkpoint("zero2_dp2")
        self.plan(source, "universal")
        result = self.run_plan(source)
        self.assertEqual(result.returncode, 0, result.stderr)
        before = all_files(self.out)
        for arguments in (("run", "a.plan", self.out, "--from", source, "--resume"),
                          ("run", "a.plan", self.out, "--from", source, "--resume", "--trust-plan"),
                          ("convert", source, self.out, "--to", "universal", "--resume")):  # fmt: skip
            result = self.run_program("ucprun", *arguments, "--json")
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertTrue(json.loads(result.stdout)["was_complete"])
        self.assertEqual(all_files(self.out), before)

    def test_json(self) -> None:
        """The report of a run, and the error of a refusal."""
        source = self.checkpoint("zero2_dp2")
        self.plan(source, "universal", "--tag", "new")
        report = json.loads(self.run_plan(source, "--json").stdout)
        phases = [phase["phase"] for phase in report["phases"]]
        self.assertEqual(phases[:6], ["load", "describe", "bind", "lay out", "plan", "verify"])
        self.assertEqual(set(files_of(self.out)), {name for name in all_files(self.out) if name != MANIFEST})
        shutil.rmtree(self.out)
        (source / "global_step4" / "mp_rank_00_model_states.pt").unlink()
        result = self.run_plan(source, "--json")
        self.assertEqual(result.returncode, 2)
        self.assertEqual(set(json.loads(result.stdout)), {"error", "version"})


if __name__ == "__main__":
    unittest.main()
