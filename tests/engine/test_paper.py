"""The scripts behind docs/paper.md: a run of each outcome of table 1."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from fixtures.serve import Engines

sys.path.insert(0, str(Path(__file__).parents[1] / "bench" / "paper"))

from coverage_rows import rows
from frameworks import Bench, Verdict, judge, sentence_of

BY_RANK = "FSDP2 4 → 2, metadata of each rank by itself"
INTO_MEGATRON = "FSDP2 4 → Megatron Core"


@pytest.mark.parametrize(("layouts", "theirs", "ours"), [
    (BY_RANK, "**silently wrong**", "ok"), (INTO_MEGATRON, "error", "error"),
])  # fmt: skip
def test_outcomes(layouts: str, theirs: str, ours: str, engines: Engines, tmp_path: Path) -> None:
    bench = Bench(tmp_path, engines)
    row = next(row for row in rows() if row.layouts == layouts)
    assert judge(lambda: row.theirs(bench)).word == theirs
    verdict = judge(lambda: row.ours(bench))
    assert verdict.word == ours
    if ours == "error":
        assert verdict.sentence.startswith("the tensors are not called as Megatron Core calls them")


def test_sentences() -> None:
    log = "rank 0 of 2: ended\nTraceback:\n  File x\n    assert a == b\nAssertionError\n[W] left over"
    assert sentence_of(log) == "AssertionError: assert a == b"
    assert sentence_of("RuntimeError: CheckpointingException: no key in /tmp/a/b/c") == (
        "CheckpointingException: no key in …/c"
    )
    assert judge(lambda: []) == Verdict("ok")
    assert judge(lambda: ["a fp32 differs", "a exp_avg differs"]).sentence.startswith("2 states of 1 tensors")
