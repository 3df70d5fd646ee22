"""Layouts of a model that store norms around zero: each number against a sum by PyTorch, moments that stay, and a model
of transformers whose norms multiply with 1 + w."""

from __future__ import annotations

import itertools
import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch.distributed import checkpoint as dcp
from torch.distributed.checkpoint.state_dict import get_state_dict

from fixtures.hugging_face import Training
from fixtures.serve import Engines
from layout_rules import Rules, Spec
from model_cases import LLAMA, SPECS, as_tensors, expect_equal, logits, rules_of, write_model
from spoken import refused, told

TEXT = """ucp 1
dim layers
dim hidden
dim kernel
model m { norm [layers, hidden] last [hidden] w [layers, hidden, kernel] }
layout plain of m {
  block "layers.{i: layers}" { "norm" = norm "w" = w }
  "last" = last
}
layout centred of m {
  "norms" = [hidden, norm: layers] offset(-1)
  "w" = w
  "last" = last offset(-1)
}
layout far of m {
  "norms.{i: layers}" = norm offset(1000)
  "w" = w
  "last" = last offset(-3)
}
"""
# More ranks than processors, and as root in a container.
MPI_ENVIRONMENT = os.environ | {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMPI_MCA_rmaps_base_oversubscribe": "1",
    "OMPI_MCA_hwloc_base_binding_policy": "none",
    "OMPI_MCA_btl_vader_single_copy_mechanism": "none",
}
TYPES = {"fp16": torch.float16, "bf16": torch.bfloat16, "fp32": torch.float32}


def write_spec(folder: Path, text: str = TEXT) -> list[str]:
    (folder / "m.ucp").write_text(text)
    return ["--spec", str(folder / "m.ucp")]


@pytest.mark.parametrize(("source", "target"), list(itertools.permutations(["plain", "centred", "far"], 2)))
def test_every_pair_of_layouts(source: str, target: str, ucprun: Path, tmp_path: Path) -> None:
    """Whole numbers, which are exact: every element is the one that the rules say, plus what the rules say."""
    spec = write_spec(tmp_path)
    rules = Rules(Spec(tmp_path / "m.ucp"), {"layers": 3, "hidden": 5, "kernel": 4})
    folder = write_model(tmp_path / "source", as_tensors(rules.stored(source)), {})
    said = told(ucprun, folder, tmp_path / "there", "--to", f"safetensors:layout={target}", *spec)
    assert "weights and masters of these tensors get an offset" in said and "to `last` (" in said
    expect_equal(load_file(tmp_path / "there" / "model.safetensors"), as_tensors(rules.stored(target)))
    told(ucprun, tmp_path / "there", tmp_path / "back", "--to", f"safetensors:layout={source}", *spec)
    expect_equal(load_file(tmp_path / "back" / "model.safetensors"), load_file(folder / "model.safetensors"))


def patterns(dtype: torch.dtype) -> torch.Tensor:
    """All numbers of a type of 16 bits; random ones of a wider type, and all of a type of 16 bits."""
    if dtype.itemsize == 2:
        return torch.arange(-(2**15), 2**15).to(torch.int16).view(dtype)
    generator = torch.Generator().manual_seed(1)
    wide = torch.randint(-(2**31), 2**31, (2**18,), generator=generator, dtype=torch.int64)
    bits = wide.to(torch.int32).view(torch.float32).to(dtype)
    near_one = 2 * torch.rand(2**16, generator=generator, dtype=torch.float64).to(dtype)
    return torch.cat([bits, near_one, patterns(torch.bfloat16).to(dtype)])


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("wanted", ["", *TYPES])
def test_sums_are_rounded_once(dtype: torch.dtype, wanted: str, ucprun: Path, tmp_path: Path) -> None:
    """PyTorch's sum in float32, or in float64 where the source is that, cast to the type of the target."""
    values = patterns(dtype)
    spec = write_spec(tmp_path)
    stored = {"layers.0.norm": values, "layers.0.w": torch.ones(len(values), 4, dtype=dtype), "last": values.clone()}
    folder = write_model(tmp_path / "source", stored, {})
    to = f"safetensors:layout=centred{',dtype=' + wanted if wanted else ''}"
    told(ucprun, folder, tmp_path / "there", "--to", to, *spec)
    found = load_file(tmp_path / "there" / "model.safetensors")
    computed = values if dtype == torch.float64 else values.float()
    expected = (computed - 1).to(TYPES.get(wanted, dtype))
    assert torch.equal(found["last"].nan_to_num(7), expected.nan_to_num(7))
    assert torch.equal(found["norms"].view(-1).nan_to_num(7), expected.nan_to_num(7))
    assert torch.equal(found["last"].isnan(), expected.isnan())
    lost = ((computed - 1).to(dtype).to(computed.dtype) + 1).to(dtype) != values
    assert lost.any()  # The report says that an offset is not bit-invertible.


def test_masters_get_it_and_moments_do_not(engines: Engines, ucprun: Path, tmp_path: Path) -> None:
    """Of a real ZeRO run: float32 masters, and bfloat16 weights that are the masters' roundings afterwards too."""
    engines.ask(Training(tmp_path / "trained", "llama"))
    spec = centred_llama(tmp_path)
    told(ucprun, tmp_path / "trained", tmp_path / "plain", "--to", "safetensors:states=all", *spec)
    told(ucprun, tmp_path / "trained", tmp_path / "centred", "--to", "safetensors:states=all,layout=centred", *spec)
    before, after = (load_file(tmp_path / name / "optimizer.safetensors") for name in ("plain", "centred"))
    weights = load_file(tmp_path / "centred" / "model.safetensors")
    assert before.keys() == after.keys() and any("norm" in name for name in before)
    for name, tensor in before.items():
        is_master_of_norm = "norm" in name and name.endswith("fp32")
        assert torch.equal(after[name], tensor - 1 if is_master_of_norm else tensor), name
        if name.endswith("fp32"):
            weight = weights[name.removesuffix(".fp32").removeprefix("optimizer.")]
            assert torch.equal(weight, after[name].to(weight.dtype)), name


def centred_llama(folder: Path) -> list[str]:
    """The catalogue's Llama, and a layout of the hub's names in which all norms are stored minus 1."""
    text = (SPECS / "llama.ucp").read_text()
    hf = text[text.index("layout hf of llama") : text.index("layout meta of llama")]
    centred = re.sub(r"= (norm\d?)\b", r"= \1 offset(-1)", hf.replace("layout hf", "layout centred"))
    assert centred.count("offset(-1)") == 3
    (folder / "both.ucp").write_text(text + centred)
    return ["--spec", str(folder / "both.ucp"), "--set", "layout=hf"]


def test_a_model_whose_norms_multiply_with_one_plus_w(ucprun: Path, tmp_path: Path) -> None:
    """Llama with Gemma's norms has the same logits, bit for bit, when it loads what the conversion wrote; one less than
    each weight is exact."""
    from transformers import LlamaConfig, LlamaForCausalLM
    from transformers.models.gemma.modeling_gemma import GemmaRMSNorm

    torch.manual_seed(9)
    model = LlamaForCausalLM(LlamaConfig(**LLAMA, max_position_embeddings=32)).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "norm" in name:
                parameter.copy_(torch.randint(512, 2048, parameter.shape) / 1024)
    model.save_pretrained(tmp_path / "hf")
    spec = centred_llama(tmp_path)
    told(ucprun, tmp_path / "hf", tmp_path / "centred", "--to", "safetensors:layout=centred", *spec)
    other = LlamaForCausalLM(LlamaConfig(**LLAMA, max_position_embeddings=32)).eval()
    for parent in [module for module in other.modules() if not isinstance(module, torch.nn.ModuleList)]:
        for name, module in list(parent.named_children()):
            if "norm" in name:
                setattr(parent, name, GemmaRMSNorm(len(module.weight), module.variance_epsilon))
    other.load_state_dict(load_file(tmp_path / "centred" / "model.safetensors"))
    assert torch.equal(logits(other), logits(model))
    norms = [module.weight for module in other.modules() if isinstance(module, GemmaRMSNorm)]
    assert len(norms) == 5 and all((weight < 0).any() for weight in norms)
    for weight in norms:
        weight.data += 1
    assert not torch.equal(logits(other), logits(model))
    told(
        ucprun,
        tmp_path / "centred",
        tmp_path / "back",
        "--to",
        "safetensors:layout=hf",
        *spec[:2],
        "--set",
        "layout=centred",
    )
    expect_equal(load_file(tmp_path / "back" / "model.safetensors"), load_file(tmp_path / "hf" / "model.safetensors"))


def save_trained(
    folder: Path, optimizer_type: type[torch.optim.Optimizer], **settings: float
) -> dict[str, torch.Tensor]:
    """One step of three tensors, as PyTorch saves it; the weights after it."""
    torch.manual_seed(4)
    model = torch.nn.Module()
    model.register_parameter("last", torch.nn.Parameter(torch.rand(5)))
    model.layers = torch.nn.ModuleList([torch.nn.Module()])
    model.layers[0].register_parameter("norm", torch.nn.Parameter(torch.rand(5)))
    model.layers[0].register_parameter("w", torch.nn.Parameter(torch.rand(5, 4)))
    optimizer = optimizer_type(model.parameters(), lr=0.1, **settings)
    sum(parameter.square().sum() for parameter in model.parameters()).backward()
    optimizer.step()
    weights, states = get_state_dict(model, optimizer)
    dcp.save({"model": weights, "optimizer": states}, checkpoint_id=folder, no_dist=True)
    return {name: parameter.detach() for name, parameter in model.named_parameters()}


@pytest.mark.parametrize(
    ("optimizer", "settings", "states"),
    [
        (torch.optim.AdamW, {"amsgrad": True}, ["exp_avg", "exp_avg_sq", "max_exp_avg_sq"]),
        (torch.optim.SGD, {"momentum": 0.9}, ["momentum_buffer"]),
        (torch.optim.RMSprop, {"centered": True}, ["square_avg", "grad_avg"]),
        (torch.optim.Adagrad, {}, ["sum"]),
    ],
    ids=str,
)
def test_states_of_gradients_stay(
    optimizer: type[torch.optim.Optimizer], settings: dict[str, float], states: list[str], ucprun: Path, tmp_path: Path
) -> None:
    """A shift of a weight leaves its gradient as it is."""
    spec = write_spec(tmp_path)
    weights = save_trained(tmp_path / "saved", optimizer, **settings)
    told(ucprun, tmp_path / "saved", tmp_path / "there", "--to", "dcp:style=app,layout=centred", *spec)
    entries = dcp.FileSystemReader(tmp_path / "there").read_metadata().state_dict_metadata
    before = dcp.FileSystemReader(tmp_path / "saved").read_metadata().state_dict_metadata

    def load(folder: str, names: dict[str, object], end: str) -> torch.Tensor:
        key = next(key for key in names if key.endswith(end))
        loaded = {key: torch.zeros(names[key].size)}
        dcp.load(loaded, checkpoint_id=tmp_path / folder, no_dist=True)
        return loaded[key]

    assert torch.equal(load("there", entries, "model.last"), weights["last"] - 1)
    assert torch.equal(load("there", entries, "model.norms"), weights["layers.0.norm"].view(5, 1) - 1)
    for state in states:
        assert torch.equal(load("there", entries, f"last.{state}"), load("saved", before, f"last.{state}"))


def test_refusals(ucprun: Path, tmp_path: Path) -> None:
    """A state of which nobody says whether it follows, numbers that are not added to, and tensors with several offsets;
    nothing is written."""
    spec = write_spec(tmp_path)
    save_trained(tmp_path / "averaged", torch.optim.ASGD)
    to = ["--to", "dcp:style=app,layout=centred", "--drop-state", "eta", "--drop-state", "mu", *spec]
    said = refused(ucprun, tmp_path / "averaged", tmp_path / "out", *to)
    assert "nothing says whether its state `ax` is one of weights, which follow, or of gradients, which do not" in said
    (tmp_path / "codes").mkdir()
    codes = {"last": torch.ones(5, dtype=torch.int8), "layers.0.norm": torch.ones(5), "layers.0.w": torch.ones(5, 4)}
    save_file(codes, tmp_path / "codes" / "model.safetensors")
    to = ["--to", "safetensors:layout=centred", *spec]
    assert "`weight` of tensor `last` plus -1, and it is int8" in refused(
        ucprun, tmp_path / "codes", tmp_path / "out", *to
    )
    together = 'layout together of m { "norms" = [norm: layers + last: 1, hidden] "w" = w }\n'
    spec = write_spec(tmp_path, TEXT + together)
    plain = {"last": torch.ones(5), "layers.0.norm": torch.ones(5), "layers.0.w": torch.ones(5, 4)}
    folder = write_model(tmp_path / "plain", plain, {})
    told(ucprun, folder, tmp_path / "together", "--to", "safetensors:layout=together", *spec)
    told(ucprun, folder, tmp_path / "far", "--to", "safetensors:layout=far", *spec)
    said = refused(ucprun, tmp_path / "together", tmp_path / "out", "--to", "safetensors:layout=far", *spec)
    assert "the elements of `norms` go to `last`, with offset(-3) by " in said
    said = refused(ucprun, tmp_path / "far", tmp_path / "out", "--to", "safetensors:layout=together", *spec)
    assert "`last` and `norms.0`, which are not averaged, scaled and offset alike" in said


def verify(ucprun: Path, first: Path, second: Path, *options: str) -> tuple[int, str]:
    """The exit code and the words of `verify FIRST --same SECOND`."""
    command = [ucprun, "verify", first, "--same", second, *options]
    result = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    return result.returncode, result.stdout + result.stderr


def test_verify_compares_after_the_offset(ucprun: Path, tmp_path: Path) -> None:
    """The first checkpoint is read with the offset of the second: what was converted is the same, and neither what is
    not shifted nor, from the second to the first, what has lost bits."""
    spec = write_spec(tmp_path)
    generator = torch.Generator().manual_seed(8)
    shapes = {"layers.0.norm": (64,), "layers.0.w": (64, 4), "last": (64,)}
    plain = {name: torch.rand(shape, generator=generator) ** 3 for name, shape in shapes.items()}
    folder = write_model(tmp_path / "plain", plain, {})
    told(ucprun, folder, tmp_path / "centred", "--to", "safetensors:layout=centred", *spec)
    code, said = verify(ucprun, folder, tmp_path / "centred", *spec)
    assert code == 0, said
    assert f"weights and masters of 2 tensors of {folder} are compared after an offset, rounded" in said
    for pair, count in (((folder, tmp_path / "centred"), 2), ((folder, folder), 0)):
        assert json.loads(verify(ucprun, *pair, "--json", *spec)[1])["offset_tensors"] == count
    code, said = verify(ucprun, tmp_path / "centred", folder, *spec)
    assert code == 3 and "`last` weight differs" in said and "`layers.0.w`" not in said
    unshifted = {"norms": plain["layers.0.norm"].view(64, 1), "w": plain["layers.0.w"][None], "last": plain["last"]}
    other = write_model(tmp_path / "unshifted", unshifted, {})
    for pair in ((folder, other), (other, folder)):
        code, said = verify(ucprun, *pair, *spec)
        assert code == 3 and "`last` weight differs" in said
    code, said = verify(ucprun, folder, other, "--bytes", *spec)
    assert code == 3 and "64 of 64 elements" in said
    rounded = tmp_path / "rounded"
    told(ucprun, folder, rounded, "--to", "safetensors:dtype=bf16,layout=centred", *spec)
    code, said = verify(ucprun, folder, rounded, *spec)
    assert code == 0 and "cast" in said, said


def test_layouts_that_differ_in_an_offset_alone(ucprun: Path, tmp_path: Path) -> None:
    """Nothing is guessed: no name shows which of them a folder has, and as one layout the numbers differ."""
    spec = centred_llama(tmp_path)
    tensors = {name: torch.randn(v.shape) for name, v in rules_of("llama").stored("hf").items()}
    folder = write_model(tmp_path / "hf", tensors, LLAMA)
    said = refused(ucprun, folder, tmp_path / "out", "--to", "safetensors:layout=centred", *spec[:2])
    assert "the layouts `hf`, `centred` of the model `llama` all fit this checkpoint" in said
    told(ucprun, folder, tmp_path / "centred", "--to", "safetensors:layout=centred", *spec)
    code, said = verify(ucprun, folder, tmp_path / "centred", *spec)
    assert code == 3 and "`model.norm.weight` weight differs" in said
    shutil.copytree(folder, tmp_path / "unshifted")
    assert verify(ucprun, folder, tmp_path / "unshifted", *spec)[0] == 0
    command = [ucprun, "diff", folder, tmp_path / "centred", *spec]
    result = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert result.returncode == 3 and "model.norm.weight" in result.stdout, result


@pytest.mark.skipif(
    shutil.which("mpirun") is None or not (Path(os.environ.get("UCP_BIN", "")) / "ucp_mpi.so").exists(),
    reason="needs mpirun and a build with MPI",
)
def test_ranks_that_share_the_work(ucprun: Path, tmp_path: Path) -> None:
    """Two ranks write what one does: manifest, masters, moments and weights."""
    spec = write_spec(tmp_path)
    save_trained(tmp_path / "saved", torch.optim.AdamW)
    to = ["--to", "safetensors:states=all,layout=centred", *spec]
    told(ucprun, tmp_path / "saved", tmp_path / "one", *to)
    command = ["mpirun", "-n", "2", ucprun, "convert", tmp_path / "saved", tmp_path / "two", *to]
    result = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, env=MPI_ENVIRONMENT)
    assert result.returncode == 0, result.stderr
    one, two = ({path.name: path.read_bytes() for path in (tmp_path / name).iterdir()} for name in ("one", "two"))
    assert one == two and "optimizer.safetensors" in one


@pytest.mark.parametrize(("dtype", "wanted"), [("fp32", "fp32"), ("bf16", "bf16"), ("fp32", "bf16")])
def test_megatron_core_adds_it_back(
    dtype: str, wanted: str, ucprun: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The converter of megatron-core computes `val + 1.0` of norms with `layernorm_zero_centered_gamma`. Its method is
    private, and is that of version 0.16.1."""
    from megatron.core.export.export_config import ExportConfig
    from megatron.core.export.trtllm.trtllm_weights_converter import (
        single_device_trtllm_model_weights_converter as converter,
    )
    from megatron.core.transformer import TransformerConfig

    monkeypatch.setattr(converter, "str_dtype_to_torch", lambda name: TYPES[wanted])
    config = TransformerConfig(num_layers=1, hidden_size=64, num_attention_heads=2, layernorm_zero_centered_gamma=True)
    theirs = converter.SingleDeviceTRTLLMModelWeightsConverter(ExportConfig(), config, None)
    values = (2 * torch.rand(4096, generator=torch.Generator().manual_seed(3)) - 1).to(TYPES[dtype])
    name = "transformer.layers.0.input_layernorm.weight"
    theirs._convert_transformer_layer(name, values.clone())
    spec = write_spec(tmp_path)
    stored = {"norms": values.view(-1, 1), "w": torch.ones(1, 4096, 4, dtype=TYPES[dtype]), "last": values.clone()}
    folder = write_model(tmp_path / "centred", stored, {})
    told(ucprun, folder, tmp_path / "plain", "--to", f"safetensors:dtype={wanted},layout=plain", *spec)
    found = load_file(tmp_path / "plain" / "model.safetensors")
    expected = theirs.trtllm_model_weights[name]
    assert torch.equal(found["layers.0.norm"], expected) and torch.equal(found["last"], expected)
    assert not torch.equal(expected, values)


def test_plans_loads_and_traces(ucprun: Path, tmp_path: Path) -> None:
    """A plan file of version 4 gives the folder of `convert`; `load --compare` and `trace` know the offset."""
    spec = write_spec(tmp_path)
    values = torch.rand(64, generator=torch.Generator().manual_seed(2))
    plain = {"last": values, "layers.0.norm": values.clone(), "layers.0.w": torch.ones(64, 4)}
    folder = write_model(tmp_path / "plain", plain, {})
    to = ["--to", "safetensors:dtype=bf16,layout=centred"]
    told(ucprun, folder, tmp_path / "converted", *to, *spec)

    def run(program: str, *words: str | Path) -> str:
        command = [ucprun.with_name(program), *words]
        result = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert result.returncode == 0, result
        return result.stdout

    run("ucpc", "plan", spec[1], "--from", folder, *to, "-o", tmp_path / "offset.plan")
    assert (tmp_path / "offset.plan").read_bytes()[:8] == b"UCPPLAN\4"
    run("ucprun", "run", tmp_path / "offset.plan", tmp_path / "ran", "--from", folder)
    expect_equal(*(load_file(tmp_path / name / "model.safetensors") for name in ("ran", "converted")))
    assert "384 elements compared with the source: equal" in run("ucprun", "load", folder, *to, *spec, "--compare")
    said = run("ucprun", "trace", folder, "last[3]", *to, *spec)
    assert "from weight, plus -1, cast from float32 to bfloat16" in said
