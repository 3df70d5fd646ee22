"""`ucp.load_into` in one process: optimizers before and after steps, shared memory, tensors that cannot be filled."""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy
import pytest
import torch
from safetensors.torch import save_file, save_model
from torch import nn

import ucp_checkpoint as ucp
from fixtures.models import Plain
from ucp_checkpoint._target import Target
from ucp_checkpoint._work import Work

UP, UP_BIAS, NORM = "blocks.0.up.weight", "blocks.0.up.bias", "blocks.0.norm.weight"


@pytest.fixture
def source(fixtures: Path) -> Path:
    return fixtures / "zero1_dp2" / "checkpoint"


@pytest.fixture
def truth(source: Path) -> Any:
    """By the way that other tests hold against the engine."""
    return ucp.load(source, to="universal")


def with_gradients(model: nn.Module) -> nn.Module:
    sum(parameter.sum() for parameter in model.parameters()).backward()
    return model


def test_gradients_do_not_keep_a_fresh_optimizer_from_being_filled(source: Path, truth: Any) -> None:
    model = with_gradients(Plain())
    optimizer = torch.optim.AdamW(model.parameters())
    ucp.load_into(model, source, optimizer=optimizer)
    for name, parameter in model.named_parameters():
        assert torch.equal(optimizer.state[parameter]["exp_avg"], truth[name]["exp_avg"]), name
        assert optimizer.state[parameter]["step"] > 0
        assert torch.equal(parameter.grad, torch.ones_like(parameter))


@pytest.mark.parametrize("wrong", [{"keep": "nothing"}, {"path": "missing"}, {"memory": "16B"}])
def test_an_optimizer_is_as_it_was_after_an_error(source: Path, wrong: dict[str, str]) -> None:
    model = with_gradients(Plain())
    optimizer = torch.optim.AdamW(model.parameters())
    with pytest.raises(ucp.Error):
        ucp.load_into(model, **{"path": source, "optimizer": optimizer} | wrong)
    assert not optimizer.state
    assert all(parameter.grad is not None for parameter in model.parameters())


def test_a_step_that_is_kept_is_that_of_an_optimizer_without_steps(source: Path) -> None:
    model = Plain()
    optimizer = torch.optim.AdamW(model.parameters())
    ucp.load_into(model, source, optimizer=optimizer, keep="*/step")
    assert {float(states["step"]) for states in optimizer.state.values()} == {0}


def test_an_optimizer_with_states_for_some_alone_is_refused(source: Path) -> None:
    model = Plain()
    optimizer = torch.optim.AdamW(model.parameters())
    model.get_parameter(UP).grad = torch.zeros_like(model.get_parameter(UP))
    optimizer.step()
    with pytest.raises(ucp.Error, match=r"has made steps, but has no states for `.*`, and the checkpoint has exp_avg"):
        ucp.load_into(model, source, optimizer=optimizer)


def test_optimizers_that_have_no_names(source: Path) -> None:
    with pytest.raises(ucp.Error, match="does not give the states of this optimizer names"):
        ucp.load_into(Plain(), source, optimizer=torch.optim.AdamW(Plain().parameters()))
    with pytest.raises(ucp.Error, match="optimizer= is a int"):
        ucp.load_into(Plain(), source, optimizer=3)


def test_states_that_the_checkpoint_lacks_are_named(source: Path) -> None:
    """Also those that are of another shape than the parameter."""
    model = Plain()
    said = "the checkpoint has no `mu_product` of tensor `tone`, which rank 0 wants to fill, but exp_avg, exp_avg_sq"
    with pytest.raises(ucp.Error, match=said):
        ucp.load_into(model, source, optimizer=torch.optim.NAdam(model.parameters()))
    optimizer = torch.optim.AdamW(model.parameters())
    ucp.load_into(model, source, optimizer=optimizer)
    optimizer.state[model.tone]["exp_avg"] = torch.zeros(1, 3)
    with pytest.raises(ucp.Error, match=r"`exp_avg` of tensor `tone` is \[3\] in the checkpoint, and \[1, 3\] on rank"):
        ucp.load_into(model, source, optimizer=optimizer)


def test_several_optimizers_are_filled_one_after_another(source: Path, truth: Any) -> None:
    """Each with a call of its own."""
    model = Plain()
    matrices = torch.optim.AdamW(part for part in model.parameters() if part.ndim > 1)
    others = torch.optim.AdamW(part for part in model.parameters() if part.ndim < 2)
    for optimizer in (matrices, others):
        ucp.load_into(model, source, optimizer=optimizer)
    for name, parameter in model.named_parameters():
        optimizer = matrices if parameter.ndim > 1 else others
        assert torch.equal(optimizer.state[parameter]["exp_avg"], truth[name]["exp_avg"]), name


def test_two_tensors_of_the_checkpoint_do_not_fit_into_one_memory(source: Path) -> None:
    both, parts = torch.zeros(50), torch.zeros(60)
    one_place = {UP_BIAS: both, "blocks.1.up.bias": both}
    with pytest.raises(ucp.Error, match=f"`{UP_BIAS}` and `blocks.1.up.bias` are one tensor here, and two in the"):
        ucp.load_into(one_place, source, strict=False)
    overlapping = {NORM: parts[:33], "blocks.1.norm.weight": parts[20:53]}
    with pytest.raises(ucp.Error, match=f"`{NORM}` and `blocks.1.norm.weight` share a part of their memory"):
        ucp.load_into(overlapping, source, strict=False)
    assert not both.any()
    assert not parts.any()


class Tied(nn.Module):
    """Its first name is not the one that the package safetensors keeps, which is the first of the alphabet."""

    def __init__(self) -> None:
        super().__init__()
        self.wte = nn.Embedding(4, 3)
        self.norm = nn.LayerNorm(3)
        self.lm_head = nn.Linear(3, 4, bias=False)
        self.lm_head.weight = self.wte.weight


@pytest.mark.parametrize("verify", [False, True])
@pytest.mark.parametrize("kept", ["lm_head.weight", "wte.weight"])
def test_a_shared_parameter_has_the_name_that_the_checkpoint_knows(tmp_path: Path, kept: str, verify: bool) -> None:
    saved, model = Tied(), Tied()
    if kept == "lm_head.weight":
        save_model(saved, str(tmp_path / "model.safetensors"))
    else:
        save_file({kept: saved.wte.weight, **saved.norm.state_dict(prefix="norm.")}, tmp_path / "model.safetensors")
    filled = ucp.load_into(model, tmp_path, verify=verify)
    assert filled.report["as_stored"]
    assert filled.tensors == ["wte.weight", "norm.weight", "norm.bias"]
    assert torch.equal(model.lm_head.weight, saved.lm_head.weight)
    assert model.wte.weight is model.lm_head.weight
    save_file({"lm_head.weight": torch.ones(4, 3), "wte.weight": torch.zeros(4, 3)}, tmp_path / "model.safetensors")
    with pytest.raises(ucp.Error, match=r"`wte.weight` and `lm_head.weight` are one tensor here, and two in the"):
        ucp.load_into(model, tmp_path, keep="norm.*", strict=False)
    assert torch.equal(model.lm_head.weight, saved.lm_head.weight)


@pytest.mark.parametrize("verify", [False, True])
def test_what_is_kept_has_a_place(tmp_path: Path, verify: bool) -> None:
    """A checkpoint that also holds it, even of another shape, holds nothing that nobody has."""
    saved = {"body": torch.ones(4, 3), "head": torch.ones(9, 3), "more": torch.ones(1)}
    save_file(saved, tmp_path / "model.safetensors")
    target = {"body": torch.zeros(4, 3), "head": torch.zeros(2, 3)}
    with pytest.raises(ucp.Error, match="holds tensor `more`, and no rank has a place for it"):
        ucp.load_into(target, tmp_path, keep="head", verify=verify)
    filled = ucp.load_into({**target, "more": torch.zeros(2)}, tmp_path, keep=["head", "more"], verify=verify)
    assert filled.report["as_stored"]
    assert filled.not_loaded == {"head": ["weight"], "more": ["weight"]}
    assert (filled.tensors, filled.kept) == (["body"], ["head", "more"])
    assert target["body"].all()
    assert not target["head"].any()


def test_what_is_kept_shares_no_memory_with_what_is_filled(tmp_path: Path) -> None:
    """Else it would be said to have its value, and have another one."""
    save_file({"wte.weight": torch.ones(4, 3)}, tmp_path / "model.safetensors")
    model = Tied()
    said = "keep names `lm_head.weight`, which shares memory with `wte.weight`, which is to be filled"
    with pytest.raises(ucp.Error, match=said):
        ucp.load_into(model, tmp_path, keep=["lm_head.weight", "norm.*"])
    assert not torch.equal(model.wte.weight, torch.ones(4, 3))
    whole = torch.zeros(6, 3)
    with pytest.raises(ucp.Error, match=r"keep names `rest`, which shares memory with `wte\.weight`"):
        ucp.load_into({"wte.weight": whole[:4], "rest": whole[3:]}, tmp_path, keep="rest")
    ucp.load_into({"wte.weight": whole[:4], "rest": whole[4:], "more": whole[5:]}, tmp_path, keep=["rest", "more"])
    assert whole.sum(1).tolist() == [3, 3, 3, 3, 0, 0]


@pytest.mark.parametrize(
    ("view", "said"),
    [
        (lambda weight: weight.t(), r"`other` of shape \[4, 4\] has the strides \[1, 4\]"),
        (lambda weight: weight.view(torch.int32), "`other` and `weight` share a part of their memory"),
    ],
)
@pytest.mark.parametrize("is_first", [False, True])
def test_another_view_is_no_second_name(
    tmp_path: Path, view: Callable[[torch.Tensor], torch.Tensor], said: str, is_first: bool
) -> None:
    """Of which the checkpoint would know nothing: only what looks the same everywhere is one tensor."""
    save_file({"weight": torch.ones(4, 4)}, tmp_path / "model.safetensors")
    weight = torch.zeros(4, 4)
    target = {"weight": weight, "other": view(weight)}
    with pytest.raises(ucp.Error, match=said):
        ucp.load_into(dict(reversed(target.items())) if is_first else target, tmp_path)
    assert not weight.any()


class Wrapper(torch.Tensor):
    """Its numbers are in another tensor, as quantised ones have them."""

    @staticmethod
    def __new__(cls: type[Wrapper], inner: torch.Tensor) -> Wrapper:
        return torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype)

    def __init__(self, inner: torch.Tensor) -> None:
        self.inner = inner

    @classmethod
    def __torch_dispatch__(cls, function: Any, types: Any, arguments: Any = (), named: Any = None) -> Wrapper:
        return Wrapper(arguments[0].inner)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Wrapper(torch.zeros(50)), f"`{UP_BIAS}` is a Wrapper without memory of its own numbers"),
        (lambda: torch._neg_view(torch.zeros(50)), "negates or conjugates"),
        (lambda: torch.zeros(50).to_sparse(), "only dense tensors"),
        (lambda: torch.nested.nested_tensor([torch.zeros(50)]), "only dense tensors"),
        (lambda: nn.LazyLinear(3).weight, "before the module's first forward"),
        (lambda: torch.zeros(50, device="meta"), "meta device"),
    ],
)
def test_tensors_without_memory_of_their_own(source: Path, make: Callable[[], torch.Tensor], said: str) -> None:
    with pytest.raises(ucp.Error, match=said):
        ucp.load_into({UP_BIAS: make()}, source, strict=False)


def test_copies_in_a_state_dict_are_no_target(source: Path) -> None:
    model = Plain()
    hook = lambda module, states, prefix, metadata: {**states, UP_BIAS: states[UP_BIAS].clone()}  # noqa: E731
    model._register_state_dict_hook(hook)
    with pytest.raises(ucp.Error, match=f"`{UP_BIAS}` of the module's state_dict.. is none of its parameters"):
        ucp.load_into(model, source)


def test_autograd_notices(source: Path) -> None:
    weight = torch.ones(50, requires_grad=True)
    squares = (weight * weight).sum()
    ucp.load_into({UP_BIAS: weight}, source, strict=False)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        squares.backward()


def test_autograd_notices_what_an_interrupted_load_has_overwritten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The old values are also gone after an error."""
    save_file({"weight": torch.zeros(3)}, tmp_path / "model.safetensors")
    weight = torch.ones(3, requires_grad=True)
    squares = (weight * weight).sum()
    own = Work.load

    def load(*arguments: Any) -> dict[str, Any]:
        own(*arguments)
        raise ArithmeticError("today")

    monkeypatch.setattr(Work, "load", load)
    with pytest.raises(ArithmeticError, match="today"):
        ucp.load_into({"weight": weight}, tmp_path)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        squares.backward()


def test_an_optimizer_is_as_it_was_after_any_error(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also of one that is none of ours, while the target is looked at."""
    model = Plain()
    optimizer = torch.optim.AdamW(model.parameters())
    own = Target.check

    def check(target: Target) -> None:
        own(target)
        assert optimizer.state
        raise ArithmeticError("today")

    monkeypatch.setattr(Target, "check", check)
    with pytest.raises(ArithmeticError, match="today"):
        ucp.load_into(model, source, optimizer=optimizer)
    assert not optimizer.state


def test_every_local_part_is_computed_once(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is a collective of its own for some tensors."""
    asked: Counter[int] = Counter()
    detach = torch.Tensor.detach
    monkeypatch.setattr(torch.Tensor, "detach", lambda tensor: asked.update([id(tensor)]) or detach(tensor))
    target = {UP: torch.zeros(50, 33), UP_BIAS: torch.zeros(50)}
    ucp.load_into(target, source, strict=False)
    assert [asked[id(tensor)] for tensor in target.values()] == [1, 1]


@pytest.mark.filterwarnings("ignore:The given NumPy array is not writable")
def test_memory_that_cannot_be_written(source: Path, tmp_path: Path) -> None:
    """A file that is mapped for reading alone: without a word the process would end."""
    (tmp_path / "weights").write_bytes(bytes(200))
    mapped = torch.from_numpy(numpy.memmap(tmp_path / "weights", dtype=numpy.float32, mode="r"))
    norm = torch.zeros(33)
    with pytest.raises(ucp.Error, match=f"the memory for tensor `{UP_BIAS}` cannot be written: ") as failure:
        ucp.load_into({NORM: norm, UP_BIAS: mapped}, source, strict=False)
    assert failure.value.code == "usage"
    assert not norm.any()


@pytest.fixture
def model(tmp_path: Path) -> dict[str, torch.Tensor]:
    """As the package safetensors writes it, beside this."""
    tensors = {f"layers.{number}.weight": torch.randn(number, 7) for number in range(1, 40)}
    tensors |= {"half": torch.randn(5).to(torch.bfloat16), "number": torch.tensor(7), "nothing": torch.zeros(0, 3)}
    save_file(tensors, tmp_path / "model.safetensors")
    return tensors


@pytest.mark.parametrize("cast", [False, True])
@pytest.mark.parametrize("verify", [False, True])
def test_what_lies_in_the_files_as_it_is_wanted(
    tmp_path: Path, model: dict[str, torch.Tensor], cast: bool, verify: bool
) -> None:
    target = {name: torch.full_like(tensor, 3) for name, tensor in reversed(model.items())}
    if cast:
        target["half"] = target["half"].double()
    filled = ucp.load_into(target, tmp_path, verify=verify, threads=2)
    assert filled.report["as_stored"] == (not cast)
    assert filled.tensors == list(target)
    assert bool(filled.remarks) == cast
    for name, tensor in model.items():
        assert torch.equal(target[name], tensor.to(target[name].dtype)), name


def test_what_is_refused_where_nothing_is_planned(tmp_path: Path, model: dict[str, torch.Tensor]) -> None:
    one = {"half": torch.zeros(5, dtype=torch.bfloat16)}
    with pytest.raises(ucp.Error, match=r"holds tensor `layers\.1\.weight` and 40 more, and no rank has a place"):
        ucp.load_into(one, tmp_path)
    filled = ucp.load_into(one, tmp_path, strict=False)
    assert filled.report["as_stored"]
    assert filled.not_loaded == {name: ["weight"] for name in model if name != "half"}
    with pytest.raises(ucp.Error, match=r"tensor `half` is \[5\] in the checkpoint, and \[6\] on rank 0"):
        ucp.load_into({"half": torch.zeros(6, dtype=torch.bfloat16)}, tmp_path, strict=False)
    for dtype in (torch.bfloat16, torch.float32):  # As where something is cast, and planned.
        half = torch.zeros(5, dtype=dtype)
        with pytest.raises(ucp.Error, match=r"16 B of memory is too little for this plan with .*; raise memory="):
            ucp.load_into({"half": half}, tmp_path, strict=False, memory="16B")
        assert not half.any()


@pytest.mark.parametrize("is_enabled", [False, True])
def test_the_garbage_collector_is_as_it_was(tmp_path: Path, model: dict[str, torch.Tensor], is_enabled: bool) -> None:
    """It is paused meanwhile."""
    was_enabled = gc.isenabled()
    try:
        (gc.enable if is_enabled else gc.disable)()
        ucp.load_into(dict(model), tmp_path)
        assert gc.isenabled() == is_enabled
        with pytest.raises(ucp.Error, match="no tensor"):
            ucp.load_into({"half": 3}, tmp_path)
        assert gc.isenabled() == is_enabled
    finally:
        (gc.enable if was_enabled else gc.disable)()


def test_shared_parameter_with_two_tensors(tmp_path: Path) -> None:
    """As torch.distributed.checkpoint stores it: refused, and filled with the first one's if the caller says so."""
    first, second = torch.arange(6.0), torch.arange(6.0)
    ucp.save({"model": {"head": first, "embed": second, "norm": first}}, tmp_path / "saved", no_dist=True)
    shared, norm = torch.zeros(6), torch.zeros(6)
    target = {"head": shared, "embed": shared, "norm": norm}
    with pytest.raises(ucp.Error, match=r"`head` and `embed` are one tensor here, and two in the .*trust_ties"):
        ucp.load_into(target, tmp_path / "saved", strict=False)
    assert not shared.any()
    filled = ucp.load_into(target, tmp_path / "saved", trust_ties=True)
    assert torch.equal(shared, first)
    assert filled.tensors == ["head", "norm"]
    del target["norm"]
    with pytest.raises(ucp.Error, match="the checkpoint holds tensor `norm`, and no rank has a place for it"):
        ucp.load_into(target, tmp_path / "saved", trust_ties=True)
