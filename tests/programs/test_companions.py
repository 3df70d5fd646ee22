"""Files that Hugging Face's Trainer and Accelerate keep beside a checkpoint go into the root of a native target."""

from __future__ import annotations

import json
import pickle
import shutil
import unittest
from pathlib import Path
from subprocess import CompletedProcess

from programs import MANIFEST, ProgramTest

# A pickle that would write a file when loaded.
HOSTILE = b"\x80\x02cos\nsystem\nq\x00X\x0d\x00\x00\x00touch ./pwnedq\x01\x85q\x02Rq\x03."

TRAINER = {
    "config.json": b'{"model_type": "llama"}',
    "generation_config.json": b"{}",
    "tokenizer.json": b'{"a": 1}\n',
    "trainer_state.json": b'{"global_step": 4}',
    "scheduler.pt": pickle.dumps({"last_epoch": 4}, 2),
    "rng_state_0.pth": pickle.dumps({"python": (3, (1, 2), None)}, 2),
    "rng_state_1.pth": pickle.dumps(1, 2),
    "rng_state_2.pth": pickle.dumps(2, 2),
    "rng_state_3.pth": pickle.dumps(3, 2),
}
ACCELERATE = {
    "scheduler.bin": pickle.dumps({"last_epoch": 4}, 2),
    "scheduler_1.bin": pickle.dumps({"last_epoch": 5}, 2),
    "sampler.bin": pickle.dumps([], 2),
    "random_states_0.pkl": pickle.dumps((1, [2]), 4),
    "random_states_10.pkl": pickle.dumps((1, [3]), 4),
    "custom_checkpoint_0.pkl": pickle.dumps({"step": 4}, 2),
}


class Companions(ProgramTest):
    """Four ranks, a tag `global_step4` in a folder `checkpoint-4`."""

    def source(self, files: dict[str, bytes]) -> Path:
        """With these files beside it."""
        root = self.folder / "run" / "checkpoint-4"
        if not root.exists():
            root.parent.mkdir()
            shutil.move(self.checkpoint("zero1_dp4"), root)
            shutil.move(root / (root / "latest").read_text(), root / "global_step4")
            (root / "latest").write_text("global_step4")
        for name, content in files.items():
            (root / name).write_bytes(content)
        return root

    def to(self, source: Path, strategy: str, *further: str) -> CompletedProcess[str]:
        """Converts, which must succeed."""
        result = self.run_program("ucprun", "convert", source, self.out, "--to", strategy, *further)
        self.assertEqual(result.returncode, 0, result.stderr)
        return result

    def beside(self) -> dict[str, bytes]:
        """The files of the target's root, without `latest` and the manifest."""
        files = (file for file in self.out.iterdir() if file.is_file() and file.name not in ("latest", MANIFEST))
        return {file.name: file.read_bytes() for file in files}

    def test_trainer(self) -> None:
        """Every byte as it was, whichever way the checkpoint is named; random states of ranks that are gone go."""
        root = self.source(TRAINER)
        wanted = {name: content for name, content in TRAINER.items() if name[-5] not in "23"}
        for named in (root, root / "global_step4", root.parent):
            with self.subTest(named=named.name):
                result = self.to(named, "deepspeed:dp=2", "--force")
                self.assertEqual(self.beside(), wanted)
                self.assertIn("`rng_state_2.pth`, `rng_state_3.pth` dropped: the target has 2 ranks", result.stderr)
        self.assertFalse(list(self.folder.rglob("pwned")))

    def test_more_ranks(self) -> None:
        """Those that had none are named."""
        result = self.to(self.source(TRAINER), "deepspeed:dp=4,sp=2")
        self.assertEqual(self.beside(), TRAINER)
        self.assertIn("4 of the target's 8 ranks have states of random generators", result.stderr)

    def test_accelerate(self) -> None:
        """Its names, with their numbers."""
        self.to(self.source(ACCELERATE), "deepspeed:dp=8")
        self.assertEqual(self.beside(), {k: v for k, v in ACCELERATE.items() if k != "random_states_10.pkl"})

    def test_pickles_with_other_objects_are_left_out_and_named(self) -> None:
        """Loading them would run a command, so a target does not get them unless the user vouches for it."""
        root = self.source({"training_args.bin": HOSTILE, "scheduler.pt": b"no pickle", "rng_state_0.pth": HOSTILE})
        result = self.to(root, "deepspeed:dp=2")
        self.assertEqual(self.beside(), {})
        self.assertIn("`rng_state_0.pth` and 1 other file is left out: loading it would run `os.system(", result.stderr)
        self.assertIn("`scheduler.pt` is left out: what loading it would run is not known", result.stderr)
        left_out = json.loads((self.out / MANIFEST).read_text())["left_out"]
        self.assertEqual({row["file"] for row in left_out}, {"training_args.bin", "rng_state_0.pth"})
        self.assertEqual({row["calls"] for row in left_out}, {"os.system('touch ./pwned')"})
        self.to(root, "deepspeed:dp=2", "--keep-opaque", "os.system", "--force")
        self.assertEqual(self.beside(), {"training_args.bin": HOSTILE, "rng_state_0.pth": HOSTILE})
        self.assertFalse(list(self.folder.rglob("pwned")))

    def test_others_are_named(self) -> None:
        """Weights and files of users stay where they are; DeepSpeed's own scripts are not worth a word."""
        root = self.source({"model.safetensors": b"w", "notes.txt": b"mine", "zero_to_fp32.py": b"", "vocab.txt": b"v"})
        result = self.to(root, "deepspeed:dp=2")
        self.assertEqual(self.beside(), {"vocab.txt": b"v"})
        self.assertIn("not copied from beside the checkpoint: model.safetensors, notes.txt\n", result.stderr)

    def test_plan_carries_them(self) -> None:
        """They are planned again like all else; only a plan that is trusted writes what is not there any more."""
        root = self.source(TRAINER)
        result = self.run_program("ucpc", "plan", "--from", root, "--to", "deepspeed:dp=4", "-o", "run.plan")
        self.assertEqual(result.returncode, 0, result.stderr)
        for name in TRAINER:
            (root / name).unlink()
        result = self.run_program("ucprun", "run", "run.plan", self.out, "--from", root)
        self.assert_refused(result, 2, "entry 1 of the files of the target", "`config.json`", "--trust-plan")
        result = self.run_program("ucprun", "run", "run.plan", self.out, "--from", root, "--trust-plan")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertNotIn("beside the checkpoint", result.stderr)
        self.assertEqual(self.beside(), TRAINER)

    def test_tags(self) -> None:
        """The Trainer knows its tag by how it begins; a file is not a tag."""
        root = self.source(TRAINER)
        result = self.to(root, "deepspeed:dp=4", "--tag", "mine")
        self.assertIn("Trainer looks for `global_step…`, and would not find the tag `mine`", result.stderr)
        shutil.rmtree(self.out)
        result = self.run_program("ucprun", "convert", root, self.out, "--to", "deepspeed:dp=4", "--tag", "config.json")
        self.assert_refused(result, 1, "`config.json`", "--tag")


if __name__ == "__main__":
    unittest.main()
