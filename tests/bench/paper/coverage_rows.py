"""The rows of table 1: which layout changes into which, in each framework and between them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import page
from coverage_jobs import load_by_megatron, load_by_torch, save_by_megatron, save_by_torch
from frameworks import Bench, Row

from conftest import LLAMA as AUTOTP_SPEC
from conftest import SPEC_OF
from fixtures.cases import CASES, Mesh
from fixtures.dcp_cases import DCP_CASES, DcpCase
from fixtures.dcp_continue import Continuation, continue_from
from fixtures.dcp_resume import Resume, go_on
from fixtures.fingerprints import differences
from fixtures.jobs import Job
from fixtures.megatron_core_cases import GPT, LLAMA, MIXTURE, MegatronCase
from fixtures.serve import Conversion
from test_acceptance import noise
from test_native import Recut
from universal import describe_states, read_states, tag_folder, truth_of

FIXTURES = page.ROOT / "tests" / "fixtures"
KINDS = ["parameter", "frozen", "buffer"]
MOMENTS = ("exp_avg", "exp_avg_sq")
OUR_KEYS = {"fp32": "{}"} | {moment: f"optimizer.state.{{}}.{moment}" for moment in MOMENTS}


def of_torch(change: str, layouts: str, source: DcpCase, ranks: int, parallel: str) -> Row:
    """A job of PyTorch; `source.name` has the same model."""

    def saved(bench: Bench) -> tuple[Path, dict[str, Any]]:
        place, truth = bench.save(source.ranks, save_by_torch, source)
        return place / "checkpoint", truth

    def load(bench: Bench, folder: Path, truth: dict[str, Any]) -> list[str]:
        continuation = Continuation(source.name, folder, ranks, parallel, "titan")
        return differences(truth, bench.on_ranks(ranks, continue_from, go_on=continuation), KINDS)

    def ours(bench: Bench) -> list[str]:
        folder, truth = saved(bench)
        return load(bench, bench.convert(folder, "--to", "dcp:style=titan"), truth)

    return Row(change, "PyTorch DCP", layouts, lambda bench: load(bench, *saved(bench)), ours)


def trained(truth: dict[str, Any]) -> dict[str, Any]:
    """Masters and moments, without the weights that are made of them."""
    tensors = {
        name: tensor | {"states": {key: state for key, state in tensor["states"].items() if key != "weight"}}
        for name, tensor in truth["tensors"].items()
        if tensor["kind"] == "parameter"
    }
    return truth | {"tensors": tensors}


def saved_by_megatron(bench: Bench, source: MegatronCase) -> tuple[Path, Path, dict[str, Any]]:
    """The root, the folder of the iteration in it, and the truth."""
    root, truth = bench.save(source.world, save_by_megatron, source)
    return root, next(root.glob("iter_*")), truth


def read_by_torch(bench: Bench, folder: Path, truth: dict[str, Any]) -> list[str]:
    """Masters and moments, as `dcp.load()` finds them."""
    wanted = trained(truth)
    found = bench.on_ranks(1, load_by_torch, folder=folder, tensors=wanted["tensors"], states=OUR_KEYS)
    return differences(wanted, found, KINDS)


def to_torch(bench: Bench, folder: Path, truth: dict[str, Any]) -> list[str]:
    """Ours, as PyTorch reads it."""
    return read_by_torch(bench, bench.convert(folder, "--to", "dcp"), truth)


def of_megatron(change: str, layouts: str, source: MegatronCase, target: MegatronCase) -> Row:
    """A job of Megatron Core. Ours writes its format too, of the one kind that resumes at other ranks."""

    def theirs(bench: Bench) -> list[str]:
        _, folder, truth = saved_by_megatron(bench, source)
        answer = bench.on_ranks(target.world, load_by_megatron, case=target, folder=folder)
        return differences(truth, answer, KINDS)

    def ours(bench: Bench) -> list[str]:
        root, _, truth = saved_by_megatron(bench, source)
        kind = "fully_reshardable" if target.sharding else "not_distributed"
        strategy = f"megatron:optimizer={kind}" + (f",ep={target.ep}" if target.ep != source.ep else "")
        folder = next(bench.convert(root, "--to", strategy).glob("iter_*"))
        job = replace(target, sharding="fully_reshardable" if target.sharding else "")
        return differences(truth, bench.on_ranks(job.world, load_by_megatron, case=job, folder=folder), KINDS)

    return Row(change, "Megatron Core", layouts, theirs, ours)


def resumed_by_deepspeed(bench: Bench, recut: Recut, folder: Path, is_native: bool) -> list[str]:
    """Bits, and then the losses of the steps that follow."""
    truth = truth_of(recut.name)
    case = replace(recut.case, tag=(folder / "latest").read_text() if is_native else None)
    job = Job(case, seed=11, load=folder, native=is_native, first_step=truth["step"], further_steps=case.further_steps)
    answer = bench.engines.ask(job)
    expected = truth["losses"][truth["step"] :]
    furthest = max(abs(ours - theirs) for ours, theirs in zip(answer["losses"], expected, strict=True))
    found = differences(truth, answer["loaded"], KINDS)
    if not found and furthest > noise(CASES[recut.name]):
        return [f"losses are off by up to {furthest:.2g} in the steps that follow, from the same bits"]
    return found


def of_deepspeed(change: str, layouts: str, name: str, **changes: Any) -> Row:
    """A job of DeepSpeed, through `ds_to_universal` and `load_universal`; ours writes the files of the new job."""
    recut = Recut(name, changes)
    checkpoint = FIXTURES / name / "checkpoint"
    spec = SPEC_OF.get(recut.case.model)

    def theirs(bench: Bench) -> list[str]:
        tag = (checkpoint / "latest").read_text()
        root = bench.place()
        bench.engines.ask(Conversion(checkpoint / tag, root / f"{tag}_universal", spec is None))
        return resumed_by_deepspeed(bench, recut, root, is_native=False)

    def ours(bench: Bench) -> list[str]:
        further = ["--spec", spec] if spec else AUTOTP_SPEC if recut.case.model == "autotp" else []
        folder = bench.convert(checkpoint, "--to", recut.strategy, *further)
        return resumed_by_deepspeed(bench, recut, folder, is_native=True)

    return Row(change, "DeepSpeed", layouts, theirs, ours)


def rows_of_torch() -> Iterator[Row]:
    flat, pipeline = DCP_CASES["fsdp2_flat"], DCP_CASES["pipeline"]
    by_rank = replace(flat, ranks=4, saver={"use_collectives": False})
    yield of_torch("DP", "DDP 4 → 2", replace(flat, ranks=4, parallel="ddp"), 2, "ddp")
    yield of_torch("DP", "FSDP2 4 → 3", replace(flat, ranks=4), 3, "fsdp2")
    yield of_torch("DP", "FSDP2 4 → 2, metadata of each rank by itself", by_rank, 2, "fsdp2")
    yield of_torch("to ZeRO", "DDP 4 → FSDP2 4", replace(flat, ranks=4, parallel="ddp"), 4, "fsdp2")
    yield of_torch("from ZeRO", "FSDP2 4 → DDP 2", replace(flat, ranks=4), 2, "ddp")
    yield of_torch("TP", "TP 2 → FSDP2 3", replace(flat, parallel="tp"), 3, "fsdp2")
    yield of_torch("TP", "FSDP2 2 → TP 2", flat, 2, "tp")
    yield of_torch("TP and DP", "TP 2 x FSDP2 2 → FSDP2 3", replace(flat, ranks=4, parallel="fsdp2_tp"), 3, "fsdp2")
    yield of_torch("PP", "PP 2 → FSDP2 2", pipeline, 2, "fsdp2")


def rows_of_megatron() -> Iterator[Row]:
    sizes = {"vocab_size": 64}  # A multiple of what each degree pads it to.
    llama, gpt = MegatronCase("llama", LLAMA | sizes), MegatronCase("gpt", GPT | sizes)
    fully, own = "fully_reshardable", "dp_reshardable"
    for sharding in (fully, own):
        yield of_megatron("DP", f"DP 4 → 2, `{sharding}`", replace(llama, dp=4, sharding=sharding),
                          replace(llama, dp=2, sharding=sharding))  # fmt: skip
    yield of_megatron("to ZeRO", "DP 2, plain optimizer → distributed optimizer", replace(gpt, dp=2, sharding=""),
                      replace(gpt, dp=2))  # fmt: skip
    yield of_megatron("from ZeRO", "DP 2, distributed optimizer → plain optimizer", replace(gpt, dp=2),
                      replace(gpt, dp=2, sharding=""))  # fmt: skip
    for sharding in (fully, own):
        yield of_megatron("TP", f"TP 2 → 1, DP 2, `{sharding}`", replace(llama, tp=2, dp=2, sharding=sharding),
                          replace(llama, dp=2, sharding=sharding))  # fmt: skip
    yield of_megatron("TP", "TP 1 → 2", llama, replace(llama, tp=2))
    for sharding in (fully, own):
        yield of_megatron("PP", f"PP 2 → 1, DP 2, `{sharding}`", replace(gpt, pp=2, dp=2, sharding=sharding),
                          replace(gpt, dp=2, sharding=sharding))  # fmt: skip
    yield of_megatron("TP, PP and DP", "TP 2 x PP 2 x DP 2 → PP 4 x DP 2", replace(llama, tp=2, pp=2, dp=2),
                      replace(llama, pp=4, dp=2))  # fmt: skip
    experts = MegatronCase("experts", MIXTURE | sizes, dp=2)
    yield of_megatron("EP", "experts, EP 2 → 1, DP 2", replace(experts, ep=2), experts)
    buckets = replace(gpt, pp=2, dp=2, bucket_size=1500)
    yield of_megatron("none", "PP 2 x DP 2, gradients in several buckets", buckets, buckets)


def rows_of_deepspeed() -> Iterator[Row]:
    gpt = "gpt_pp2_tp2_dp2"
    yield of_deepspeed("DP", "ZeRO-1, DP 4 → 2", "zero1_dp4", mesh=Mesh(dp=2))
    yield of_deepspeed("DP", "ZeRO-3, DP 2 → 4", "bf16_masters_zero3", mesh=Mesh(dp=4))
    yield of_deepspeed("DP", "ZeRO-2, DP 2 → 4, a group of few elements", "zero2_dp2", mesh=Mesh(dp=4))
    yield of_deepspeed("DP", "ZeRO-2, DP 4 → 2, without `round_robin_gradients`", "round_robin", mesh=Mesh(dp=2),
                       zero={})  # fmt: skip
    yield of_deepspeed("to ZeRO", "DP 2, float32 → ZeRO-1", "zero0_fp32", stage=1)
    yield of_deepspeed("ZeRO stage", "ZeRO-1 → ZeRO-2, DP 4 → 2", "zero1_dp4", stage=2, mesh=Mesh(dp=2))
    yield of_deepspeed("ZeRO stage", "ZeRO-2 → ZeRO-3, DP 2 → 4", "fused_adam_zero2", stage=3, mesh=Mesh(dp=4))
    yield of_deepspeed("ZeRO stage", "ZeRO-3 → ZeRO-2, DP 2", "bf16_masters_zero3", stage=2)
    yield of_deepspeed("TP", "TP 2 → 1, PP 2 x DP 2", gpt, mesh=Mesh(pp=2, dp=2))
    yield of_deepspeed("TP", "TP 1 → 2, DP 2 → 1", "gpt_pp1_tp1_dp2", mesh=Mesh(tp=2))
    yield of_deepspeed("TP", "AutoTP 2 → 3, DP 2 → 1", "autotp_tp2_dp2", mesh=Mesh(tp=3))
    yield of_deepspeed("PP", "PP 2 → 1, TP 2 x DP 2", gpt, mesh=Mesh(tp=2, dp=2))
    yield of_deepspeed("TP, PP and DP", "PP 2 x TP 2 x DP 2 → TP 4", gpt, mesh=Mesh(tp=4))
    yield of_deepspeed("SP", "Ulysses, SP 2 x DP 2 → DP 4", "ulysses_sp2_dp2", mesh=Mesh(dp=4))
    yield of_deepspeed("EP", "experts, EP 2 → 4, DP 4", "moe_ep2_dp4", mesh=Mesh(dp=4, ep=4))
    yield of_deepspeed("EP", "AutoEP, EP 2 → 4, DP 4, ZeRO-2", "autoep_ep2_dp4", mesh=Mesh(dp=4, ep=4))


def rows() -> Iterator[Row]:
    """All, the same change of all frameworks together."""
    order = ["DP", "to ZeRO", "from ZeRO", "ZeRO stage", "TP", "PP", "TP and DP", "TP, PP and DP", "SP", "EP", "none"]
    inside = [*rows_of_torch(), *rows_of_megatron(), *rows_of_deepspeed()]
    yield from sorted(inside, key=lambda row: order.index(row.change))
    yield from rows_between()


# Of the rows from one framework to another.
OF_DCP, OF_ZERO = FIXTURES / "dcp" / "fsdp2" / "checkpoint", FIXTURES / "zero1_dp2" / "checkpoint"
WHOLE = MegatronCase("llama", LLAMA | {"vocab_size": 64}, tp=2, pp=2, dp=2)
ALONE = replace(WHOLE, tp=1, pp=1, dp=1)


def torch_to_deepspeed(bench: Bench, folder: Path) -> list[str]:
    truth = json.loads((OF_DCP.parent / "truth.json").read_text())
    return differences(truth, bench.on_ranks(2, go_on, resume=Resume("fsdp2", folder, 3)), KINDS)


def megatron_to_deepspeed(bench: Bench) -> list[str]:
    _, folder, truth = saved_by_megatron(bench, WHOLE)
    universal = bench.place()
    bench.engines.ask(Conversion(folder, universal, True))
    return differences(trained(truth), describe_states(read_states(universal)), KINDS)


def megatron_to_universal(bench: Bench) -> list[str]:
    root, _, truth = saved_by_megatron(bench, WHOLE)
    states = read_states(tag_folder(bench.convert(root, "--to", "universal")))
    return differences(trained(truth), describe_states(states), KINDS)


def into_megatron(folder: Path) -> Callable[[Bench], list[str]]:
    return lambda bench: [str(bench.on_ranks(1, load_by_megatron, case=ALONE, folder=folder))]


def rows_between() -> Iterator[Row]:
    """From one framework to another: its loader is given the folder."""
    stage_3 = "deepspeed:dp=2,zero=3,dtype=fp32"
    yield Row("framework", "PyTorch DCP", "FSDP2 4 → DeepSpeed, ZeRO-3, DP 2",
              lambda bench: torch_to_deepspeed(bench, OF_DCP),
              lambda bench: torch_to_deepspeed(bench, bench.convert(OF_DCP, "--to", stage_3)))  # fmt: skip
    yield Row("framework", "PyTorch DCP", "FSDP2 4 → Megatron Core", into_megatron(OF_DCP),
              lambda bench: [str(bench.convert(OF_DCP, "--to", "megatron"))])  # fmt: skip
    yield Row("framework", "DeepSpeed", "ZeRO-1, DP 2 → PyTorch",
              lambda bench: read_by_torch(bench, OF_ZERO / "global_step4", truth_of("zero1_dp2")),
              lambda bench: to_torch(bench, OF_ZERO, truth_of("zero1_dp2")))  # fmt: skip
    yield Row("framework", "DeepSpeed", "ZeRO-1, DP 2 → Megatron Core", into_megatron(OF_ZERO / "global_step4"),
              lambda bench: [str(bench.convert(OF_ZERO, "--to", "megatron"))])  # fmt: skip
    yield Row("framework", "Megatron Core", "TP 2 x PP 2 x DP 2 → PyTorch",
              lambda bench: read_by_torch(bench, *saved_by_megatron(bench, WHOLE)[1:]),
              lambda bench: to_torch(bench, *saved_by_megatron(bench, WHOLE)[::2]))  # fmt: skip
    yield Row("framework", "Megatron Core", "TP 2 x PP 2 x DP 2 → DeepSpeed's universal", megatron_to_deepspeed,
              megatron_to_universal)  # fmt: skip
