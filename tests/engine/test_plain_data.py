"""Every `.pt` file that we write is plain data, but for the objects that docs/formats.md lists."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch

from fixtures.cases import CASES, Case
from matrix import reason

PAGE = Path(__file__).parents[2] / "docs" / "formats.md"
NATIVE = {
    "stage 0": "deepspeed:zero=0",
    "stage 1": "deepspeed:zero=1,dtype=bf16,optimizer=bf16",
    "stage 2": "deepspeed:zero=2",
    "stage 3": "deepspeed:zero=3",
}

Object = tuple[str, str, str]  # Format, kind of file, class.


def listed() -> set[Object]:
    """The table of the page: format, files, objects, why."""
    section = PAGE.read_text().split("## What is not plain data\n")[1].split("\n## ")[0]
    rows = [re.findall(r"`([^`]+)`", row.rsplit("|", 2)[0]) for row in section.splitlines() if row.startswith("| `")]
    return {(row[0], row[1], name) for row in rows for name in row[2:]}


def targets_of(case: Case) -> Iterator[str]:
    """One of each form that can be written; of an elastic source, one that wants no settings of the optimizer."""
    yield "universal"
    is_elastic = bool(case.zero.get("elastic_checkpoint"))
    stages = (stage for stage in NATIVE if not is_elastic or stage == "stage 2")
    yield from (NATIVE[stage] for stage in stages if reason("native", case, stage) is None)


def objects_in(name: str, convert: Callable[..., Path]) -> set[Object]:
    """Objects that are not plain data in any file that we write of a fixture."""
    allowed = listed()
    seen = set()
    for to in targets_of(CASES[name]):
        files = sorted(convert(name, to).rglob("*.pt"))
        assert files
        for file in files:
            kinds = [kind for form, kind, _ in allowed if form == to.split(":")[0] and fnmatch.fnmatch(file.name, kind)]
            objects = set(torch.serialization.get_unsafe_globals_in_checkpoint(file))
            if not objects:
                torch.load(file, weights_only=True)
            assert not objects or kinds, f"{file}: {objects}"
            seen |= {(to.split(":")[0], kinds[0], found) for found in objects}
    return seen


@pytest.fixture(autouse=True)
def nothing_more_is_safe() -> Iterator[None]:
    """Megatron Core declares classes as safe when it is imported, also by another test of this process."""
    declared = torch.serialization.get_safe_globals()
    torch.serialization.clear_safe_globals()
    yield
    torch.serialization.add_safe_globals(declared)


@pytest.mark.parametrize("name", CASES)
def test_files_are_plain_data(name: str, convert: Callable[..., Path]) -> None:
    assert objects_in(name, convert) <= listed()


def test_what_the_page_lists_is_there(convert: Callable[..., Path]) -> None:
    """In the files of some fixture. The other tests may have run in another process."""
    missing = listed()
    for name in CASES:
        missing -= objects_in(name, convert)
        if not missing:
            return
    assert missing == set()
