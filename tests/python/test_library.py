"""The C++ library as its users have it: installed, found by CMake, and linked by the examples, in plain C++ and with
LibTorch on the ranks of an MPI job. They load the state that the running engine held, and save one that PyTorch loads.
"""

from __future__ import annotations

import math
import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
import torch.distributed.checkpoint as dcp

import ucp_checkpoint as ucp
from conftest import BIN
from held import checkpoint, describe, spec_of, states_of

SOURCE = Path(__file__).parents[2]
EXAMPLES = SOURCE / "examples"
TORCH_CMAKE = Path(torch.utils.cmake_prefix_path) / "Torch" / "TorchConfig.cmake"

pytestmark = pytest.mark.skipif(not shutil.which("cmake") or not shutil.which("ninja"), reason="needs cmake and ninja")

# More ranks than processors, as root in a container.
MPI = os.environ | {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMPI_MCA_rmaps_base_oversubscribe": "1",
    "OMPI_MCA_hwloc_base_binding_policy": "none",
    "OMPI_MCA_btl_vader_single_copy_mechanism": "none",
}


def run(*command: object, **environment: str) -> subprocess.CompletedProcess[str]:
    """With its output; LibTorch takes ten seconds to compile, and minutes on a busy machine."""
    return subprocess.run(
        [str(word) for word in command], capture_output=True, text=True, timeout=1200, check=False,
        env=MPI | environment,
    )  # fmt: skip


def built(example: str, folder: Path, *options: str) -> Path:
    """The example's program, as the documentation says to build it."""
    configured = run("cmake", "-G", "Ninja", "-S", EXAMPLES / example, "-B", folder, "-DCMAKE_CXX_FLAGS=-O0",
                     *options)  # fmt: skip
    assert configured.returncode == 0, configured.stderr
    made = run("cmake", "--build", folder)
    assert made.returncode == 0, made.stdout
    return folder / example


@pytest.fixture(scope="module")
def prefix(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the library is installed, with nothing else to be found."""
    folder = tmp_path_factory.mktemp("prefix")
    installed = run("cmake", "--install", BIN.parent, "--prefix", folder)
    assert installed.returncode == 0, installed.stderr
    return folder


@pytest.fixture(scope="module")
def load_shards(prefix: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built("load_shards", tmp_path_factory.mktemp("load_shards"), f"-DCMAKE_PREFIX_PATH={prefix}")


def lines_of(found: ucp.Loaded) -> list[str]:
    """The output of the example for such a load, sorted."""
    return sorted(
        f"{tensor} {state}: {str(found[tensor][state].dtype).removeprefix('torch.')} {part.begin}..{part.end}, "
        f"{found[tensor][state].nbytes} bytes"
        for (tensor, state), part in found.parts.items()
    )


def test_an_installed_library(load_shards: Path) -> None:
    """All that a rank of ZeRO holds, and where in its tensors it lies, as Python has it."""
    told = run(load_shards, checkpoint("zero1_dp2"), "deepspeed:dp=3,zero=1", 2)
    assert told.returncode == 0, told.stderr
    found = ucp.load(checkpoint("zero1_dp2"), to="deepspeed:dp=3,zero=1", rank=2)
    *parts, read = told.stdout.splitlines()
    assert sorted(parts) == lines_of(found)
    assert read == f"{found.report['bytes_read']} bytes read"


def test_an_error_is_a_sentence(load_shards: Path) -> None:
    """The one that the programs print."""
    told = run(load_shards, "nowhere", "universal", 0)
    assert (told.returncode, told.stderr) == (1, "load_shards: `nowhere` does not exist\n")


def test_the_build_tree_serves_as_well(tmp_path: Path) -> None:
    """Without an installation."""
    program = built("load_shards", tmp_path, f"-Ducp_DIR={BIN.parent}")
    assert run(program, checkpoint("zero1_dp2"), "universal", 0).returncode == 0


# The code that the page leaves out around its blocks: two ranks of MPI, which have memory for the rows that they hold.
PROGRAM = """
#include <filesystem>
#include <fstream>
#include <iostream>
#include <vector>

{headers}
void Converts() {{
{converts}
}}

void Loads() {{
{shards}
}}

void ByNccl(int rank, int size, int local_rank) {{
{nccl}
}}

void OnGpu(int local_rank) {{
  std::vector<std::byte> memory(50 * 33 * sizeof(float));  // The stand-in takes it for a GPU's.
  const std::span<std::byte> of_gpu = memory;
{gpu}
  std::ofstream file("on_gpu");
  file.write(reinterpret_cast<const char*>(memory.data()), static_cast<std::streamsize>(memory.size()));
}}

void Fills() {{
  ucp::MpiRanks ranks;
  std::vector<std::byte> rows(25 * 33 * sizeof(float));
  const std::span<std::byte> bytes = rows;
{fills}
  std::ofstream file("rows" + std::to_string(ranks.rank()));
  file.write(reinterpret_cast<const char*>(rows.data()), static_cast<std::streamsize>(rows.size()));
  const auto train = [&] {{ rows.assign(rows.size(), std::byte()); }};
  if (ranks.rank() == 0) std::filesystem::create_directory("saved");
{saves}
  if (ranks.rank() != 0) return;
  Converts();
  Loads();
  OnGpu(1);
  std::cout << outcome.not_loaded.size() << "\\n";
}}

int main(int argc, char** argv) {{
  MPI_Init(&argc, &argv);
  if (argc > 1) ByNccl(0, 1, 0);  // It needs a GPU.
  Fills();
  MPI_Finalize();
}}
"""
PROJECT = """
cmake_minimum_required(VERSION 3.25)
project(job LANGUAGES C CXX)
find_package(MPI REQUIRED COMPONENTS C)
add_executable(job job.cpp)
target_compile_definitions(job PRIVATE OMPI_SKIP_MPICXX MPICH_SKIP_MPICXX)
target_link_libraries(job PRIVATE MPI::MPI_C)
"""


def test_the_pages_code(prefix: Path, tmp_path: Path) -> None:
    """The C++ and CMake of docs/library.md are built as they stand there, against an installation, and run."""
    if not shutil.which("mpirun"):
        pytest.skip("needs MPI")
    prefix = Path(shutil.copytree(prefix, tmp_path / "prefix", symlinks=True))
    plugins = next(prefix.rglob("libucprun.so")).parent / "ucp"
    plugins.mkdir(exist_ok=True)
    shutil.copy(BIN.parent / "lib" / "ucp_host_device.so", plugins / "ucp_cuda.so")  # The stand-in for a GPU.
    page = (SOURCE / "docs" / "library.md").read_text()
    blocks = re.findall(r"^```cpp\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    headers = sorted(set(re.findall(r"`(ucp/\w+\.h)`", page)))
    assert len(headers) == len(list((SOURCE / "runtime" / "library" / "include" / "ucp").iterdir()))
    (package,) = re.findall(r"^```cmake\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    headers.remove("ucp/torch.h")  # The example of LibTorch has it.
    names = ("shards", "converts", "nccl", "fills", "gpu", "saves")
    included = "".join(f"#include <{header}>\n" for header in headers)
    program = PROGRAM.format(headers=included, **dict(zip(names, blocks, strict=True)))
    (tmp_path / "job.cpp").write_text(program)
    (tmp_path / "CMakeLists.txt").write_text(PROJECT + package)
    (tmp_path / "checkpoints").symlink_to(checkpoint("zero1_dp2"))
    configured = run("cmake", "-G", "Ninja", "-S", tmp_path, "-B", tmp_path / "build", f"-DCMAKE_PREFIX_PATH={prefix}")
    assert configured.returncode == 0, configured.stderr
    made = run("cmake", "--build", tmp_path / "build")
    assert made.returncode == 0, made.stdout
    with_gpus = {"UCP_HOST_DEVICE": "checks=0,delay=300"}
    told = run("mpirun", "-n", 2, "-wdir", tmp_path, tmp_path / "build" / "job", **with_gpus)
    assert told.returncode == 0, told.stderr
    written, *parts, others = told.stdout.splitlines()
    assert int(written.removesuffix(" bytes written")) > 0
    assert ucp.verify(tmp_path / "converted", same=checkpoint("zero1_dp2"))["differences"] == []
    found = ucp.load(checkpoint("zero1_dp2"), to="deepspeed:dp=4,zero=1", rank=2)
    assert sorted(parts) == lines_of(found)
    whole = ucp.load(checkpoint("zero1_dp2"), to="universal")
    assert int(others) == len(whole)  # Of each tensor, something is not loaded: of this one, its moments.
    rows = b"".join((tmp_path / f"rows{rank}").read_bytes() for rank in range(2))
    filled = torch.frombuffer(bytearray(rows), dtype=torch.float32)
    assert torch.equal(filled.reshape(50, 33), whole["blocks.0.up.weight"]["fp32"])
    on_gpu = torch.frombuffer(bytearray((tmp_path / "on_gpu").read_bytes()), dtype=torch.float32)
    assert torch.equal(on_gpu.reshape(50, 33), filled.reshape(50, 33))
    state = {"model": {"up.weight": torch.zeros(50, 33)}, "step": 0}
    dcp.load(state, checkpoint_id=tmp_path / "saved" / "step-500", no_dist=True)
    assert torch.equal(state["model"]["up.weight"], whole["blocks.0.up.weight"]["fp32"])  # type: ignore[index]
    assert state["step"] == 500


@pytest.mark.parametrize("compiler", ["g++", "clang++-19"])
def test_headers_and_the_modes_of_the_standard_library(compiler: str, tmp_path: Path) -> None:
    """One that gives vectors another size is refused; without that the job would end in the middle of a call."""
    if not shutil.which(compiler):
        pytest.skip(f"needs {compiler}")
    headers = SOURCE / "runtime" / "library" / "include"
    names = ("error", "load", "load_into", "nccl", "ranks", "save", "source")
    (tmp_path / "job.cpp").write_text("".join(f"#include <ucp/{name}.h>\n" for name in names))
    compiled = (compiler, "-fsyntax-only", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-I", headers)
    for mode in ("-std=c++20", "-std=c++23", "-D_GLIBCXX_ASSERTIONS", "-fno-exceptions", "-fno-rtti"):
        told = run(*compiled, "-std=c++20", mode, tmp_path / "job.cpp")
        assert told.returncode == 0, told.stderr
    refused = run(*compiled, "-std=c++20", "-D_GLIBCXX_DEBUG", tmp_path / "job.cpp")
    assert refused.returncode != 0
    assert "which -D_GLIBCXX_DEBUG makes another" in refused.stderr


def test_the_library_shows_its_own_names_alone(prefix: Path) -> None:
    """A process may hold another version of what is linked into it."""
    (library,) = {path.resolve() for path in prefix.rglob("libucprun.so*")}
    symbols = run("nm", "-DC", "--defined-only", library).stdout.splitlines()
    names = {line.split(maxsplit=2)[2] for line in symbols}
    strangers = {name for name in names if not re.match(r"((typeinfo|typeinfo name|vtable) for )?ucp::v0::", name)}
    assert strangers == set()
    assert any(name.startswith("ucp::v0::ShardLoad::Fill") for name in names)


@pytest.fixture(scope="module")
def load_libtorch(prefix: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    if not TORCH_CMAKE.exists():
        pytest.skip("this PyTorch has no LibTorch for CMake")
    if not shutil.which("mpirun"):
        pytest.skip("needs MPI")
    search = f"-DCMAKE_PREFIX_PATH={prefix};{torch.utils.cmake_prefix_path}"
    return built("load_libtorch", tmp_path_factory.mktemp("load_libtorch"), search)


def checksum(values: torch.Tensor) -> int:
    """Of the bytes, each times its place."""
    row = values.contiguous().reshape(-1).view(torch.uint8).to(torch.int64)
    return int((row * torch.arange(1, len(row) + 1)).sum())


# rank 0 head.weight fp32 float32 [5, 33] 0..165 1234
LINE = re.compile(r"rank (\d+) (\S+) (\S+) (\S+) \[([\d, ]*)\] (\d+)\.\.(\d+) (-?\d+)")


@dataclass
class Shard:
    """The answer of a rank about a tensor of its own."""

    rank: int
    tensor: str
    state: str
    shape: list[int]
    begin: int
    end: int
    checksum: int


def shards_of_ranks(program: Path, ranks: int, *arguments: object) -> list[Shard]:
    """Those of all ranks of a job."""
    told = run("mpirun", "-n", ranks, program, *arguments)
    assert told.returncode == 0, told.stderr
    shards = []
    for line in told.stdout.splitlines():
        found = LINE.fullmatch(line)
        assert found, line
        rank, tensor, state, _, shape, begin, end, value = found.groups()
        lengths = [int(length) for length in shape.split(",") if length]
        shards.append(Shard(int(rank), tensor, state, lengths, int(begin), int(end), int(value)))
    return shards


def whole_tensors(name: str) -> ucp.Loaded:
    """Every state whole, and the same as the running engine held."""
    whole = ucp.load(checkpoint(name), to="universal", spec=spec_of(name))
    for (tensor, state), truth in states_of(name).items():
        assert {"shape": list(whole[tensor][state].shape), **describe(whole[tensor][state])} == truth
    return whole


def test_libtorch_tensors_of_data_parallel_ranks(load_libtorch: Path) -> None:
    """Two ranks share out what four had; each part is those elements of the tensor that the engine held."""
    whole = whole_tensors("zero1_dp4")
    shards = shards_of_ranks(load_libtorch, 2, checkpoint("zero1_dp4"), "deepspeed:dp=2,zero=1")
    elements: dict[tuple[str, str], int] = {}
    for shard in shards:
        if shard.state == "weight":
            continue
        key = shard.tensor, shard.state
        row = whole[shard.tensor][shard.state].reshape(-1)
        assert shard.checksum == checksum(row[shard.begin : shard.end]), key
        assert math.prod(shard.shape) == shard.end - shard.begin
        elements[key] = elements.get(key, 0) + shard.end - shard.begin
    assert {shard.rank for shard in shards} == {0, 1}
    assert elements == {key: whole[key[0]][key[1]].numel() for key in states_of("zero1_dp4")}


def test_libtorch_tensors_of_tensor_parallel_ranks(load_libtorch: Path) -> None:
    """Matrices that are cut by rows and by columns, against torch.chunk of what the engine held."""
    name = "llama_pp2_tp2_dp2"
    whole = whole_tensors(name)
    shards = shards_of_ranks(load_libtorch, 2, checkpoint(name), "deepspeed:pp=1,tp=2,dp=1,zero=1", spec_of(name))
    told = {(shard.rank, shard.tensor): (shard.shape, shard.checksum) for shard in shards if shard.state == "fp32"}
    dims = {"3.self_attention.query_key_value.weight": 0, "3.self_attention.dense.weight": 1}
    dims |= {"3.mlp.dense_4h_to_h.weight": 1}
    for tensor, dim in dims.items():
        for rank, part in enumerate(whole[tensor]["fp32"].chunk(2, dim)):
            assert told[rank, tensor] == (list(part.shape), checksum(part)), (rank, tensor)


def test_an_error_on_the_ranks_of_a_job(load_libtorch: Path) -> None:
    """Once, by rank 0, and all of them end."""
    told = run("mpirun", "-n", 2, load_libtorch, checkpoint("zero1_dp4"), "deepspeed:dp=4,zero=1")
    assert told.returncode != 0
    assert told.stderr.count("is a job of 4 ranks, and 2 load") == 1, told.stderr


def test_libtorch_saves_while_it_trains_on(prefix: Path, tmp_path: Path) -> None:
    """All tensors have changed since, and the checkpoint has them as they were; PyTorch finds the table in it."""
    if not TORCH_CMAKE.exists():
        pytest.skip("this PyTorch has no LibTorch for CMake")
    if not shutil.which("mpirun"):
        pytest.skip("needs MPI")
    search = f"-DCMAKE_PREFIX_PATH={prefix};{torch.utils.cmake_prefix_path}"
    program = built("save_libtorch", tmp_path / "build", search)
    told = run("mpirun", "-n", 2, program, tmp_path / "step-3")
    assert told.returncode == 0, told.stderr
    said = "of 13 tensors, 13 have changed since, and 0 differ from what was saved"
    assert told.stdout == f"rank 0: {said}\nrank 1: {said}\n"
    names = [f"{layer}.{kind}" for layer in (0, 2) for kind in ("weight", "bias")]
    state = {
        "model": {"table": torch.zeros(6, 4, dtype=torch.bfloat16)},
        "optimizer": {"param_groups": [{"lr": 0.0, "betas": [], "params": []}]},
        "step": 0,
    }
    dcp.load(state, checkpoint_id=tmp_path / "step-3", no_dist=True)
    rows = torch.arange(6) // 3 * 100 + 4  # Rank 1 begins at 100, and four steps have added 1.
    assert torch.equal(state["model"]["table"], rows[:, None].expand(6, 4).bfloat16())  # type: ignore[index]
    assert state["optimizer"] == {"param_groups": [{"lr": 0.1, "betas": [0.9, 0.999], "params": names}]}
    assert state["step"] == 3
    again = run("mpirun", "-n", 2, program, tmp_path / "step-3")
    assert again.returncode != 0
    assert again.stderr.count("exists") == 1, again.stderr
