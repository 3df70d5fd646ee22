"""check_markdown.py ROOT [--wrap]: fails on a line of Markdown that is over 120 characters and can be broken.

Tables, blocks of code, headings and lines of one word (a link, a picture) may be longer. With --wrap the script breaks
the lines of each paragraph that has a long one; it changes nothing else.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

MOST_CHARACTERS = 120
FOLDERS = ("docs", "compiler", "runtime", "editors", "examples", "tests", ".")

FENCE = re.compile(r" *```")
ITEM = re.compile(r" *(?:[-*] |\d+\. )")
# Lines that stay as they are: headings, rows of tables, comments and other HTML, quotes, pictures, blocks by indent.
FIXED = re.compile(r"#|\s*\||\s*<|>|!\[|\s{5,}")
# Code and the target of a link are not broken; a blank in code is glued while the lines are made.
CODE = re.compile(r"`[^`]+`")
GLUE = "\0"
# A word that would begin a list, a heading, a quote or a table if a line began with it.
OPENS = re.compile(r"[-+*#>|=]+$|\d+[.)]$|[>|]")


def pages(root: Path) -> list[Path]:
    return sorted({page for name in FOLDERS for page in (root / name).glob("*.md" if name == "." else "**/*.md")})


def blocks_of(text: str) -> Iterator[list[str]]:
    """The lines of a page: paragraphs and items of lists, and each other line by itself."""
    block: list[str] = []
    in_code = False
    for line in text.splitlines():
        fence = FENCE.match(line) is not None
        if in_code or fence or not line.strip() or FIXED.match(line):
            if block:
                yield block
            block = []
            yield [line]
            in_code = in_code != fence
        elif ITEM.match(line) and block:
            yield block
            block = [line]
        else:
            block.append(line)
    if block:
        yield block


def wrapped(block: list[str]) -> list[str]:
    """The same words in lines that are as full as possible, those of an item below one another."""
    first = block[0]
    item = ITEM.match(first)
    hanging = " " * (item.end() if item else len(first) - len(first.lstrip()))
    start = item.group() if item else hanging
    text = " ".join(line.strip() for line in block)[len(start.strip()) :].strip()
    words = CODE.sub(lambda match: match.group().replace(" ", GLUE), text).split(" ")
    lines, line = [], start
    for i, word in enumerate(words):
        with_word = line + ("" if line in (start, hanging) else " ") + word
        # The word behind this one may have to stay on its line.
        tail = f" {words[i + 1]}" if i + 1 < len(words) and OPENS.match(words[i + 1]) else ""
        if len(with_word + tail) > MOST_CHARACTERS and line not in (start, hanging) and not OPENS.match(word):
            lines.append(line)
            line = hanging + word
        else:
            line = with_word
    return [line.replace(GLUE, " ") for line in [*lines, line]]


def pieces_of(text: str) -> Iterator[tuple[list[str], list[str]]]:
    """Each block of a page, and what it should be."""
    in_code = False
    for block in blocks_of(text):
        fence = FENCE.match(block[0]) is not None
        loose = not in_code and not fence and block[0].strip() and not FIXED.match(block[0])
        in_code = in_code != fence
        long = any(len(line) > MOST_CHARACTERS for line in block)
        yield block, wrapped(block) if loose and long else block


def wrapped_page(text: str) -> str:
    return "".join(f"{line}\n" for _, right in pieces_of(text) for line in right)


def problems_of(name: str, text: str) -> Iterator[str]:
    number = 1
    for block, right in pieces_of(text):
        if block != right:
            yield f"{name}:{number}: a line over {MOST_CHARACTERS} characters; check_markdown.py . --wrap breaks it"
        number += len(block)


def main() -> int:
    root = Path(sys.argv[1])
    found = []
    for page in pages(root):
        text = page.read_text()
        if "--wrap" in sys.argv[2:] and wrapped_page(text) != text:
            page.write_text(wrapped_page(text))
        found += problems_of(str(page.relative_to(root)), page.read_text())
    for problem in found:
        print(problem)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
