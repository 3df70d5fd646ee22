"""Tags and paths may have any characters that a file system takes. DeepSpeed's converter uses both as patterns."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from conftest import Run
from fixtures.cases import CASES, DEFAULT_SEED, Mesh
from fixtures.fingerprints import differences
from fixtures.jobs import Job
from fixtures.serve import Conversion, EngineError, Engines
from universal import FIXTURES, describe_states, read_states, tag_folder, truth_of

NAME = "zero2_dp1"
TAGS = ["a tag", "step[1]*?", "(x)+y$^|z", "épochë-✓ 四", "100%{done}\\", ".hidden", "--to", "it's \"so\"", "step4.pt"]


def tagged(tag: str, root: Path) -> Path:
    """The fixture under another tag."""
    source = FIXTURES / NAME / "checkpoint"
    root.mkdir(parents=True)
    shutil.copytree(source / (source / "latest").read_text(), root / tag)
    (root / "latest").write_text(tag)
    return root


@pytest.mark.parametrize("tag", TAGS)
def test_the_truth_under_any_tag(tag: str, run: Run, tmp_path: Path) -> None:
    """From the root, from the folder itself and from a file in it, in a path with the same characters."""
    place = tmp_path / tag
    root = tagged(tag, place / "source")
    for index, source in enumerate([root, root / tag, next((root / tag).glob("*optim_states.pt"))]):
        output = place / f"universal {index}"
        run("convert", source, output, "--to", "universal")
        assert differences(truth_of(NAME), describe_states(read_states(tag_folder(output))), ["parameter"]) == []
    run("convert", root, place / "native", "--to", "deepspeed:dp=4")
    assert (place / "native" / "latest").read_text() == tag
    assert len(list((place / "native" / tag).iterdir())) == 5


@pytest.mark.parametrize("native", [True, False], ids=["native", "universal"])
@pytest.mark.parametrize("tag", ["(x)+ $y ✓", "step[1]"])
def test_the_engine_finds_them(tag: str, native: bool, engines: Engines, run: Run, tmp_path: Path) -> None:
    """But for brackets, stars and question marks, which it takes for a pattern."""
    root = tagged(tag, tmp_path / "source")
    ours = tmp_path / "ours"
    run("convert", root, ours, "--to", "deepspeed:dp=2" if native else "universal")
    case = replace(CASES[NAME], mesh=Mesh(dp=2))
    job = Job(case, seed=DEFAULT_SEED + 1, load=ours, native=native, first_step=4, further_steps=1)
    if "[" in tag:
        with pytest.raises(EngineError, match=r"len\(self.ckpt_list\) > 0"):
            engines.ask(job)
        return
    assert differences(truth_of(NAME), engines.ask(job)["loaded"], ["parameter"]) == []


def test_deepspeed_converts_into_no_such_path(engines: Engines, tmp_path: Path) -> None:
    source = FIXTURES / NAME / "checkpoint"
    with pytest.raises(EngineError):
        engines.ask(Conversion(source / (source / "latest").read_text(), tmp_path / "a+(", inject=True))


