"""`ucpc explain-error`: a page for each kind of diagnostic. That the pages are true is tested by `diagnostic_pages`."""

from __future__ import annotations

import re
import unittest

from programs import SOURCE, ProgramTest


class ExplainError(ProgramTest):
    """Its output."""

    def test_every_kind_has_its_page(self) -> None:
        """As it stands in the documents."""
        kinds = re.findall(
            r'^UCP_DIAGNOSTIC\(\w+, "([^"]+)"',
            (SOURCE / "compiler" / "diagnostics" / "kinds.def").read_text(),
            re.MULTILINE,
        )
        self.assertGreater(len(kinds), 40)
        for kind in kinds:
            result = self.run_program("ucpc", "explain-error", kind)
            self.assertEqual((result.returncode, result.stderr), (0, ""))
            self.assertEqual(result.stdout, (SOURCE / "docs" / "diagnostics" / f"{kind}.md").read_text())
        listed = self.run_program("ucpc", "explain-error").stdout.splitlines()
        self.assertEqual([line.split()[0] for line in listed], kinds)

    def test_a_misspelt_kind(self) -> None:
        """The nearest one is named."""
        result = self.run_program("ucpc", "explain-error", "unevencut")
        self.assertEqual(result.returncode, 1)
        self.assertIn("did you mean `uneven-cut`?", result.stderr)
        self.assertEqual(self.run_program("ucpc", "explain-error", "").returncode, 1)
        self.assertIn("lists them all", self.run_program("ucpc", "explain-error", "nothing-like-it").stderr)


if __name__ == "__main__":
    unittest.main()
