"""`ucprun bench`: numbers that a stopwatch would give, and nothing left behind."""

from __future__ import annotations

import json
import time
import unittest

from programs import ProgramTest

NAMES = [
    "write, buffered",
    "write, buffered, with sync",
    "read, buffered, from the page cache",
    "read, buffered, from storage",
    "write, direct",
    "read, direct",
    "copy, memory to memory",
]


class Bench(ProgramTest):
    """A small file in the test's folder."""

    def test_every_way_is_measured(self) -> None:
        begin = time.monotonic()
        result = self.run_program("ucprun", "bench", self.folder, "--size", "32MiB", "--threads", "2", "--json")
        seconds = time.monotonic() - begin
        self.assertEqual(result.returncode, 0, result.stderr)
        report = json.loads(result.stdout)
        self.assertEqual([entry["of"] for entry in report["measured"]], NAMES)
        for entry in report["measured"]:
            if "why_not" in entry:
                self.assertIn("direct", entry["of"])
                continue
            self.assertGreater(entry["bytes"], 0)
            self.assertGreater(entry["seconds"], 0)
            self.assertLess(entry["seconds"], seconds)
        # With the sync it is never less, and both moved the same.
        written, synced = report["measured"][:2]
        self.assertEqual(written["bytes"], synced["bytes"])
        self.assertGreaterEqual(synced["seconds"], written["seconds"])
        self.assertEqual(list(self.folder.iterdir()), [])

    def test_the_text_has_a_line_for_each(self) -> None:
        result = self.run_program("ucprun", "bench", self.folder, "--size", "8MiB")
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        for name, line in zip(NAMES, result.stdout.splitlines(), strict=True):
            self.assertRegex(line, rf"^{name} +([\d.]+ GB/s|-)  \(")

    def test_what_cannot_be_measured_is_said(self) -> None:
        for arguments, code, words in [
            ([self.folder / "none"], 2, "none`"),
            ([self.folder, "--size", "much"], 1, "--size takes a size"),
            ([self.folder, "--size", "900000000GB"], 2, "is to be written there for a moment"),
        ]:
            result = self.run_program("ucprun", "bench", *arguments)
            self.assert_refused(result, code, words)


if __name__ == "__main__":
    unittest.main()
