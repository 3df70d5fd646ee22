"""check_sources.py ROOT: fails on a source that is not built, not introduced, or too long, and on a full folder."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

MOST_LINES = 400
MOST_SOURCES = 20
TREES = ("compiler", "runtime", "tests/unit", "tests/golden", "tests/oracle", "tests/conformance")


def build_file_of(source: Path, root: Path) -> Path | None:
    """The nearest CMakeLists.txt at or above the source's folder."""
    for folder in source.parents:
        if (folder / "CMakeLists.txt").exists():
            return folder / "CMakeLists.txt"
        if folder == root:
            break
    return None


def is_built(source: Path, root: Path) -> bool:
    build_file = build_file_of(source, root)
    if build_file is None:
        return False
    name = source.relative_to(build_file.parent).as_posix()
    words = build_file.read_text().replace("(", " ").replace(")", " ").split()
    return name in words


def problems_of(source: Path, root: Path) -> Iterator[str]:
    name = source.relative_to(root)
    text = source.read_text()
    lines = text.count("\n")
    if lines > MOST_LINES:
        yield f"{name}: {lines} lines; a file over {MOST_LINES} holds two ideas: name them, and make two files"
    if source.suffix in (".cpp", ".cu") and not is_built(source, root):
        yield f"{name}: stands in no CMakeLists.txt, so it is never compiled"
    if source.suffix == ".h":
        if not text.startswith("//"):
            yield f"{name}: a header opens with a comment that says what it is"
        if "\n#pragma once\n" not in text:
            yield f"{name}: has no `#pragma once`"


def full_folders(root: Path) -> Iterator[str]:
    """Folders with too many sources, those of their sub-folders not counted."""
    for tree in TREES:
        counts = Counter(source.parent for source in (root / tree).rglob("*.cpp"))
        for folder, count in sorted(counts.items()):
            if count > MOST_SOURCES:
                yield (
                    f"{folder.relative_to(root)}: {count} sources; a folder over {MOST_SOURCES} holds two ideas: "
                    "name them, and make two folders"
                )


def problems(root: Path) -> Iterator[str]:
    yield from full_folders(root)
    for tree in TREES:
        for source in sorted((root / tree).rglob("*")):
            if source.suffix in (".h", ".cpp", ".cu"):
                yield from problems_of(source, root)


def main() -> int:
    found = list(problems(Path(sys.argv[1]).resolve()))
    for problem in found:
        print(problem)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
