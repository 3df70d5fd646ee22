"""`--memory` is for all of a run: the memory of describing and planning is under it."""

from __future__ import annotations

import json
import os
import re
import shutil
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
        """The memory of a sanitizer is counted."""
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

    def test_the_cap_holds_or_the_run_is_refused_with_what_would_do(self) -> None:
        """Whatever describing and planning take: the test must not fail because they take less one day."""
        self.synth(15)
        arguments = ["ucprun", "convert", self.folder / "source", self.out, "--to", "universal", "--threads", "1"]
        for mib in (24, 32, 40):
            with self.subTest(mib=mib):
                result = self.run_program(*arguments, "--memory", f"{mib}MiB", "--json")
                if result.returncode != 0:
                    self.assertEqual(result.returncode, 1, result.stderr)
                    self.assertEqual([path.name for path in self.folder.iterdir()], ["source"])
                    found = re.search(
                        r"of memory is too little for this plan with 1 thread: planning "
                        r"took [\d.]+ MB, .*; pass --memory (\d+)MiB",
                        result.stderr,
                    )
                    assert found is not None, result.stderr
                    mib = int(found[1])
                    result = self.run_program(*arguments, "--memory", f"{mib}MiB", "--json")
                    self.assertEqual(result.returncode, 0, result.stderr)
                self.assertLessEqual(json.loads(result.stdout)["peak_memory_bytes"], mib * MIB)
                shutil.rmtree(self.out)

    def test_who_writes_nothing_counts_it_too(self) -> None:
        """And what is named would do."""
        self.synth(15)
        source = self.folder / "source"
        for arguments in (
            ("verify", source),
            ("load", source, "--to", "universal"),
            ("diff", source, source, "--read-all"),
        ):
            with self.subTest(command=arguments[0]):
                command = ["ucprun", *arguments, "--threads", "1", "--memory"]
                result = self.run_program(*command, "24MiB")
                self.assertEqual(result.returncode, 1, result.stderr)
                found = re.search(
                    r"25\.2 MB of memory is too little for this plan with 1 thread: planning "
                    r"took [\d.]+ MB, .*; pass --memory (\d+)MiB",
                    result.stderr,
                )
                assert found is not None, result.stderr
                result = self.run_program(*command, f"{found[1]}MiB")
                self.assertEqual(result.returncode, 0, result.stderr)


if __name__ == "__main__":
    unittest.main()
