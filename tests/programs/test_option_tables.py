"""The tables of options in docs/commands are those of the programs' help. With UCP_REWRITE=1 they are corrected."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import unittest

import generate_option_tables as tables

from programs import PROGRAMS, SOURCE, ProgramTest


class OptionTables(ProgramTest):
    """Of the pages, and of the script."""

    def test_pages_and_help_agree(self) -> None:
        """No page differs from the help."""
        options = [] if os.environ.get("UCP_REWRITE") == "1" else ["--check"]
        command = [sys.executable, "-B", tables.__file__, str(PROGRAMS), *options]
        result = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        self.assertEqual((result.returncode, result.stdout, result.stderr), (0, "", ""))

    def test_every_subcommand_has_a_table(self) -> None:
        """Exactly one; the two programs share those of `completion` and `help`, and that of the options of all."""
        text = "\n".join(page.read_text() for page in tables.pages())
        found = sorted(
            " ".join(match) for match in re.findall(r"^<!-- options of: (\w+)(?: ([\w -]+))? -->$", text, re.M)
        )
        expected = ["ucprun "]
        for program in ("ucpc", "ucprun"):
            for subcommand in tables.subcommands_of(PROGRAMS, program):
                if program == "ucprun" or subcommand not in ("completion", "help"):
                    expected.append(f"{program} {subcommand}")
        self.assertEqual(found, sorted(expected))
        self.assertEqual(len(tables.TABLE.findall(text)), len(found), "a table has no end")
        for shared in ("", "completion", "help"):
            rows = [tables.table_of(PROGRAMS, program, shared).split("|", 1)[1] for program in ("ucpc", "ucprun")]
            self.assertEqual(*rows)

    def test_every_option_has_a_row(self) -> None:
        """Each that the help shows, however its name is parted from its description."""
        count = 0
        for program in ("ucpc", "ucprun"):
            of_all = tables.table_of(PROGRAMS, program, "")
            for subcommand in tables.subcommands_of(PROGRAMS, program):
                shown = tables.help_of(PROGRAMS, program, subcommand)
                table = tables.table_of(PROGRAMS, program, subcommand) + of_all
                for option in re.findall(r"^  (?:-\w,)?(--[a-z-]+)", shown, re.MULTILINE):
                    self.assertRegex(table, rf"\n\| `(?:-\w, )?{option}[ `][^|\n]*(?:\\\|[^|\n]*)*\| \S", subcommand)
                    count += 1
        self.assertGreater(count, 150)

    def test_a_page_that_differs(self) -> None:
        """Is put right: an option that is missing, one that is not there, and another description."""
        page = (SOURCE / "docs" / "commands" / "ucpc-fmt.md").read_text()
        self.assertIn("| `--check` | Write nothing; ", page)
        for wrong in (
            re.sub(r"^\| `--check`.*\n", "", page, flags=re.MULTILINE),
            page.replace("| `--check`", "| `--none` | Is not there |\n| `--check`"),
            page.replace("Write nothing; ", "Write something; "),
        ):
            self.assertNotEqual(wrong, page)
            self.assertEqual(tables.rewritten(wrong, PROGRAMS), page)


if __name__ == "__main__":
    unittest.main()
