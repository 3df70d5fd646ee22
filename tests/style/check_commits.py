"""check_commits.py ROOT: fails on the title of a commit that is not `area: what it does` in 72 characters.

Commits up to BASE are older than the rule. Merges have the title that git gives them. Where there is no repository, or
BASE is not in it (a shallow clone, an archive), nothing is checked, and the script says so.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator

BASE = "0b634581f22aa8b34d22c42e060666fe48549e8e"
MOST_CHARACTERS = 72
TITLE = re.compile(r"[A-Za-z0-9_./+-][A-Za-z0-9_./+, -]{0,39}: \S.*[^.\s]")


def problems_of(commit: str, title: str) -> Iterator[str]:
    if not TITLE.fullmatch(title):
        yield f"{commit}: `{title}`: a title is `area: what it does`, without a full stop"
    if len(title) > MOST_CHARACTERS:
        yield f"{commit}: `{title}` has {len(title)} characters; a title has at most {MOST_CHARACTERS}"


def git(root: str, *arguments: str) -> str | None:
    """The output of git, or nothing if git is missing or refuses."""
    try:
        result = subprocess.run(["git", "-C", root, *arguments], capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return None
    return result.stdout if result.returncode == 0 else None


def titles_since(root: str, base: str) -> list[tuple[str, str]] | None:
    """Commits behind `base` with their titles, or nothing if `base` is not among the ancestors of HEAD."""
    if git(root, "merge-base", "--is-ancestor", base, "HEAD") is None:
        return None
    listed = git(root, "log", "--no-merges", "--format=%h %s", f"{base}..HEAD")
    if listed is None:
        return None
    return [(commit, title) for commit, _, title in (line.partition(" ") for line in listed.splitlines())]


def main() -> int:
    titles = titles_since(sys.argv[1], BASE)
    if titles is None:
        print(f"NOT CHECKED: titles of commits; {BASE} is not in the history that is here")
        return 0
    found = [problem for commit, title in titles for problem in problems_of(commit, title)]
    for problem in found:
        print(problem)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
