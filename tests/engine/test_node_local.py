"""The real engine saves to the disks of two nodes (`use_node_local_storage`); the ranks of a conversion, one on each,
read the parts together, and the engine goes on from the result."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fixtures.cases import CASES, Mesh
from fixtures.fingerprints import differences
from fixtures.jobs import Job
from fixtures.serve import Engines
from test_acceptance import NOISE, OTHER_SEED
from universal import describe_states, read_states, tag_folder

TESTS = Path(__file__).parents[1]
STEPS = 4
# More ranks than processors, and as root in a container.
ENVIRONMENT = os.environ | {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMPI_MCA_rmaps_base_oversubscribe": "1",
    "OMPI_MCA_hwloc_base_binding_policy": "none",
    "OMPI_MCA_btl_vader_single_copy_mechanism": "none",
}

pytestmark = pytest.mark.skipif(
    shutil.which("mpirun") is None or not (Path(os.environ.get("UCP_BIN", "")) / "ucp_mpi.so").exists(),
    reason="needs mpirun and a build with MPI",
)


def save_on_two_nodes(name: str, folder: Path) -> dict[str, Any]:
    """The state of the engine when it saved."""
    command = [sys.executable, "-m", "fixtures.node_local", name, str(folder)]
    subprocess.run(command, cwd=TESTS, check=True, capture_output=True, timeout=240)
    return json.loads((folder / "answer.json").read_text())


def load_on_two_nodes(name: str, folder: Path, what: str, ranks: int) -> dict[str, Any]:
    """The state of the engine, each rank of which sees its own node alone, and the losses of two more steps."""
    command = [sys.executable, "-m", "fixtures.node_local", name, str(folder), what, str(ranks)]
    subprocess.run(command, cwd=TESTS, check=True, capture_output=True, timeout=240)
    return json.loads((folder / "answer.json").read_text())


def convert_on_two_nodes(
    ucprun: Path, folder: Path, to: str, out: str = "../ours", local: str = "source"
) -> subprocess.CompletedProcess[str]:
    """Each rank works on its node; the result is where both see it, or with another name a part on each."""
    command = ["mpirun"]
    for node in range(2):
        command += [*([":"] if node else []), "-n", "1", "--wdir", str(folder / f"node-{node}"), str(ucprun)]
        command += ["convert", "checkpoints", out, "--to", to, "--node-local", local]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, env=ENVIRONMENT)


@pytest.mark.parametrize("name", ["zero2_dp4", "zero3_dp4"])
def test_the_truth_of_two_nodes(name: str, ucprun: Path, tmp_path: Path) -> None:
    """No node has all partitions, and the second one has no `latest`."""
    answer = save_on_two_nodes(name, tmp_path)
    assert not (tmp_path / "node-1" / "checkpoints" / "latest").exists()
    result = convert_on_two_nodes(ucprun, tmp_path, "universal")
    assert result.returncode == 0, result.stderr
    states = describe_states(read_states(tag_folder(tmp_path / "ours")))
    assert differences(answer["saved"], states, ["parameter"]) == []


def test_the_engine_goes_on(ucprun: Path, engines: Engines, tmp_path: Path) -> None:
    """On two ranks, with the losses that four would have had."""
    case = CASES["zero2_dp4"]
    answer = save_on_two_nodes(case.name, tmp_path)
    result = convert_on_two_nodes(ucprun, tmp_path, "deepspeed:dp=2")
    assert result.returncode == 0, result.stderr
    job = Job(replace(case, mesh=Mesh(dp=2)), seed=OTHER_SEED, load=tmp_path / "ours", native=True, first_step=STEPS,
              further_steps=2)  # fmt: skip
    resumed = engines.ask(job)
    assert differences(answer["saved"], resumed["loaded"], ["parameter"]) == []
    assert resumed["losses"] == pytest.approx(answer["further_losses"], abs=NOISE[case.dtype])


def test_the_engine_loads_each_part_on_its_node(ucprun: Path, tmp_path: Path) -> None:
    """From four ranks on two nodes to two, of which each finds on its own disk all that it opens."""
    case = CASES["zero2_dp4"]
    answer = save_on_two_nodes(case.name, tmp_path)
    result = convert_on_two_nodes(ucprun, tmp_path, "deepspeed:dp=2", "ours", "source,destination")
    assert result.returncode == 0, result.stderr
    partitions = [sorted(path.name for path in tmp_path.glob(f"node-{node}/ours/*/*optim*")) for node in range(2)]
    assert [len(names) for names in partitions] == [1, 1]
    assert partitions[0] != partitions[1]
    resumed = load_on_two_nodes(case.name, tmp_path, "ours", 2)
    assert differences(answer["saved"], resumed["loaded"], ["parameter"]) == []
    assert resumed["losses"] == pytest.approx(answer["further_losses"], abs=NOISE[case.dtype])


def test_deepspeed_forgets_weights_of_other_tensor_ranks(ucprun: Path, tmp_path: Path) -> None:
    """Of a node, the first rank alone saves its weights: those of the second tensor-parallel rank are nowhere."""
    save_on_two_nodes("autotp_tp2_dp2", tmp_path)
    assert list(tmp_path.rglob("mp_rank_01_model_states.pt")) == []
    result = convert_on_two_nodes(ucprun, tmp_path, "universal")
    assert result.returncode == 2
    assert "`mp_rank_01_model_states.pt` is missing" in result.stderr
    assert not (tmp_path / "ours").exists()
