"""Objects in the client state that run a command when they are unpickled without restrictions: no target gets them.

Two forms, as a hostile author writes them: a plain call of `posix.system`, and a graph of names that modules of
DeepSpeed export, whose loading unpickles a second file. Each target is loaded in a process of its own by
`torch.load(weights_only=False)`, as the engine does, and the hook loads the source itself.
"""

from __future__ import annotations

import json
import os
import shutil
import struct
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).parents[2]
PROGRAMS = Path(os.environ.get("UCP_BIN", ROOT / "build/release/bin"))
TARGETS = ("universal", "deepspeed:dp=3,zero=1", "deepspeed:dp=2,zero=3", "safetensors:states=all")
LOAD_ALL = """
import sys, torch
from pathlib import Path
for path in Path(sys.argv[1]).rglob("*"):
    if path.suffix in (".pt", ".bin", ".pkl", ".pth"):
        torch.load(path, weights_only=False, map_location="cpu")
"""


def text(word: str) -> bytes:
    """As protocol 2 pickles a string."""
    return b"X" + struct.pack("<I", len(word.encode())) + word.encode()


class Command:
    """Runs when it is unpickled."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.system, (f"touch {self.mark}",)


def plain(mark: Path, _second: Path) -> bytes:
    """`posix.system('touch …')`"""
    return b"cposix\nsystem\n" + text(f"touch {mark}") + b"\x85R"


def names_of_deepspeed(mark: Path, second: Path) -> bytes:
    """An optimizer whose defaults' `setdefault` is a bound constructor that loads the files of a second folder."""
    second.mkdir()
    torch.save({"x": Command(mark)}, second / "mp_rank_00_model_states.pt")
    for name in ("layer_01-model_00-model_states.pt", "zero_pp_rank_0_mp_rank_00_optim_states.pt"):
        torch.save({"x": 1}, second / name)
    method = (
        b"cdeepspeed.runtime.pipe.engine\nMethodType\ncdeepspeed.checkpoint.deepspeed_checkpoint\nDeepSpeedCheckpoint\n"
        + text(str(second))
        + b"\x86\x81"
    )
    defaults = b"cdeepspeed.runtime.fp16.loss_scaler\nLossScaler\n)\x81}" + text("setdefault") + method + b"sb"
    return b"cdeepspeed.ops.adam.zenflow_torch_adam\nOptimizer\n)\x81}" + text("defaults") + defaults + b"sb"


def hostile(folder: Path, kind: object) -> tuple[Path, Path]:
    """A copy of a fixture whose model files carry the object, and the file that the command would make."""
    source, mark = folder / "source", folder / "EXECUTED"
    shutil.copytree(ROOT / "tests/fixtures/zero2_dp2/checkpoint", source)
    extra = kind(mark, folder / "second")
    for path in source.rglob("*model_states.pt"):
        with zipfile.ZipFile(path) as archive:
            entries = [(entry, archive.read(entry)) for entry in archive.namelist()]
        with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
            for name, content in entries:
                whole = content[:-1] + text("my_state") + extra + b"s." if name.endswith("data.pkl") else content
                archive.writestr(name, whole)
    return source, mark


def ucprun(*words: object) -> subprocess.CompletedProcess[str]:
    """The program."""
    return subprocess.run([PROGRAMS / "ucprun", *map(str, words)], capture_output=True, text=True, check=False)


def load_all(folder: Path) -> subprocess.CompletedProcess[str]:
    """Every file of a folder, in a process of its own."""
    return subprocess.run([sys.executable, "-c", LOAD_ALL, folder], capture_output=True, text=True, check=False)


@pytest.mark.parametrize("kind", [plain, names_of_deepspeed], ids=["plain", "deepspeed"])
def test_no_target_gets_them(tmp_path: Path, kind: object) -> None:
    source, mark = hostile(tmp_path, kind)
    for number, target in enumerate(TARGETS):
        out = tmp_path / f"out{number}"
        result = ucprun("convert", source, out, "--to", target)
        assert result.returncode == 0, result.stderr
        assert "`my_state` in " in result.stderr and " is left out: loading it would run `" in result.stderr
        left_out = json.loads((out / "ucp_manifest.json").read_text())["left_out"]
        assert {row["path"] for row in left_out} == {"my_state"}
        loaded = load_all(out)
        assert loaded.returncode == 0, loaded.stderr
    assert not mark.exists()
    load_all(source)  # That the object is a live one.
    assert mark.exists()


@pytest.mark.parametrize("kind", [plain, names_of_deepspeed], ids=["plain", "deepspeed"])
def test_the_hook_does_not_build_them(tmp_path: Path, kind: object) -> None:
    """The objects that the hook loads, by the plan of its own load."""
    source, mark = hostile(tmp_path, kind)
    code = f"""
import sys
sys.path.insert(0, {str(PROGRAMS.parent / "python")!r})
from ucp_checkpoint import _ucp
from ucp_checkpoint.deepspeed.files import PlannedFiles
source = _ucp.Source()
source.path = {str(source).encode()!r}
for keep in ([], ["posix.system"]):
    target = _ucp.Target()
    target.keep_opaque = keep
    opens = ["mp_rank_00_model_states.pt"]
    plan = _ucp.compile_load(source, "deepspeed:dp=2,zero=2", target, False, None, opens, True, 1)
    files = PlannedFiles(plan)
    try:
        (name,) = (name for name in files.files if name.endswith("mp_rank_00_model_states.pt"))
        content = files.open(name)
        print("opened:", "my_state" in content, content["global_steps"])
    except Exception as error:
        print("opened:", type(error).__name__, error)
"""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    first, kept = (line for line in result.stdout.splitlines() if line.startswith("opened: "))
    assert first == "opened: False 4"
    assert kept == first or "is not built inside a job" in kept  # Of the two kinds, the plain one would be kept.
    assert ("is not built inside a job" in kept) == (kind is plain)
    assert not mark.exists()


def test_a_kept_object_is_written_and_named(tmp_path: Path) -> None:
    """The user vouches for it."""
    source, mark = hostile(tmp_path, plain)
    out = tmp_path / "out"
    result = ucprun("convert", source, out, "--to", "universal", "--keep-opaque", "posix.system")
    assert result.returncode == 0, result.stderr
    assert not mark.exists()
    load_all(out)
    assert mark.exists()
