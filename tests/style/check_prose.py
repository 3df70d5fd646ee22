"""check_prose.py ROOT: fails on phrases that a reader has to read twice, in messages, comments and pages.

docs/style.md says what to write instead.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import check_markdown
from check_libraries import TOKEN

# A sentence that begins with a relative clause has its subject last.
PATTERNS = {
    "a sentence that begins with What, Who or Which": re.compile(
        r"(?:^|(?<=[.!:;] ))(?:What|Who|Which)\b[^?]*?(?:[.:;]|$)"
    ),
    '"is no" for "is not a"': re.compile(r"(?<!here )\b(?:is|are|was|were) no\b(?! longer| more)"),
    '"is told" or "is said"': re.compile(r"\b(?:is|are|was|were) (?:told|said)\b"),
    '"goes on with", "gone on with"': re.compile(r"\b(?:goes|gone|go) on with\b"),
    '", too" at the end of a clause': re.compile(r", too(?=[.,;:)]|$)"),
    '"such as is"': re.compile(r"\bsuch as (?:is|are)\b"),
    '"besides" as an adverb': re.compile(r"\b[Bb]esides(?=[.,;:)]|$)|\b(?:and|which|but) besides\b"),
}


def texts_of(root: Path) -> Iterator[tuple[str, str, str]]:
    """Kind, place and text: paragraphs of pages, blocks of comments, and the words of messages."""
    for page in check_markdown.pages(root):
        if page.name == "style.md":  # It shows what not to write.
            continue
        text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
        for block in check_markdown.blocks_of(text):
            for cell in " ".join(line.strip() for line in block).split(" | "):
                yield "docs", str(page.relative_to(root)), cell.strip("|*- ")
    for tree in ("compiler", "runtime"):
        for path in sorted((root / tree).rglob("*")):
            if path.suffix not in (".h", ".cpp"):
                continue
            source = path.read_text()
            for block in re.findall(r"(?:^[ \t]*//[^\n]*\n)+", source, re.MULTILINE):
                words = " ".join(line.strip().removeprefix("//").strip() for line in block.splitlines())
                yield "comments", str(path.relative_to(root)), words
            for match in TOKEN.finditer(source):
                if match.group().startswith('"') and match.group().count(" ") > 2:
                    yield "messages", str(path.relative_to(root)), match.group().strip('"')


def found_in(root: Path) -> Iterator[tuple[str, str, str, str]]:
    for kind, place, text in texts_of(root):
        for name, pattern in PATTERNS.items():
            for match in pattern.finditer(text):
                yield kind, place, name, text[max(0, match.start() - 30) : match.end() + 30]


def main() -> int:
    found = list(found_in(Path(sys.argv[1])))
    for kind, place, name, around in found:
        print(f"{place}: {kind}: {name}: …{around}…")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
