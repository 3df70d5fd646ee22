"""check_prose.py ROOT: fails on phrases that a reader has to read twice, in messages, comments and pages.

docs/style.md says what to write instead. Messages are texts of compiler/ and runtime/, and not those of tests.
"""

from __future__ import annotations

import io
import re
import sys
import tokenize
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

Text = tuple[str, str]  # The kind, and the text: a paragraph, a block of comments, the words of a message.


def texts_of_page(source: str) -> Iterator[Text]:
    for block in check_markdown.blocks_of(re.sub(r"^```.*?^```", "", source, flags=re.MULTILINE | re.DOTALL)):
        for cell in " ".join(line.strip() for line in block).split(" | "):
            yield "docs", cell.strip("|*- ")


def comments_of(source: str, mark: str) -> Iterator[Text]:
    for block in re.findall(rf"(?:^[ \t]*{mark}[^\n]*\n)+", source, re.MULTILINE):
        yield "comments", " ".join(line.strip().removeprefix(mark).strip() for line in block.splitlines())


def texts_of_cpp(source: str) -> Iterator[Text]:
    yield from comments_of(source, "//")
    for match in TOKEN.finditer(source):
        if match.group().startswith('"') and match.group().count(" ") > 2:
            yield "messages", match.group().strip('"')
        elif match.group().startswith("//") and source[: match.start()].rpartition("\n")[2].strip():
            yield "comments", match.group().removeprefix("//").strip()


def texts_of_python(source: str) -> Iterator[Text]:
    yield from comments_of(source, "#")
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT and token.line.strip() != token.string:
            yield "comments", token.string.lstrip("# ")
        elif token.string.startswith('"""'):
            for paragraph in token.string.strip('"').split("\n\n"):
                yield "comments", " ".join(paragraph.split())
        elif tokenize.tok_name[token.type] in ("STRING", "FSTRING_MIDDLE") and token.string.count(" ") > 2:
            yield "messages", token.string.strip("\"'")


READERS = {
    ".md": texts_of_page,
    ".h": texts_of_cpp,
    ".cpp": texts_of_cpp,
    ".cu": texts_of_cpp,
    ".py": texts_of_python,
    ".sh": lambda source: comments_of(source, "#"),
    ".txt": lambda source: comments_of(source, "#"),
    ".cmake": lambda source: comments_of(source, "#"),
}
TREES = ("cmake", "compiler", "examples", "runtime", "scripts", "tests")


def texts_of(root: Path) -> Iterator[tuple[str, str, str]]:
    """Kind, place and text. Style's own page and tests show what not to write."""
    sources = [path for tree in TREES for path in (root / tree).rglob("*") if path.suffix in READERS]
    sources = [path for path in sources if path.suffix != ".txt" or path.name == "CMakeLists.txt"]
    for path in sorted({*sources, *check_markdown.pages(root)}):
        name = path.relative_to(root).as_posix()
        if name == "docs/style.md" or name.startswith("tests/style/"):
            continue
        for kind, text in READERS[path.suffix](path.read_text()):
            if kind != "messages" or name.startswith(("compiler/", "runtime/")):
                yield kind, name, text


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
