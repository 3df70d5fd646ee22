"""check_editors.py ROOT: fails if the syntax files of the editors have other words than the grammar."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path

LEXER = "grammar/UcpLexer.g4"
VIM = "editors/vim/syntax/ucp.vim"
VSCODE = "editors/vscode/syntaxes/ucp.tmLanguage.json"

# Names that the language gives a meaning, and that are no words of the grammar.
FUNCTIONS = {"pad", "ceil", "length", "count"}
CUT_RULES = "compiler/parse/expression_builder.cpp"


def keywords(lexer: str) -> set[str]:
    """The words that the lexer names."""
    return set(re.findall(r"^[A-Z]+: '([a-z]+)';", lexer, re.MULTILINE))


def cut_rules(parser: str) -> set[str]:
    """The rules that the parser knows."""
    return set(re.findall(r'CutRuleName\{"([a-z]+)"', parser))


def vim_words(syntax: str) -> set[str]:
    """The words of all `syntax keyword` lines that are not inside of comments."""
    words: set[str] = set()
    for line in re.findall(r"^syntax keyword \w+ (.*)$", syntax, re.MULTILINE):
        if not line.endswith("contained"):
            words.update(line.split())
    return words


def vim_rules(syntax: str) -> set[str]:
    """The cut rules."""
    found = re.search(r"ucpRule .*?\\%\(([a-z\\|]+)\\\)", syntax)
    return set(found[1].split("\\|")) if found else set()


def vscode_words(grammar: str) -> set[str]:
    """The words that stand between word boundaries."""
    words: set[str] = set()
    for pattern in json.loads(grammar)["repository"]["word"]["patterns"]:
        found = re.fullmatch(r"\\b\(?([a-z|]+)\)?\\b", pattern.get("match", ""))
        if found:
            words.update(found[1].split("|"))
    return words


def vscode_rules(grammar: str) -> set[str]:
    """The cut rules."""
    found = re.search(r"\(([a-z|]+)\)\\b", json.loads(grammar)["repository"]["cut"]["match"])
    return set(found[1].split("|")) if found else set()


def differences(name: str, wanted: set[str], there: set[str]) -> Iterator[str]:
    """A line for each word too few or too many."""
    for word in sorted(wanted - there):
        yield f"{name}: lacks `{word}`"
    for word in sorted(there - wanted):
        yield f"{name}: has `{word}`, which the language does not"


def problems(root: Path) -> Iterator[str]:
    """All of them."""
    words = keywords((root / LEXER).read_text()) | FUNCTIONS
    rules = cut_rules((root / CUT_RULES).read_text())
    if len(words) < 20 or len(rules) < 3:
        yield f"{LEXER} or {CUT_RULES} is written in a way that this test does not read"
    vim = (root / VIM).read_text()
    vscode = (root / VSCODE).read_text()
    yield from differences(VIM, words, vim_words(vim))
    yield from differences(VIM, rules, vim_rules(vim))
    yield from differences(VSCODE, words, vscode_words(vscode))
    yield from differences(VSCODE, rules, vscode_rules(vscode))


def main() -> int:
    """Prints the problems."""
    found = list(problems(Path(sys.argv[1])))
    for problem in found:
        print(problem)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
