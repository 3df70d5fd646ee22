"""AutoEP in a pipeline: which stages and ranks DeepSpeed has, and where an optimizer has what AutoEP made.

That the engine resumes from our files, and saves them again, is in test_native.py.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from conftest import Run
from fixtures.cases import CASES, DEFAULT_SEED, NO_CLIPPING, Case, Mesh
from fixtures.fingerprints import differences
from fixtures.jobs import Job
from fixtures.serve import EngineError, Engines
from native import differences_of_files, read_files
from spoken import refused
from universal import FIXTURES, describe_states, read_states, tag_folder, truth_of

NAME = "autoep_pp2_ep2_dp4"

REFUSED = {
    "deepspeed:pp=6+2,dp=2": "pp=2: stage 1 has no layer with experts, and DeepSpeed's AutoEP does not start where",
    "deepspeed:pp=2,dp=2,ep=4": "2 data-parallel ranks do not divide into groups that share the experts out",
    "deepspeed:pp=2,dp=2,zero=2": "DeepSpeed runs a PipelineModule at stages 0 and 1 only",
    "deepspeed:pp=2,dp=2,zero=0": "zero=0 with dtype=bf16 in a pipeline",
}


@pytest.mark.parametrize("strategy", REFUSED)
def test_degrees_that_deepspeed_has_not(strategy: str, ucprun: Path, tmp_path: Path) -> None:
    source = FIXTURES / NAME / "checkpoint"
    assert REFUSED[strategy] in refused(ucprun, source, tmp_path / "out", "--to", strategy)


def spec_with_tensor_parallelism() -> str:
    """Cuts the embedding, and nothing else."""
    shapes = {name: entry["shape"] for name, entry in truth_of(NAME)["tensors"].items()}
    dims = {name: ", ".join(map(str, shape)) for name, shape in shapes.items()} | {"0.weight": "101, 16@tp"}
    lines = [
        f'  "{name}" [{text.replace("4", "4@ep") if ".experts." in name else text}]' for name, text in dims.items()
    ]
    return "\n".join(["ucp 1", "mesh pp, dp, tp, edp, ep", "layout small {", *lines, "}", ""])


def test_tensor_parallelism_beside_both(ucprun: Path, run: Run, tmp_path: Path) -> None:
    run("convert", FIXTURES / NAME / "checkpoint", tmp_path / "one", "--to", "deepspeed:pp=1,dp=2,ep=2")
    (tmp_path / "small.ucp").write_text(spec_with_tensor_parallelism())
    options = ["--to", "deepspeed:tp=2,dp=2,ep=2", "--spec", tmp_path / "small.ucp"]
    message = refused(ucprun, tmp_path / "one", tmp_path / "out", *options)
    assert "in a pipeline DeepSpeed does not start it beside tensor parallelism, and tp=2" in message
    assert refused(ucprun, tmp_path / "one", tmp_path / "out", *options[:2]) == message  # No spec is asked for.


def test_a_stage_without_experts_does_not_start(engines: Engines) -> None:
    """The words of the refusal. Of three stages, as the model deals its layers, the last has none."""
    with pytest.raises(EngineError, match="AutoEP: no MoE layers detected"):
        engines.ask(Job(replace(CASES[NAME], mesh=Mesh(pp=3, dp=1, ep=1)), steps=1))


@pytest.mark.parametrize(
    ("stages", "words"),
    [(2, "folding currently supports pp_size=1 only"), (1, "self.dp_world_size == self.grid.data_parallel_size")],
)
def test_tensor_parallelism_does_not_start(stages: int, words: str, engines: Engines) -> None:
    """The same of AutoTP beside it, and of a pipeline of one stage."""
    rules = [
        {"patterns": [r".*\.up\.weight$"], "partition_type": "column"},
        {"patterns": [r".*\.down\.weight$"], "partition_type": "row"},
    ]
    autotp = {"autotp_size": 2, "partition_config": {"use_default_specs": False, "layer_specs": rules}}
    case = replace(CASES[NAME], mesh=Mesh(pp=stages, dp=2, ep=2), config={"tensor_parallel": autotp})
    with pytest.raises(EngineError, match=words):
        engines.ask(Job(case, steps=1))


@pytest.mark.parametrize("stages", ["1", "3+5"])
@pytest.mark.parametrize("zero", ["zero=1", "zero=0,dtype=fp32", "zero=0,dtype=fp16"])
def test_files_are_read_again(stages: str, zero: str, run: Run, tmp_path: Path) -> None:
    strategy = f"deepspeed:pp={stages},dp=2,ep=2,{zero}"
    run("convert", FIXTURES / NAME / "checkpoint", tmp_path / "native", "--to", strategy)
    run("convert", tmp_path / "native", tmp_path / "back", "--to", "universal")
    assert differences(truth_of(NAME), describe_states(read_states(tag_folder(tmp_path / "back"))), ["parameter"]) == []


def convert_and_resume(case: Case, engines: Engines, run: Run, place: Path) -> Path:
    """Files for one stage instead of two, which the engine loads and saves again as they are."""
    two, one = replace(case, mesh=Mesh(pp=2, dp=2, ep=2)), replace(case, mesh=Mesh(dp=2, ep=2))
    engines.ask(Job(two, steps=2, save=place / "source"))
    run("convert", place / "source", place / "native", "--to", "deepspeed:pp=1,dp=2,ep=2")
    engines.ask(Job(one, seed=DEFAULT_SEED + 1, load=place / "native", native=True, first_step=2, save=place / "saved"))
    assert differences_of_files(place / "native", place / "saved") == []
    return place / "native"


@pytest.mark.parametrize("optimizer", ["adamw", "fused"])
def test_float16_without_zero(optimizer: str, engines: Engines, run: Run, tmp_path: Path) -> None:
    """Both of DeepSpeed's wrappers, of which no fixture is; how they train is in faults.py."""
    case = replace(CASES[NAME], stage=0, dtype="fp16", optimizer=optimizer, groups="one", config=NO_CLIPPING)
    convert_and_resume(case, engines, run, tmp_path)


def test_routers_stand_in_their_layers_if_the_job_has_them_there(engines: Engines, run: Run, tmp_path: Path) -> None:
    """Fixtures are of jobs that list their parameters before AutoEP makes the routers, which then stand behind all
    others on each stage. This one has its parameters listed afterwards."""
    native = convert_and_resume(replace(CASES[NAME], groups="late"), engines, run, tmp_path)
    (matrices, *_) = read_files(native)["mp_rank_00_model_states.pt"]["param_shapes"]
    assert [name for name in matrices if ".down." not in name and ".up." not in name] == [
        "0.weight",
        "2.mlp.router.gate.weight",
        "4.mlp.router.gate.weight",
        "5.mlp.router.gate.weight",
        "7.weight",
    ]
