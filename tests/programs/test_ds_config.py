"""--ds-config: the target job's own configuration decides what the strategy leaves open, and is named if it cannot."""

from __future__ import annotations

import json
import unittest
import zipfile
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

from programs import ProgramTest

PLAIN: dict[str, Any] = {
    "train_micro_batch_size_per_gpu": 1,
    "gradient_accumulation_steps": 4,
    "bf16": {"enabled": True},
    "zero_optimization": {"stage": 1},
}


def files_of(folder: Path) -> dict[str, bytes]:
    """The contents of all files but the configuration itself: their records of elements, and all lists of names."""
    found: dict[str, bytes] = {}
    for file in sorted(path for path in folder.rglob("*.pt")):
        with zipfile.ZipFile(file) as archive:
            for name in archive.namelist():
                if "/data/" in name:
                    found[f"{file.name}:{name}"] = archive.read(name)
    return found


class DsConfig(ProgramTest):
    """A bfloat16 source of stage 1 on four ranks, eight samples a step."""

    def run_with(self, config: object, strategy: str = "deepspeed:dp=2", out: str = "out") -> CompletedProcess[str]:
        """Converts with this configuration: a text, or what becomes one."""
        source = self.folder / "zero1_dp4"
        source = source if source.exists() else self.checkpoint("zero1_dp4")
        (self.folder / "job.json").write_text(config if isinstance(config, str) else json.dumps(config))
        return self.run_program(
            "ucprun", "convert", source, self.folder / out, "--to", strategy, "--ds-config", "job.json"
        )

    def test_says_what_the_strategy_leaves_open(self) -> None:
        """The same bytes as with settings, and no remark."""
        changes: dict[str, dict[str, Any]] = {
            "zero=1,optimizer=zero": {},
            "zero=2": {"zero_optimization": {"stage": 2, "reduce_bucket_size": 5e8}},
            "zero=1,optimizer=bf16": {"data_types": {"grad_accum_dtype": "fp32"}},
            "zero=1,optimizer=zero,round_robin=true": {
                "zero_optimization": {"stage": 1, "round_robin_gradients": True}
            },
            "zero=2,alignment=true": {"zero_optimization": {"stage": 2, "parameter_alignment": True}},
            "zero=1,dtype=fp32": {"bf16": {"enabled": False}},
            "zero=1,optimizer=zero,dtype=bf16": {
                "data_types": {"grad_accum_dtype": "fp32"},
                "zero_optimization": {"stage": 1, "offload_optimizer": {"device": "cpu"}},
            },
        }
        for i, (settings, change) in enumerate(changes.items()):
            with self.subTest(settings=settings):
                result = self.run_with(PLAIN | change, out=f"job{i}")
                self.assertEqual((result.returncode, result.stderr), (0, ""))
                straight = self.folder / f"strategy{i}"
                result = self.run_program(
                    "ucprun", "convert", self.folder / "zero1_dp4", straight, "--to", f"deepspeed:dp=2,{settings}"
                )
                self.assertEqual(result.returncode, 0, result.stderr)
                self.assertEqual(files_of(self.folder / f"job{i}"), files_of(straight))

    def test_strategy_counts_and_says_so(self) -> None:
        """One note for each setting that the file has otherwise, none for the others."""
        result = self.run_with(PLAIN, "deepspeed:dp=2,zero=2,dtype=bf16")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(result.stderr.count("note: "), 1, result.stderr)
        self.assertIn("`zero=2` of the strategy counts, and `job.json` says otherwise", result.stderr)
        result = self.run_with(PLAIN | {"tensor_parallel": {"autotp_size": 2}}, "deepspeed:dp=2,tp=1", "other")
        self.assertIn("`tp=1` of the strategy counts, and `job.json` has tensor_parallel.autotp_size=2", result.stderr)

    def test_what_both_say_alike_needs_no_note(self) -> None:
        """Also the size of sub-groups, which a strategy of `ucp.deepspeed` always has."""
        zero = {"stage": 3, "sub_group_size": 500}
        result = self.run_with(PLAIN | {"zero_optimization": zero}, "deepspeed:dp=2,zero=3,sub_group_size=500")
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        result = self.run_with(PLAIN | {"zero_optimization": zero}, "deepspeed:dp=2,zero=3,sub_group_size=600", "other")
        self.assertIn("`sub_group_size=600` of the strategy counts, and `job.json` says otherwise", result.stderr)

    def test_batch(self) -> None:
        """The file's own sizes are kept, and a note says what they mean."""
        result = self.run_with(PLAIN | {"gradient_accumulation_steps": 1})
        self.assertIn("the global batch was 8 samples in the source, and is 2 with `job.json`", result.stderr)
        result = self.run_with(PLAIN | {"train_batch_size": 16}, out="other")
        self.assertIn("not those of 2 data-parallel ranks", result.stderr)
        result = self.run_with(PLAIN | {"train_micro_batch_size_per_gpu": "auto"}, out="third")
        self.assertEqual((result.returncode, result.stderr), (0, ""))

    def test_plan_takes_it(self) -> None:
        """`ucpc plan` makes the same target."""
        source = self.checkpoint("zero1_dp4")
        (self.folder / "job.json").write_text(json.dumps(PLAIN | {"zero_optimization": {"stage": 2}}))
        result = self.run_program(
            "ucpc", "plan", "--from", source, "--to", "deepspeed:dp=2", "--ds-config", "job.json", "-o", "run.plan"
        )
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        result = self.run_program("ucprun", "run", "run.plan", self.out, "--from", source)
        self.assertEqual(result.returncode, 0, result.stderr)
        straight = self.folder / "straight"
        self.run_program("ucprun", "convert", source, straight, "--to", "deepspeed:dp=2,zero=2")
        self.assertEqual(files_of(self.out), files_of(straight))

    def refuse(self, config: object, code: int, *words: str, strategy: str = "deepspeed:dp=2") -> None:
        """One sentence that names the file."""
        self.assert_refused(self.run_with(config, strategy), code, "job.json", *words)

    def test_refused(self) -> None:
        """Settings that DeepSpeed would misread, or not read at all."""
        self.refuse('{"zero_optimization": {"stage": 1},} // comment', 2, "in JSON", "at byte 35")
        self.refuse("[1]", 2, "not an object of settings")
        self.refuse('{"a": 1, "a": 2}', 2, "the key `a` twice")
        self.refuse('{"a": nan}', 2, "`nan`")
        self.refuse("[" * 100000, 2, "nested deeper than 64")
        self.refuse(PLAIN | {"bf16": {"enabled": "auto"}}, 1, "`bf16.enabled`", "'auto'", "true or false", "`dtype=`")
        self.refuse(PLAIN | {"zero_optimization": {"stage": "2"}}, 1, "zero_optimization.stage", "a whole number")
        self.refuse(PLAIN | {"zero_optimization": True}, 1, "`zero_optimization`", "not a section")
        self.refuse(PLAIN | {"zero_optimisation": {}}, 1, "`zero_optimisation`", "did you mean `zero_optimization`?")
        self.refuse(PLAIN | {"tensor_parallel": {"autotp_size": 2}}, 1, "autotp_size=2", "say tp=2")
        swapped = {"stage": 3, "offload_optimizer": {"device": "nvme", "nvme_path": "/swap"}}
        result = self.run_with(PLAIN | {"zero_optimization": swapped})
        self.assert_refused(result, 2, "`zero_optimization.offload_optimizer.device`", "nvme", "`offloaded_tensors`")
        result = self.run_with(PLAIN | {"bf16": {"enabled": "auto"}}, "deepspeed:dp=2,dtype=bf16")
        self.assertEqual(result.returncode, 0, result.stderr)

    def test_of_an_elastic_source(self) -> None:
        """Its optimizer's settings come from nowhere else, and notes name them."""
        source = self.checkpoint("elastic_zero1")
        convert = ("ucprun", "convert", source, self.out, "--to", "deepspeed:dp=2,zero=3")
        self.assert_refused(self.run_program(*convert), 2, "zero=3", "by --ds-config")
        params = {"lr": 0.01, "betas": [0.9, 0.95], "eps": 1e-8, "weight_decay": 0.05}
        job = PLAIN | {"optimizer": {"type": "AdamW", "params": params}}
        (self.folder / "job.json").write_text(json.dumps(job))
        result = self.run_program(*convert, "--ds-config", "job.json")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("those of `job.json` count, {'lr': 0.01, 'bias_correction': True,", result.stderr)

    def test_only_native_files_depend_on_it(self) -> None:
        """The universal folder is the same for all jobs."""
        result = self.run_with(PLAIN, "universal")
        self.assert_refused(result, 1, "--ds-config", "`universal`")
        missing = self.run_program(
            "ucprun",
            "convert",
            self.folder / "zero1_dp4",
            self.out,
            "--to",
            "deepspeed:dp=2",
            "--ds-config",
            "nowhere.json",
        )
        self.assert_refused(missing, 2, "nowhere.json")


if __name__ == "__main__":
    unittest.main()
