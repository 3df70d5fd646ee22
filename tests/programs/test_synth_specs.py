"""`ucprun synth` of specs that speak of a number of ranks, and what it says: nothing of a source, since it has none."""

from __future__ import annotations

import json
import signal
import struct
import subprocess
import sys
import time
import unittest
from itertools import product
from pathlib import Path

from programs import PROGRAMS, SOURCE, ProgramTest, files_of

sys.path.insert(0, str(SOURCE / "tests"))
from fixtures.synthetic import element

HEAD = "ucp 1\n\ndim hidden = 8\ndim ffn = 10\ndim layers = 4\n\nmesh pp, dp, tp\nmesh pp, edp, ep, etp\n\nlayout x {\n"
WIDTHS = (6, 4)
LISTS = ([3, 0, 9, 8], [1, 2, 4, 5, 6, 7])
OF_TWO_RANKS = """  "0.first" [hidden] at pp[0]
  block "{i+1: layers@pp}" {
    "w" [ffn@tp(widths [6, 4]), hidden]
    "l" [hidden, ffn@tp(list [[3, 0, 9, 8], [1, 2, 4, 5, 6, 7]])]
  }
  "5.second" [hidden] at pp[1]
"""
EXPERTS = '  block "experts.{e: 6@ep(list [[0, 2, 4], [5, 3, 1]])}" {\n    "up" [hidden, ffn@etp(widths [6, 4])]\n  }\n'
PLAIN = '  block "h.{i: layers}" {\n    "w" [2 * ffn@tp, hidden]\n  }\n'
PIPELINE = '  block "{i+1: layers@pp}" {\n    "w" [2 * ffn@tp, hidden]\n  }\n  "5.n" [hidden] at pp.last\n'
REVERSED = '  "5.n" [hidden] at pp.last\n  block "{i+1: layers@pp}" {\n    "w" [2 * ffn@tp, hidden]\n  }\n'
SCALED = '  "w" [hidden, ffn@tp]\n  "b" [hidden] scale(1 / tp)\n'
JOBS = {
    "bf16": {"train_batch_size": 8, "bf16": {"enabled": True}, "zero_optimization": {"stage": 1}},
    "fp16": {"train_batch_size": 8, "fp16": {"enabled": True}, "zero_optimization": {"stage": 2}},
    "ep": {"train_batch_size": 8, "bf16": {"enabled": True}, "zero_optimization": {"stage": 1},
           "expert_parallel": {"enabled": True, "ep_size": 2}},
}  # fmt: skip


class SynthOfSpecs(ProgramTest):
    """Each has a folder of its own."""

    def spec(self, items: str, name: str = "a.ucp") -> Path:
        """A file with these items in its layout."""
        path = self.folder / name
        path.write_text(HEAD + items + "}\n")
        return path

    def assert_synthetic(self, checkpoint: Path | str, *words: object) -> None:
        """By the program's own account."""
        result = self.run_program("ucprun", "verify", checkpoint, "--synth", *words)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)

    def test_cuts_of_another_number_of_ranks(self) -> None:
        """Widths, lists and single stages say nothing of a whole model; where they are meant, each rank has its own."""
        spec = self.spec(OF_TWO_RANKS)
        for target in ("universal", "universal:mp=2", "safetensors:states=all", "deepspeed:pp=2,tp=2,dp=1,zero=1"):
            with self.subTest(target=target):
                result = self.run_program("ucprun", "synth", spec, target, "--to", target)
                self.assertEqual(result.returncode, 0, result.stderr)
                self.assert_synthetic(target, "--spec", spec)
        names = "bf16_zero_pp_rank_0_mp_rank_{:02}_optim_states.pt"
        for stage, rank in product(range(2), range(2)):
            file = self.folder / "deepspeed:pp=2,tp=2,dp=1,zero=1" / "global_step1" / names.format(2 * stage + rank)
            first = sum(WIDTHS[:rank])
            rows = [row * 8 + column for row in range(first, first + WIDTHS[rank]) for column in range(8)]
            listed = [row * 10 + column for row in range(8) for column in LISTS[rank]]
            for layer, (name, numbers) in product((1, 2) if stage == 0 else (3, 4), (("w", rows), ("l", listed))):
                values = [element(f"{layer}.{name}", "exp_avg", number) for number in numbers]
                self.assertIn(struct.pack(f"<{len(values)}f", *values), file.read_bytes(), (file.name, layer, name))
        result = self.run_program("ucprun", "synth", spec, "x", "--to", "deepspeed:tp=4,zero=1")
        self.assertEqual(result.returncode, 1)
        self.assertIn("here are 2 widths, and `tp` has 4 ranks [cut-mismatch]", result.stderr)

    def test_a_counter_that_is_listed(self) -> None:
        """Experts by name, over ranks that a whole model does not have."""
        spec = self.spec(EXPERTS)
        result = self.run_program("ucprun", "synth", spec, self.out, "--to", "universal")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assert_synthetic(self.out, "--spec", spec)

    def test_whole_tensors_are_cut_by_them(self) -> None:
        """The same spec reads a folder of whole tensors, and cuts it for two ranks as synth does."""
        spec = self.spec("\n".join(OF_TWO_RANKS.replace("{i+1: layers@pp}", "h.{i: layers}").splitlines()[1:-1]))
        for target in ("universal", "deepspeed:tp=2,dp=2,zero=1"):
            result = self.run_program("ucprun", "synth", spec, target[:9], "--to", target)
            self.assertEqual(result.returncode, 0, result.stderr)
        result = self.run_program("ucprun", "convert", "universal", self.out, "--to", "deepspeed:tp=2,dp=2,zero=1",
                                  "--spec", spec)  # fmt: skip
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assert_synthetic(self.out, "--spec", spec)
        optimizer = [{name: data for name, data in files_of(folder).items() if "optim_states" in name}
                     for folder in (self.out, self.folder / "deepspeed")]  # fmt: skip
        self.assertEqual(list(map(len, optimizer)), [4, 4])
        self.assertEqual(optimizer[0].keys(), optimizer[1].keys())

    def test_planning_from_ranks_that_they_speak_of(self) -> None:
        """The cost of a conversion."""
        spec = self.spec(OF_TWO_RANKS)
        result = self.run_program("ucpc", "plan", spec, "--from", "deepspeed:pp=2,tp=2,dp=2,zero=1", "--to",
                                  "universal")  # fmt: skip
        self.assertEqual(result.returncode, 0, result.stderr)

    def test_no_source_is_spoken_of(self) -> None:
        """Neither in what went well nor in what is refused; the reasons are those of conversions."""
        for name, job in JOBS.items():
            (self.folder / f"{name}.json").write_text(json.dumps(job))
        said = ""
        for items, targets in (
            (PLAIN, ("universal", "safetensors", "deepspeed:zero=0", "deepspeed:zero=3,dp=2", "deepspeed:pp=2,zero=1",
                     "deepspeed:zero=1,pp=2,partition=uniform", "deepspeed:dtype=fp16,zero=3,dp=2",
                     "deepspeed:zero=2,dp=2 bf16", "deepspeed:dp=2 fp16", "deepspeed:dp=2 ep")),
            (PIPELINE, ("deepspeed:pp=2,zero=1", "deepspeed:pp=1+3,zero=1", "deepspeed:zero=2")),
            (REVERSED, ("deepspeed:pp=2,zero=1",)),
            (SCALED, ("deepspeed:tp=2,zero=1", "universal")),
        ):  # fmt: skip
            spec = self.spec(items)
            for words in targets:
                target, *job = words.split()
                result = self.run_program("ucprun", "synth", spec, self.out, "--to", target, "--force", "--verbose",
                                          *(["--ds-config", f"{job[0]}.json"] if job else []))  # fmt: skip
                self.assertIn(result.returncode, (0, 1, 2))
                said += result.stdout + result.stderr
        self.assertNotIn("source", said)
        self.assertNotIn("files are read", said)
        for words in ("the synthetic model does not know the layer files of a pipeline",
                      "group 0 of the synthetic model's optimizer has `1.w` after `5.n`",
                      "list them layer by layer, in the spec or with --parameters",
                      "the synthetic model has no loss scale of float16",
                      "`partition` in the strategy: the synthetic model does not know the layers of a pipeline",
                      "would be times 1 / 2 in the target"):  # fmt: skip
            self.assertIn(words, said)
        shown = self.run_program("ucprun", "synth", "--help").stdout
        self.assertNotIn("source", shown)
        self.assertNotIn("in the checkpoint", shown)

    def test_the_report(self) -> None:
        """Has what was written, and no key of what was read."""
        result = self.run_program("ucprun", "synth", self.spec(PLAIN), self.out, "--to", "universal", "--json")
        report = json.loads(result.stdout)
        self.assertNotIn("source", result.stdout)
        self.assertEqual(set(report["io"]), {"writing"})
        for key in ("bytes_to_copy", "bytes_to_compare", "bytes_copied", "bytes_compared", "unused", "decisions"):
            self.assertNotIn(key, report)
        self.assertEqual(report["bytes_written"], report["bytes_to_write"])

    def test_going_on_with_another_model(self) -> None:
        """Another spec's run is not gone on from, and the message names no source."""
        large = PLAIN.replace("[2 * ffn@tp, hidden]", "[2 * ffn@tp, 512 * hidden]")
        words = ("--to", "universal", "--resume", "--max-bandwidth=1MB")
        with subprocess.Popen([PROGRAMS / "ucprun", "synth", self.spec(large), self.out, *words], cwd=self.folder,
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as run:  # fmt: skip
            while run.poll() is None and not (self.folder / ".out.ucp-partial").exists():
                time.sleep(0.01)
            time.sleep(0.5)
            run.send_signal(signal.SIGINT)
            self.assertEqual(run.wait(timeout=60), 130)
        spec = self.spec(large.replace("512", "511"))
        result = self.run_program("ucprun", "synth", spec, self.out, *words)
        self.assertEqual(result.returncode, 1)
        self.assertIn("wrote another model, whose tensors have the hash", result.stderr)
        self.assertNotIn("source", result.stderr)


if __name__ == "__main__":
    unittest.main()
