"""`--memory` is for all of a conversion: what describing and planning took is under it, too."""

from __future__ import annotations

import json
import os
import re
import unittest

from failures import LIBRARY

from programs import ProgramTest

SPEC = "mixtral_per_expert"
SIZES = ["experts=40", "hidden=16", "ffn=16", "heads=4", "kv_heads=2", "head=4", "vocab=64"]
MIB = 1 << 20


class Memory(ProgramTest):
    """A model of many small tensors, whose plan takes more than their elements."""

    parent_folder = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None

    def setUp(self) -> None:
        """What a sanitizer takes is counted, too."""
        if not LIBRARY.exists():
            self.skipTest(f"{LIBRARY} was not built: this is a build with a sanitizer")
        super().setUp()

    def synth(self, layers: int) -> None:
        """127 tensors for each layer, and 3."""
        settings = [word for size in [*SIZES, f"layers={layers}"] for word in ("--set", size)]
        result = self.run_program("ucprun", "synth", SPEC, self.folder / "source", "--to", "deepspeed:dp=2,zero=2",
                                  *settings)  # fmt: skip
        self.assertEqual(result.returncode, 0, result.stderr)

    def test_two_thousand_tensors_within_64_mib(self) -> None:
        """1,908 of them."""
        self.synth(15)
        for target in ("universal", "deepspeed:dp=3,zero=1"):
            with self.subTest(target=target):
                result = self.run_program("ucprun", "convert", self.folder / "source", self.out, "--to", target,
                                          "--memory", "64MiB", "--threads", "2", "--force", "--json")  # fmt: skip
                self.assertEqual(result.returncode, 0, result.stderr)
                self.assertLessEqual(json.loads(result.stdout)["peak_memory_bytes"], 64 * MIB)

    def test_too_little_for_what_is_held_is_refused_with_what_would_do(self) -> None:
        """28 MiB are enough for the buffers, and for a plan of few tensors."""
        self.synth(15)
        arguments = ["convert", self.folder / "source", self.out, "--to", "universal", "--threads", "1", "--json"]
        result = self.run_program("ucprun", *arguments, "--memory", "28MiB")
        self.assertEqual(result.returncode, 1, result.stderr)
        found = re.search(r"29\.4 MB of memory is too little for this plan with 1 thread: describing the source "
                          r"and planning took [\d.]+ MB, .*; pass --memory=(\d+)MiB", result.stderr)  # fmt: skip
        assert found is not None, result.stderr
        self.assertEqual([path.name for path in self.folder.iterdir()], ["source"])
        result = self.run_program("ucprun", *arguments, "--memory", f"{found[1]}MiB")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertLessEqual(json.loads(result.stdout)["peak_memory_bytes"], int(found[1]) * MIB)
        result = self.run_program("ucprun", "verify", self.folder / "source", "--memory", "28MiB", "--threads", "1")
        self.assertEqual(result.returncode, 1, result.stderr)
        self.assertIn("29.4 MB of memory is too little for this plan with 1 thread: describing", result.stderr)


if __name__ == "__main__":
    unittest.main()
