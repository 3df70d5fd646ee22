"""The commands of docs/recipes.md are run, in a folder with the fixtures. tests/engine runs the pieces of Python."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "recipes.md"
# Takes the place of Slurm's: the options are its own.
SRUN = """#!/bin/bash
while [[ $1 == --* ]]; do shift; done
exec "$@"
"""


def blocks_of(kind: str) -> list[str]:
    """The page's blocks of code of a kind."""
    return re.findall(rf"^```{kind}\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)


def run(script: str, place: Path, programs: Path, **variables: str) -> str:
    """Both outputs of a script in `place`, with the programs in front of all others."""
    environment = os.environ | {"PATH": f"{programs}:{os.environ['PATH']}"} | variables
    result = subprocess.run(["bash", "-c", script], cwd=place, env=environment, stdout=subprocess.PIPE, text=True,
                            stderr=subprocess.STDOUT, timeout=60, check=False)  # fmt: skip
    return result.stdout


def programs_in(place: Path, ucprun: Path, **scripts: str) -> Path:
    """A folder with `ucprun` and these scripts."""
    programs = place / "programs"
    programs.mkdir()
    (programs / "ucprun").symlink_to(ucprun.resolve())
    for name, text in scripts.items():
        (programs / name).write_text(text)
        (programs / name).chmod(0o755)
    return programs


def test_commands(fixtures: Path, ucprun: Path, tmp_path: Path) -> None:
    """Each prints what the page says; `python` is this interpreter."""
    programs = programs_in(tmp_path, ucprun, python=f'#!/bin/bash\nexec {sys.executable} "$@"\n')
    place = tmp_path / "place"
    place.mkdir()
    (place / "fixtures").symlink_to(fixtures)
    blocks = blocks_of("console")
    assert len(blocks) >= 3
    for block in blocks:
        lines = re.findall(r"^\$ (.*)$", block, re.MULTILINE)
        assert "".join(f"$ {line}\n{run(line, place, programs)}" for line in lines) == block


def test_job_of_slurm(fixtures: Path, ucprun: Path, tmp_path: Path) -> None:
    """It converts for its number of tasks, and starts the script with the folder; the second time nothing is left to
    convert."""
    programs = programs_in(tmp_path, ucprun, srun=SRUN, python='#!/bin/bash\necho "$@"\n')
    shutil.copytree(fixtures / "zero2_dp4" / "checkpoint", tmp_path / "checkpoints")
    (script,) = blocks_of("bash")
    resumed = tmp_path / "resumed-global_step4-2"
    for _ in range(2):
        said = run(script, tmp_path, programs, SCRATCH=str(tmp_path), SLURM_NTASKS="2")
        assert said.splitlines()[-1] == f"train.py --load {resumed} --save {tmp_path / 'checkpoints'}"
        assert len(list(resumed.glob("global_step4/*_optim_states.pt"))) == 2
