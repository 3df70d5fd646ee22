"""The documents show the real output of the programs: every command in them is run.

In docs/language, docs/commands and docs/tutorial.md a block "```ucp NAME.ucp" is a file, and a block "```console" holds
commands behind "$ " with what they print, errors included. All of a page happens in one folder, in order, where
`fixtures` is tests/fixtures. With UCP_REWRITE=1 the blocks are corrected instead; read the difference as carefully as
code.
"""

from __future__ import annotations

import fnmatch
import os
import re
import subprocess
import unittest
from pathlib import Path

from programs import PROGRAMS, SOURCE, ProgramTest

BLOCK = re.compile(r"^```(ucp [\w.]+|console)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# Times, rates and peaks of memory differ from run to run.
MEASURED = re.compile(r"\d+(\.\d+)? s \(\d+(\.\d+)? [KMG]?B/s\), peak memory \d+(\.\d+)? [KMG]?B")


def without_blocks(text: str) -> str:
    """A page without its blocks of code."""
    return re.sub(r"^ *```.*?^ *```$", "", text, flags=re.MULTILINE | re.DOTALL)


def anchors_of(text: str) -> set[str]:
    """The anchors that GitHub gives the headings of a page; a second heading of the same words gets a number."""
    anchors: set[str] = set()
    for heading in re.findall(r"^#+ (.*)$", without_blocks(text), re.MULTILINE):
        words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
        anchor = re.sub(r"[^\w -]", "", words.lower()).replace(" ", "-")
        number = 0
        while (candidate := f"{anchor}-{number}" if number else anchor) in anchors:
            number += 1
        anchors.add(candidate)
    return anchors


class Documents(ProgramTest):
    """One page each."""

    def run_block(self, block: str) -> str:
        """The commands of a block, each with what it printed."""
        shown = ""
        for line in re.findall(r"^\$ (.*)$", block, re.MULTILINE):
            environment = {**os.environ, "PATH": f"{PROGRAMS}:{os.environ['PATH']}"}
            result = subprocess.run(
                ["bash", "-c", line],
                cwd=self.folder,
                env=environment,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=120,
                check=False,
            )
            shown += f"$ {line}\n{result.stdout}"
        return shown

    def run_page(self, page: Path) -> None:
        """Compares, or corrects."""
        (self.folder / "fixtures").symlink_to(SOURCE / "tests" / "fixtures")
        text = page.read_text()

        def run(found: re.Match[str]) -> str:
            kind, block = found[1], found[2]
            if kind != "console":
                (self.folder / kind.split()[1]).write_text(block)
                return found[0]
            shown = self.run_block(block)
            if MEASURED.sub("", shown) == MEASURED.sub("", block):
                return found[0]
            return f"```console\n{shown}```"

        right = BLOCK.sub(run, text)
        if os.environ.get("UCP_REWRITE") == "1":
            page.write_text(right)
        else:
            self.maxDiff = None
            self.assertEqual(text, right, f"{page.relative_to(SOURCE)}: UCP_REWRITE=1 corrects it")

    def test_pages(self) -> None:
        """All of them, each in a folder of its own."""
        docs = SOURCE / "docs"
        pages = [*sorted((docs / "language").glob("*.md")), *sorted((docs / "commands").glob("*.md"))]
        self.assertGreater(len(pages), 25)
        pages.append(docs / "tutorial.md")
        for page in pages:
            with self.subTest(page=page.name):
                self.setUp()
                self.run_page(page)

    def test_links_lead_somewhere(self) -> None:
        """To a file that is there, and a heading in it; and the overview leads to every page of the language."""
        folders = ("docs", "compiler", "runtime", "editors", "tests", ".")
        pages = {page for name in folders for page in (SOURCE / name).glob("*.md" if name == "." else "**/*.md")}
        self.assertGreater(len(pages), 100)
        followed = 0
        for page in sorted(pages):
            for link in re.findall(r"\]\(([^)\s:]+)\)", without_blocks(page.read_text())):
                name, _, anchor = link.partition("#")
                target = page.parent / name if name else page
                said = f"{page.relative_to(SOURCE)}: {link}"
                self.assertTrue(target.exists(), said)
                if anchor:
                    self.assertIn(anchor, anchors_of(target.read_text()), said)
                followed += 1
        self.assertGreater(followed, 300)
        overview = (SOURCE / "docs" / "language.md").read_text()
        for page in (SOURCE / "docs" / "language").glob("*.md"):
            self.assertIn(f"(language/{page.name})", overview)

    def test_tests_that_the_traps_name(self) -> None:
        """Files below tests/ with a test, a case or a fixture behind them, and tests of tests/unit."""
        tests = SOURCE / "tests"
        unit = "\n".join(path.read_text() for path in (tests / "unit").rglob("*_test.cpp"))
        cases = {path.name for path in (tests / "fixtures").iterdir()}
        tables = (SOURCE / "docs" / "deepspeed-traps.md").read_text().split("## In the files")[1]
        rows = [row for row in tables.splitlines() if row.startswith("| ") and not row.startswith("| what ")]
        self.assertGreater(len(rows), 50)
        named = 0
        for row in rows:
            file = suite = ""
            for word in re.findall(r"`([^`]+)`", re.split(r"(?<!\\)\|", row)[-2]):
                gtest = re.fullmatch(r"(\w*)\.(\w+|\*)", word)
                if word.endswith(".py"):
                    file = (tests / word).read_text()
                elif gtest and gtest[1] + gtest[2]:
                    suite = gtest[1] or suite
                    name = r"\w+" if gtest[2] == "*" else gtest[2]
                    self.assertRegex(unit, rf"TEST(_F|_P)?\({suite}, {name}\)", row)
                else:
                    case = word.split("-")[0]  # "zero2_dp2-dp4": a fixture on other ranks.
                    known = word in file or fnmatch.filter(cases, word) or case in cases
                    self.assertTrue(known, f"{word}: {row}")
                named += 1
        self.assertGreater(named, len(rows))


if __name__ == "__main__":
    unittest.main()
