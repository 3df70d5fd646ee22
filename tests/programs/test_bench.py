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

    def test_a_conversion_is_held_against_it(self) -> None:
        """Numbers that were made up, so that the answer is known."""
        ceilings = self.folder / "ceilings.json"
        bench = self.run_program("ucprun", "bench", self.folder, "--size", "8MiB", "--json")
        report = json.loads(bench.stdout)
        for entry in report["measured"]:
            entry |= {"bytes": 1000, "seconds": 1}  # A thousand bytes a second, whatever it is.
        ceilings.write_text(json.dumps(report))
        source = self.checkpoint("zero1_dp2")
        result = self.convert(source, "--ceilings", ceilings, "--json")
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        told = json.loads(result.stdout)
        moved = sum(told[key] for key in ("bytes_copied", "bytes_compared", "bytes_checksummed", "bytes_written"))
        self.assertEqual(told["ceilings"]["folder"], str(self.folder))
        self.assertAlmostEqual(told["ceilings"]["seconds"], moved / 1000)
        commit = next(phase["seconds"] for phase in told["phases"] if phase["phase"] == "commit")
        self.assertAlmostEqual(told["ceilings"]["share"], moved / 1000 / (told["seconds"] + commit), places=3)
        result = self.convert(source, "--force", "--ceilings", ceilings)
        self.assertRegex(result.stdout, rf"(?m)^\d+ % of what `bench` measured in `{self.folder}`: that storage alone")

    def test_only_what_bench_prints_is_taken(self) -> None:
        source = self.checkpoint("zero1_dp2")
        other = self.folder / "other.json"
        for text, words in [
            ("", "it is not valid JSON"),
            ("[" * 60000, "it is not valid JSON"),
            ("[]", "it is not an object"),
            ("{}", "it has no `write, buffered"),
        ]:
            other.write_text(text)
            self.assert_refused(self.convert(source, "--ceilings", other), 1, words)
            self.assertFalse(self.out.exists())
        self.assert_refused(self.convert(source, "--ceilings", "none"), 2, "none`")


if __name__ == "__main__":
    unittest.main()
