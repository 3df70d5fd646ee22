"""`ucpc fmt`: files are replaced as a whole or not at all, and ours are in the form."""

from __future__ import annotations

import os
import re
import subprocess
import unittest
from pathlib import Path

from programs import PROGRAMS, SOURCE, ProgramTest

UNTIDY = "ucp 1\ndim a from args.x\ndim bbb from args.y\n"
TIDY = "ucp 1\ndim a    from args.x\ndim bbb  from args.y\n"


class Fmt(ProgramTest):
    """The effect on files."""

    def setUp(self) -> None:
        """One spec that is not in the form."""
        super().setUp()
        self.spec = self.folder / "spec.ucp"
        self.spec.write_text(UNTIDY)

    def fmt(self, *arguments: object, stdin: str = "") -> subprocess.CompletedProcess[str]:
        """Runs `ucpc fmt` in the test's folder."""
        return subprocess.run(
            [str(PROGRAMS / "ucpc"), "fmt", *map(str, arguments)],
            input=stdin,
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    def test_a_file_is_rewritten_and_keeps_its_permissions(self) -> None:
        """And a second run leaves it alone, to the inode."""
        self.spec.chmod(0o640)
        self.assertEqual(self.fmt(self.spec).returncode, 0)
        self.assertEqual(self.spec.read_text(), TIDY)
        self.assertEqual(self.spec.stat().st_mode & 0o777, 0o640)
        before = self.spec.stat().st_ino
        self.assertEqual(self.fmt(self.spec).returncode, 0)
        self.assertEqual(self.spec.stat().st_ino, before)
        self.assertEqual([path.name for path in self.folder.iterdir()], ["spec.ucp"])

    def test_a_link_stays_a_link(self) -> None:
        """The file that it leads to is rewritten."""
        link = self.folder / "link.ucp"
        link.symlink_to(self.spec)
        self.assertEqual(self.fmt(link).returncode, 0)
        self.assertTrue(link.is_symlink())
        self.assertEqual(self.spec.read_text(), TIDY)

    def test_check_lists_and_writes_nothing(self) -> None:
        """Exit code 1 only if there is something to list."""
        tidy = self.folder / "tidy.ucp"
        tidy.write_text(TIDY)
        result = self.fmt("--check", "tidy.ucp", "spec.ucp")
        self.assertEqual((result.returncode, result.stdout), (1, "spec.ucp\n"))
        self.assertIn("1 spec is not formatted", result.stderr)
        self.assertEqual(self.spec.read_text(), UNTIDY)
        self.assertEqual(self.fmt("--check", tidy).returncode, 0)

    def test_standard_input(self) -> None:
        """A filter, byte for byte: also what a terminal would not like."""
        result = self.fmt("-", stdin=UNTIDY + "// tab\there, \x1b[1m\n")
        self.assertEqual((result.returncode, result.stdout), (0, TIDY + "// tab\there, \x1b[1m\n"))

    def test_a_spec_with_errors_is_left_alone(self) -> None:
        """Others are formatted all the same."""
        wrong = self.folder / "wrong.ucp"
        wrong.write_text("ucp 1\nlayuot  l {}\n")
        result = self.fmt(wrong, self.spec)
        self.assertEqual(result.returncode, 1)
        self.assertIn("wrong.ucp:2:1: error:", result.stderr)
        self.assertEqual(wrong.read_text(), "ucp 1\nlayuot  l {}\n")
        self.assertEqual(self.spec.read_text(), TIDY)

    def test_a_name_of_the_catalogue(self) -> None:
        """As everywhere where a spec is named; those are in the form."""
        result = self.fmt("--check", "gpt2", "spec.ucp")
        self.assertEqual((result.returncode, result.stdout), (1, "spec.ucp\n"))

    def test_a_missing_file(self) -> None:
        """The world went wrong: exit code 2."""
        self.assertEqual(self.fmt("missing.ucp").returncode, 2)

    @unittest.skipIf(os.geteuid() == 0, "root may write everywhere")
    def test_a_folder_without_permission(self) -> None:
        """The file stays as it was."""
        self.folder.chmod(0o500)
        self.addCleanup(self.folder.chmod, 0o700)
        result = self.fmt(self.spec)
        self.assertEqual(result.returncode, 2)
        self.assertIn("it stays as it was", result.stderr)


class OurSpecs(ProgramTest):
    """We keep the form ourselves; `ucpc fmt FILE` mends what this finds."""

    def assert_tidy(self, name: str, text: str, *, shows_an_error: bool = False) -> None:
        """Formatting changes nothing. A spec with a syntax error has no form."""
        result = subprocess.run(
            [str(PROGRAMS / "ucpc"), "fmt", "-"], input=text, capture_output=True, text=True, timeout=60, check=False
        )
        if shows_an_error and result.returncode == 1:
            return
        self.assertEqual((result.returncode, result.stderr), (0, ""), name)
        self.assertEqual(result.stdout, text, f"{name}: run `ucpc fmt` on it")

    def test_the_catalogue(self) -> None:
        """All specs that are installed."""
        for path in sorted((SOURCE / "specs").rglob("*.ucp")):
            self.assert_tidy(str(path.relative_to(SOURCE)), path.read_text())

    def test_the_documents(self) -> None:
        """Whole specs in documents, which are marked as `ucp`."""
        found = 0
        for path in [*sorted((SOURCE / "docs").rglob("*.md")), SOURCE / "README.md"]:
            marked = r"^```ucp(?: [\w.]+)?\n(.*?)^```$"
            for block in re.findall(marked, Path(path).read_text(), re.MULTILINE | re.DOTALL):
                if not re.search(r"^ucp 1$", block, re.MULTILINE):
                    continue
                found += 1
                shows_an_error = path.parent.name == "diagnostics"
                self.assert_tidy(str(path.relative_to(SOURCE)), block, shows_an_error=shows_an_error)
        self.assertGreater(found, 0)


if __name__ == "__main__":
    unittest.main()
