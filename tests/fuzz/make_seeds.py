"""make_seeds.py BIN OUT: real files for the fuzzers to begin with, one folder for each target, made of the fixtures by
the programs in BIN. OUT/folders has whole checkpoints, of which one file is replaced."""

from __future__ import annotations

import shutil
import struct
import subprocess
import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
FIXTURES = ROOT / "tests/fixtures"
OF_MEGATRON = FIXTURES / "megatron_core/llama_own_buffers_tp2_pp2_dp2"
OF_DCP = ROOT / "tests/unit/compiler/formats/dcp/samples"
OF_ARCHIVES = ["zero1_dp2", "zero3_frozen_dp4", "pipeline_pp2", "zero0_fused_fp16", "moe_ep2_dp4", "autotp_tp2_dp2"]
STRATEGIES = [
    "universal", "universal:mp=4,ep=2", "universal:zero=3,engine=0.18.9", "safetensors:dtype=bf16,max_shard=5GB",
    "safetensors:states=all,names=memory", "deepspeed:tp=2,pp=3+2+2,dp=4,zero=1,dtype=bf16",
    "deepspeed:pp=2,partition=uniform,round_robin=true,sub_group_size=1e9", "deepspeed:dp=8,sp=2,ep=4,zero=0",
]  # fmt: skip
PLANS = [
    ("plan", "zero2_dp2", "universal"), ("plan", "zero1_dp2", "deepspeed:dp=3,zero=2"),
    ("plan_run", "zero1_dp2", "deepspeed:dp=3,zero=2"),
]  # fmt: skip


def write(folder: Path, name: str, data: bytes) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(data)


def wire(*parts: int | bytes) -> bytes:
    """A message of ranks (runtime/wire/byte_codec.h)."""
    return b"ucpwire\x01" + b"".join(
        struct.pack("<Q", part) if isinstance(part, int) else struct.pack("<Q", len(part)) + part for part in parts
    )


def data_of_pickles(path: Path) -> list[bytes]:
    if not zipfile.is_zipfile(path):
        return []
    with zipfile.ZipFile(path) as archive:
        return [archive.read(name) for name in archive.namelist() if name.endswith("data.pkl")]


def main() -> None:
    programs, out = Path(sys.argv[1]), Path(sys.argv[2])
    shutil.rmtree(out, ignore_errors=True)

    def run(program: str, *arguments: object) -> None:
        subprocess.run([programs / program, *map(str, arguments)], check=True, stdout=subprocess.DEVNULL)

    for name in OF_ARCHIVES:
        for number, path in enumerate(sorted((FIXTURES / name / "checkpoint").rglob("*.pt"))):
            write(out / "archive", f"{name}-{number}", path.read_bytes())
            for data in data_of_pickles(path):
                write(out / "pickle", f"{name}-{number}", data)
    for number, strategy in enumerate(STRATEGIES):
        write(out / "strategy", str(number), strategy.encode())
    write(out / "wire", "request", wire(2, 7, b"/data/model.pt", 64, 4096, 2, 3, 8192, 2, 65536))
    write(out / "wire", "looks", wire(1, b"model.pt", 1, 0, b"", 4096, 2049, 77, 1_700_000_000_000_000_000))
    for path in sorted((ROOT / "specs").glob("*.ucp")):
        write(out / "spec", path.stem, path.read_bytes())

    folders = out / "folders"
    folders.mkdir()
    source = FIXTURES / "zero2_dp2/checkpoint"
    shutil.copytree(source, folders / "deepspeed")
    run("ucprun", "convert", source, folders / "universal", "--to", "universal")
    run("ucprun", "convert", source, folders / "safetensors", "--to", "safetensors:states=all,names=memory")
    shutil.copytree(OF_DCP / "saved", folders / "dcp")
    shutil.copytree(OF_MEGATRON / "checkpoint/iter_0001000", folders / "megatron")
    for path in OF_DCP.glob("*.metadata"):
        write(out / "dcp_metadata", path.stem, path.read_bytes())
    write(out / "dcp_metadata", "ranks", (OF_DCP / "torch_checkpointing" / "metadata.pkl").read_bytes())
    for format_name in ("deepspeed", "universal", "safetensors", "dcp", "megatron"):
        paths = sorted(path for path in (folders / format_name).rglob("*") if path.is_file())
        for number, path in enumerate(paths):
            if number < 256 and path.stat().st_size < 100_000:
                write(out / f"folder-{format_name}", str(number), bytes([number]) + path.read_bytes())
    for path in folders.glob("*/ucp_manifest.json"):
        write(out / "manifest", path.parent.name, path.read_bytes())
    for path in (folders / "safetensors").glob("*.safetensors"):
        data = path.read_bytes()
        end = 8 + int.from_bytes(data[:8], "little")
        write(out / "safetensors_header", path.name, ((len(data) - end) // 64).to_bytes(2, "big") + data[8:end])
    for folder, name, target in PLANS:
        (out / folder).mkdir(exist_ok=True)
        run("ucpc", "plan", "--from", FIXTURES / name / "checkpoint", "--to", target, "-o", out / folder / name)


if __name__ == "__main__":
    main()
