"""Runs the two programs on copies of real checkpoints, for tests that look from outside."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

SOURCE = Path(os.environ["UCP_SOURCE_DIR"])
PROGRAMS = Path(os.environ["UCP_BIN"])
GPT_SPEC = SOURCE / "specs" / "megatron_deepspeed_gpt.ucp"
MANIFEST = "ucp_manifest.json"


def line_of(text: str) -> int:
    """Where it stands in the spec of the catalogue's GPT."""
    return next(number for number, line in enumerate(GPT_SPEC.read_text().splitlines(), 1) if text in line)


def files_of(folder: Path) -> dict[str, bytes]:
    """Every file below a folder, by its path, but the manifest: it names the plan and the source of a conversion."""
    files = (path for path in folder.rglob("*") if path.is_file() and path != folder / MANIFEST)
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def all_files(folder: Path) -> dict[str, bytes]:
    """The manifest is one of them."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


class ProgramTest(unittest.TestCase):
    """A test with a folder of its own."""

    parent_folder: str | None = None  # Where; by default where temporary files are.

    def setUp(self) -> None:
        """Every test starts in an empty folder."""
        self.folder = Path(tempfile.mkdtemp(prefix="ucp-programs-", dir=self.parent_folder))
        self.addCleanup(shutil.rmtree, self.folder)
        self.out = self.folder / "out"

    def checkpoint(self, case: str) -> Path:
        """A copy of a fixture's checkpoint, that may be damaged."""
        copy = self.folder / case
        shutil.copytree(SOURCE / "tests" / "fixtures" / case / "checkpoint", copy)
        return copy

    def run_program(self, program: str, *arguments: object) -> subprocess.CompletedProcess[str]:
        """Runs ucpc or ucprun; a crash or a hang fails the test."""
        command = [str(PROGRAMS / program), *map(str, arguments)]
        result = subprocess.run(command, cwd=self.folder, capture_output=True, text=True, timeout=60, check=False)
        self.assertGreaterEqual(result.returncode, 0, f"{command} died of a signal: {result.stderr}")
        return result

    def convert(self, source: Path, *arguments: object) -> subprocess.CompletedProcess[str]:
        """Converts to the test's `out`."""
        return self.run_program("ucprun", "convert", source, self.out, "--to", "universal", *arguments)

    def assert_done(self, result: subprocess.CompletedProcess[str]) -> None:
        """It went well, and the result is there."""
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        self.assertTrue((self.out / "latest_universal").is_file())

    def assert_refused(self, result: subprocess.CompletedProcess[str], code: int, *words: str) -> None:
        """One sentence with these words, this exit code, and nothing is left of the target."""
        self.assertEqual(result.returncode, code, result.stderr)
        lines = result.stderr.splitlines()
        self.assertEqual(len([line for line in lines if ": error: " in line]), 1, result.stderr)
        self.assertRegex(lines[-1], r"^ucp(c|run): error: ")
        for word in words:
            self.assertIn(word, result.stderr)
        for internal in ("std::", "llvm", "0x7f", "Traceback", "terminate called"):
            self.assertNotIn(internal, result.stderr)
        self.assert_nothing_left()

    def assert_nothing_left(self) -> None:
        """Neither the destination nor a hidden folder or lock beside it."""
        left = [path.name for path in self.folder.iterdir() if path.name.lstrip(".").startswith("out")]
        self.assertEqual(left, [])
