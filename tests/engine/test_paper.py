"""The scripts behind docs/paper.md: a run of each outcome of table 1, small runs of the figures, and their pictures."""

from __future__ import annotations

import os
import re
import shutil
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from fixtures.cases import Mesh
from fixtures.serve import Engines

sys.path.insert(0, str(Path(__file__).parents[1] / "bench" / "paper"))

import conversion
import coverage
import curves
import loading
import page
from coverage_rows import rows
from curve_picture import draw
from curve_runs import Curve, Layout, Model, Run, Runs
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


@pytest.fixture
def runs(engines: Engines, tmp_path: Path) -> Runs:
    return Runs(Bench(tmp_path, engines), steps=2)


def test_curves(runs: Runs) -> None:
    """Each way of a small model."""
    model = Model("gpt", "gpt_pp2_tp2_dp2", "megatron_deepspeed_gpt")
    source, target = Layout(model, Mesh(tp=2)), Layout(model, Mesh(pp=2))
    for way in ("convert", "deepspeed", "never"):
        curve = runs.curve(Run(source, target, "fp32", way))
        assert (curve.states, curve.differ) == ((0, 0) if way == "never" else (156, 0))
        assert curve.furthest < 5e-6
    own = runs.curve(Run(source, source, "fp32", "own"))
    assert own.resumed == own.whole[2:]


def test_curves_of_shared_positions(runs: Runs) -> None:
    """Positions that two ranks share give the losses of one that has them all."""
    model = Model("gpt_no_pipeline", "gpt_pp2_tp2_dp2", "megatron_deepspeed_gpt_no_pipeline")
    curve = runs.curve(Run(Layout(model, Mesh()), Layout(model, Mesh(sp=2), stage=2), "fp32"))
    assert (curve.states, curve.differ) == (156, 0)
    assert curve.furthest < 5e-6


SMALL = {"layers": 2, "hidden": 32, "heads": 4, "ffn": 64, "vocab": 256, "seq": 16}


@pytest.mark.skipif(
    shutil.which("mpirun") is None or not (Path(os.environ.get("UCP_BIN", "")) / "ucp_mpi.so").exists(),
    reason="needs mpirun and a build with MPI",
)
def test_timed_figures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A round of each that needs no other converter."""
    monkeypatch.setattr(loading, "RANKS", (1, 2))
    found = [loading.Way(**way) for way in loading.measure(tmp_path, 1, SMALL)["ways"]]
    assert [len(way.seconds) for way in found] == [1] * 6
    shared, alone = (way.read for way in found if (way.ranks, way.source) == (2, "universal"))
    assert shared < alone
    for way, command in conversion.ways(tmp_path / "source", tmp_path / "out", "10MB", SMALL):
        if way.name in ("ucprun, 2 threads", "ucprun, 2 ranks"):
            conversion.run(way, command, tmp_path / "out")
            assert len(way.seconds) == 1


PAGE = page.PAGE.read_text()
CURVES = re.findall(r"^<!-- curves\.py, (.*) -->$", PAGE, re.MULTILINE)
TIMED = [script for script in (conversion, loading) if f"<!-- {script.__name__}.py -->" in PAGE]


def part_of(script: str) -> str:
    """Of the page, what the script wrote."""
    return PAGE.split(f"<!-- {script} -->\n")[1].split(f"<!-- end of {script} -->\n")[0]


@pytest.mark.parametrize("script", TIMED)
def test_page_of_a_timed_figure(script: Any) -> None:
    """The page and the picture are made of what was measured."""
    data = page.kept(script.NAME)
    assert data is not None
    assert part_of(f"{script.__name__}.py") == script.text_of(data)
    assert (page.PICTURES / f"{script.NAME}.svg").read_text() == script.picture(data)


def test_page_of_coverage() -> None:
    """Figure 8 has rows of table 1."""
    lines = list(coverage.known().values())
    assert part_of("coverage.py, figure 8") == coverage.figure_8(lines)
    rows_of_page = [line for line in part_of("coverage.py").splitlines() if line.startswith("| ")]
    assert len(rows_of_page) == 1 + len(lines)


@pytest.mark.parametrize("name", CURVES)
def test_page_of_curves(name: str) -> None:
    """The same, of figures 7 to 9."""
    data = page.kept(name)
    assert data is not None
    assert part_of(f"curves.py, {name}") == curves.text_of(name, data)
    assert (page.PICTURES / f"{name}.svg").read_text() == draw(curves.curves_of(data))


def test_picture() -> None:
    """A line for each run, and a difference that is that of the losses."""
    shown = [Curve("a", f"b{number}", "fp32", "convert", [3.0, 2.0, 1.5, 1.25], [1.5, 1.0 + number], 9, 0)
             for number in range(4)]  # fmt: skip
    assert shown[2].off == [0.0, 1.75]
    lines = ElementTree.fromstring(draw(shown)).findall("{http://www.w3.org/2000/svg}polyline")
    assert len(lines) == 1 + 2 * len(shown)
