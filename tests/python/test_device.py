"""GPU memory, where there is a GPU; elsewhere with a stand-in for the plugin, to which the host's memory is a GPU's.

PyTorch without CUDA makes no tensors of a GPU, so with the stand-in tensors are the host's and said to be elsewhere.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import torch.distributed.checkpoint
from safetensors.torch import save_file

import ucp_checkpoint as ucp
from conftest import BIN, PACKAGE
from held import checkpoint
from ucp_checkpoint._arrays import device_name

STAND_IN = BIN.parent / "lib" / "ucp_host_device.so"
NCCL_STAND_IN = BIN.parent / "nccl_stand_in"

PRETENDING = """
import sys
import torch
import ucp_checkpoint as ucp
import ucp_checkpoint._arrays, ucp_checkpoint._into, ucp_checkpoint._load, ucp_checkpoint._target

class Pretending(ucp._arrays.Torch):
    def __init__(self, device):
        super().__init__("cpu")
        self.device = str(device)
    def settle(self):
        settled.append(self.device)

settled = []
path = sys.argv[1]
plain = ucp.load(path, to="deepspeed:dp=4,zero=1", rank=1)
ucp._load.framework_of = lambda name, device: Pretending(device)
found = ucp.load(path, to="deepspeed:dp=4,zero=1", rank=1, device="cuda:1", memory="64MiB", device_memory="4MiB")
assert settled == ["cuda:1"], settled
assert found.keys() == plain.keys()
for tensor, states in plain.items():
    for state, value in states.items():
        assert torch.equal(found[tensor][state].view(torch.uint8), value.view(torch.uint8)), (tensor, state)
assert found.report["bytes_to_devices"] >= found.report["bytes_placed"] > 0, found.report
assert 0 < found.report["transfers"] < 20, found.report
assert plain.report["bytes_to_devices"] == plain.report["transfers"] == 0

ucp._target.device_name = lambda device: "cuda:0"
ucp._into.settle = lambda devices: settled.extend(devices)
into = {name: torch.full(shape, 7.0, dtype=torch.float32) for name, shape in {
    "blocks.0.up.bias": [50], "blocks.0.norm.weight": [33], "blocks.0.up.weight": [50, 33]}.items()}
ucp.load_into(into, path, strict=False)
assert "cuda:0" in settled
ucp._target.device_name = lambda device: None
again = {name: torch.zeros_like(value) for name, value in into.items()}
ucp.load_into(again, path, strict=False)
for name, value in into.items():
    assert torch.equal(value, again[name]), name
try:
    ucp.load(path, to="universal", device="cuda:7")
except ucp.Error as error:
    assert (error.code, str(error)) == ("usage", "`cuda:7`: this process sees 2 GPUs, counted from 0"), error
else:
    raise AssertionError("there was a GPU of that number")
print("done")
"""

PRETENDING_RANKS = """
import sys
import torch
import torch.distributed as dist
import ucp_checkpoint as ucp
import ucp_checkpoint._arrays, ucp_checkpoint._into, ucp_checkpoint._load, ucp_checkpoint._target

class Pretending(ucp._arrays.Torch):
    def __init__(self, device):
        super().__init__("cpu")
        self.device = str(device)
    def settle(self):
        pass

path, rank, meeting = sys.argv[1], int(sys.argv[2]), sys.argv[3]
dist.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=2)
world = dist.group.WORLD
plain = ucp.load(path, to="universal")
framework_of = ucp._load.framework_of
ucp._load.framework_of = lambda name, device: Pretending(device)
found = ucp.load(path, to="universal", group=world, device=f"cuda:{rank}", device_memory="8MiB")
assert found.keys() == plain.keys()
for tensor, states in plain.items():
    for state, value in states.items():
        assert torch.equal(found[tensor][state].view(torch.uint8), value.view(torch.uint8)), (tensor, state)
report = found.report
assert report["bytes_from_gpus"] == report["bytes_received"] > 0, report
assert report["bytes_to_devices"] < 0.7 * report["bytes_placed"], report
assert "why_by_hosts" not in report

names = {"blocks.0.up.bias": [50], "blocks.0.norm.weight": [33], "blocks.0.up.weight": [50, 33]}
into = {name: torch.full(shape, 7.0) for name, shape in names.items()}
ucp._target.device_name = lambda device: f"cuda:{rank}"
ucp._into.settle = lambda devices: None
report = ucp.load_into(into, path, strict=False, group=world).report
assert report["bytes_from_gpus"] == report["bytes_received"] == report["bytes_placed"] - report["bytes_read"], report
assert rank == 0 or report["bytes_from_gpus"] > 0, report  # Rank 0 reads them all, as they are small.
ucp._target.device_name = lambda device: None if rank == 0 else "cuda:1"
report = ucp.load_into(into, path, strict=False, group=world).report
assert report["bytes_from_gpus"] == 0, report
assert rank == 0 or "rank 0 loads into no GPU" in report["why_by_hosts"], report
ucp._target.device_name = lambda device: None
again = {name: torch.zeros(shape) for name, shape in names.items()}
ucp.load_into(again, path, strict=False)
for name, value in into.items():
    assert torch.equal(value, again[name]), name
dist.destroy_process_group()
print("done")
"""

PRETENDING_TO_SAVE = """
import sys
import torch
import torch.distributed.checkpoint
import ucp_checkpoint as ucp
import ucp_checkpoint._save, ucp_checkpoint._saved_dict, ucp_checkpoint._stage_devices
from ucp_checkpoint._saved_dict import Description

GPU = torch.device("cuda:1")
add = Description.add_tensor
def add_of_gpu(self, key, *rest):
    add(self, key, *rest)
    if not key.startswith("host"):
        self.is_on_devices = True
        self.memory[-1] = [(0, *place[1:]) for place in self.memory[-1]]
Description.add_tensor = add_of_gpu

class Stages(ucp._stage_devices.DeviceStages):
    def _boxes(self, described, wave=None):
        mine = [(described.boxes[entry][box], offset) for entry, box, offset, count, at in self._client.layout()[0]
                if described.memory[entry][box][0] == 0 and count > 0 and wave in (None, at)]
        return [(GPU, mine)]
ucp._stage_devices.DeviceStages = Stages

torch.manual_seed(1)
matrix = torch.randn(300, 2000)
state = {
    "whole": torch.randn(3000, 700), "half": matrix[:, :1000], "transposed": matrix.t(), "odd": torch.arange(77).byte(),
    "channels": torch.randn(4, 5, 6, 7).contiguous(memory_format=torch.channels_last), "row": matrix[5:6, 3:8],
    "host": torch.randn(500), "empty": torch.zeros(0, 3), "scalar": torch.tensor(3.5),
    **{f"small.{i}": torch.randn(i % 50 + 1) for i in range(300)},
}
def check(saving, expected):
    found = {f"model.{name}": torch.empty(value.shape, dtype=value.dtype) for name, value in expected.items()}
    torch.distributed.checkpoint.load(found, checkpoint_id=saving.path, no_dist=True)
    for name, value in expected.items():
        assert torch.equal(found[f"model.{name}"], value), (saving.path, name)

saver = ucp.Saver(state, to="dcp:style=plain", bus_share=0.9)
for number in range(3):
    for value in state.values():
        value.add_(1)
    expected = {name: value.clone() for name, value in state.items()}
    saving = saver.save(f"{sys.argv[1]}/{number}")
    saving.staged.result()
    for value in state.values():
        value.zero_()  # It is the job's again.
    saving.result()
    for value, kept in zip(state.values(), expected.values()):
        value.copy_(kept)
    check(saving, expected)
saver.close()
with ucp.Saver(state, to="dcp:style=plain", staging="2x") as saver:
    savings = []
    for number in range(4):
        for value in state.values():
            value.add_(1)
        saving = saver.save(f"{sys.argv[1]}/two-{number}")
        savings.append((saving, {name: value.clone() for name, value in state.items()}))
        saving.staged.result()
    for saving, expected in savings:
        saving.result()
        check(saving, expected)
with ucp.Saver(state, to="dcp:style=plain", staging="9MB") as saver:
    assert saver.plan["waves"] == 2
    for number in range(3):
        for value in state.values():
            value.add_(1)
        saving = saver.save(f"{sys.argv[1]}/waves-{number}")
        expected = {name: value.clone() for name, value in state.items()}
        for value in state.values():
            value.zero_()
        saving.result()
        for value, kept in zip(state.values(), expected.values()):
            value.copy_(kept)
        check(saving, expected)
ucp.save(state, f"{sys.argv[1]}/at-once", to="dcp:style=plain")
print("done")
"""

PRETENDING_OFFSETS = """
import sys
import torch
import ucp_checkpoint as ucp
import ucp_checkpoint._into, ucp_checkpoint._target
from safetensors.torch import load_file

folder = sys.argv[1]
stored = load_file(f"{folder}/saved/model.safetensors")
settled = []
ucp._target.device_name = lambda device: "cuda:0"
ucp._into.settle = lambda devices: settled.extend(devices)
for wanted in (torch.float64, torch.float32, torch.bfloat16, torch.float16):
    target = {name: torch.full([100_000], 7.0, dtype=wanted) for name in ("weight", "other")}
    report = ucp.load_into(target, f"{folder}/saved", layout="centred", spec=f"{folder}/m.ucp").report
    assert "cuda:0" in settled and report["bytes_to_devices"] > 0, report
    computed = stored["norm"].double() if wanted == torch.float64 else stored["norm"].float()
    assert torch.equal(target["weight"], (computed - 1).to(wanted)), wanted
    assert torch.equal(target["other"], stored["other"].to(wanted)), wanted
print("done")
"""


@pytest.fixture
def pretending(tmp_path: Path) -> dict[str, str]:
    """An environment whose package has the stand-in as its plugin."""
    if not STAND_IN.exists():
        pytest.skip("the stand-in for a GPU is not built")
    package = tmp_path / "ucp_checkpoint"
    package.mkdir()
    for source in (PACKAGE / "ucp_checkpoint").iterdir():
        if source.name.startswith("_ucp.") and source.suffix == ".so":
            shutil.copy2(source, package / source.name)  # Behind a symbolic link it would look for plugins there.
        elif source.name != "bin":
            (package / source.name).symlink_to(source.resolve())
    (package / "bin").mkdir()
    (package / "bin" / "ucp_cuda.so").symlink_to(STAND_IN)
    for name in ("ucp_nccl.so", "libnccl.so.2"):
        (package / "bin" / name).symlink_to(NCCL_STAND_IN / name)
    settings = {"PYTHONPATH": str(tmp_path), "UCP_HOST_DEVICE": "checks=0,delay=300", "UCP_WRITER": str(BIN / "ucprun")}
    return os.environ | settings


def test_memory_of_a_device_is_filled_by_its_address(pretending: dict[str, str]) -> None:
    """The same bits as in the host's memory, in few transfers, after whoever used the memory is done."""
    result = subprocess.run([sys.executable, "-c", PRETENDING, checkpoint("zero1_dp4")], env=pretending, check=False,
                            capture_output=True, text=True, timeout=120)  # fmt: skip
    assert result.stdout == "done\n", result.stderr


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_weights_with_an_offset(dtype: torch.dtype, pretending: dict[str, str], tmp_path: Path) -> None:
    """Norms that the job stores around zero, also where a device widens what else it gets."""
    (tmp_path / "m.ucp").write_text(
        "ucp 1\ndim n\nmodel m { norm [n] other [n] }\n"
        'layout plain of m { "norm" = norm "other" = other }\n'
        'layout centred of m { "weight" = norm offset(-1) "other" = other }\n'
    )
    (tmp_path / "saved").mkdir()
    values = (2 * torch.rand(100_000, generator=torch.Generator().manual_seed(5)) ** 3).to(dtype)
    save_file({"norm": values, "other": values.clone()}, tmp_path / "saved" / "model.safetensors")
    result = subprocess.run([sys.executable, "-c", PRETENDING_OFFSETS, tmp_path], env=pretending, check=False,
                            capture_output=True, text=True, timeout=120)  # fmt: skip
    assert result.stdout == "done\n", result.stderr


def two_ranks(pretending: dict[str, str], meeting: Path) -> list[tuple[int, str, str]]:
    """Both ranks' exit codes, output and errors."""
    words = [sys.executable, "-c", PRETENDING_RANKS, checkpoint("zero1_dp4")]
    ranks = [subprocess.Popen([*words, str(rank), meeting], env=pretending, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE) for rank in range(2)]  # fmt: skip
    try:
        said = [rank.communicate(timeout=120) for rank in ranks]
        return [(rank.returncode, output, errors) for rank, (output, errors) in zip(ranks, said, strict=True)]
    finally:
        for rank in ranks:
            rank.kill()
            rank.communicate()


def test_ranks_send_from_device_to_device(pretending: dict[str, str], tmp_path: Path) -> None:
    """Each its half, where all of them load into a device; else by way of the hosts."""
    for _, output, errors in two_ranks(pretending, tmp_path / "meeting"):
        assert output == "done\n", errors


def test_a_rank_that_dies_between_devices_is_named(pretending: dict[str, str], tmp_path: Path) -> None:
    """In the middle of an exchange, which NCCL would wait for until its time is up, 300 seconds later."""
    other, killed = two_ranks(pretending | {"UCP_STAND_IN_NCCL": "dies"}, tmp_path / "meeting")
    assert killed[0] == -signal.SIGKILL, killed
    assert other[0] == 1
    assert re.search(r"ucp_checkpoint\S*Error: .*rank 1", other[2]), other[2]


def test_tensors_of_a_device_are_saved_from_its_memory(pretending: dict[str, str], tmp_path: Path) -> None:
    """Of every shape and stride, beside tensors of the host, while the job changes them as soon as it may."""
    result = subprocess.run([sys.executable, "-c", PRETENDING_TO_SAVE, tmp_path], env=pretending, check=False,
                            capture_output=True, text=True, timeout=120)  # fmt: skip
    assert result.stdout == "done\n", result.stderr


def test_devices_that_are_not_served() -> None:
    """PyTorch knows more kinds than there is a way to."""
    with pytest.raises(ucp.Error, match="only memory of cpu or cuda devices is filled") as failure:
        device_name(torch.device("xpu:0"))
    assert failure.value.code == "unsupported"


needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="PyTorch finds no GPU here")


@needs_gpu
def test_a_gpu_gets_what_the_host_gets() -> None:
    """Bit for bit, with casts and without."""
    for to in ("universal", "safetensors:dtype=bf16", "safetensors:dtype=fp32"):
        on_host = ucp.load(checkpoint("bf16_masters_zero2"), to=to)
        on_gpu = ucp.load(checkpoint("bf16_masters_zero2"), to=to, device="cuda")
        for tensor, states in on_host.items():
            for state, value in states.items():
                assert on_gpu[tensor][state].is_cuda
                assert torch.equal(on_gpu[tensor][state].cpu().view(torch.uint8), value.view(torch.uint8))


@needs_gpu
def test_tensors_of_a_gpu_and_of_the_host_are_filled() -> None:
    """In one call, each where it is."""
    into = {"blocks.0.up.bias": torch.zeros(50, device="cuda"), "blocks.0.norm.weight": torch.zeros(33)}
    plain = {name: torch.zeros_like(value, device="cpu") for name, value in into.items()}
    for target in (into, plain):
        ucp.load_into(target, checkpoint("zero1_dp2"), strict=False)
    for name, value in into.items():
        assert torch.equal(value.cpu(), plain[name])


@needs_gpu
def test_a_job_on_a_gpu_is_saved_while_it_trains(tmp_path: Path) -> None:
    """The state of the moment of the call, whatever the GPU does to it afterwards."""
    torch.manual_seed(2)
    model = torch.nn.Sequential(*[torch.nn.Linear(1024, 1024) for _ in range(12)], torch.nn.Linear(1024, 3)).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)

    def train() -> None:
        model(torch.randn(64, 1024, device="cuda")).square().mean().backward()
        optimizer.step()

    train()
    saver = ucp.Saver(model, optimizer, to="dcp:style=plain")
    for number in range(5):
        train()
        expected = {name: value.clone() for name, value in model.state_dict().items()}
        moments = [{name: value.clone() for name, value in kept.items()} for kept in optimizer.state.values()]
        saving = saver.save(tmp_path / str(number))
        for _ in range(4):
            train()
        saving.result()
        found = ucp.load(tmp_path / str(number), to="universal")
        parameters = dict(model.named_parameters())
        for (name, value), kept in zip(parameters.items(), moments, strict=True):
            assert not torch.equal(value, expected[name]), "the job did not train on"
            assert torch.equal(found[name]["fp32"], expected[name].cpu()), (number, name)
            for moment in ("exp_avg", "exp_avg_sq"):
                assert torch.equal(found[name][moment], kept[moment].cpu()), (number, name, moment)
    saver.close()


@needs_gpu
def test_views_of_a_gpus_memory_are_saved(tmp_path: Path) -> None:
    """Of every stride."""
    matrix = torch.randn(300, 2000, device="cuda")
    state = {
        "whole": matrix, "half": matrix[:, :1000], "transposed": matrix.t(), "odd": matrix[:, 1:8].to(torch.bfloat16),
        "channels": torch.randn(4, 5, 6, 7, device="cuda").contiguous(memory_format=torch.channels_last),
        "flags": matrix > 0, "host": torch.randn(500),
    }  # fmt: skip
    for way, folder in ((ucp.save, "at-once"), (_save_later, "later")):
        way(state, tmp_path / folder, to="dcp:style=plain")
        found = {f"model.{key}": torch.zeros(value.shape, dtype=value.dtype) for key, value in state.items()}
        torch.distributed.checkpoint.load(found, checkpoint_id=tmp_path / folder, no_dist=True)
        for key, value in state.items():
            assert torch.equal(found[f"model.{key}"], value.cpu()), (folder, key)


def _save_later(state: dict[str, torch.Tensor], path: Path, to: str) -> None:
    with ucp.Saver(state, to=to) as saver:
        saver.save(path).result()
