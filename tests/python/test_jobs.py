"""`ucp.convert`, `verify`, `diff` and `explain` do what the programs do, and can be followed and stopped."""

from __future__ import annotations

import filecmp
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

import ucp_checkpoint as ucp
from conftest import BIN
from held import checkpoint

SOURCE = checkpoint("zero1_dp2")
GPT = checkpoint("gpt_pp2_tp2_dp2")


def told(program: str, *arguments: object) -> dict[str, Any]:
    """The JSON that a program prints."""
    result = subprocess.run(
        [str(BIN / program), *map(str, arguments), "--json"], capture_output=True, text=True, timeout=60, check=False
    )
    return json.loads(result.stdout)


def files_of(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def test_convert_writes_what_the_program_writes(tmp_path: Path) -> None:
    """Byte for byte, of a checkpoint that needs a spec; and says the same of it."""
    words = {"to": "deepspeed:tp=1,pp=2,dp=2,zero=1", "spec": "megatron_deepspeed_gpt"}
    report = ucp.convert(GPT, tmp_path / "ours", **words)
    printed = told("ucprun", "convert", GPT, tmp_path / "theirs", "--to", words["to"], "--spec", words["spec"])
    names = files_of(tmp_path / "theirs")
    assert names
    assert files_of(tmp_path / "ours") == names
    assert filecmp.cmpfiles(tmp_path / "ours", tmp_path / "theirs", names, shallow=False)[1:] == ([], [])
    differs = {"destination", "seconds", "peak_memory_bytes", "threads", "buffer_bytes", "io", "chunk_bytes"}
    of_commands = {"choices", "phases"}
    assert set(printed) - set(report) == of_commands
    assert {key: report[key] for key in report if key not in differs} == {
        key: printed[key] for key in report if key not in differs
    }


def test_the_memory_of_the_process_is_its_own(tmp_path: Path) -> None:
    """Memory that it took before the call does not count under `memory`."""
    script = (
        "import sys, ucp_checkpoint as ucp; held = b'x' * (600 << 20); "
        "ucp.convert(sys.argv[1], sys.argv[2], to='universal', memory='256MiB')"
    )
    result = subprocess.run(
        [sys.executable, "-c", script, SOURCE, tmp_path / "out"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert result.returncode == 0, result.stderr


def test_the_number_of_gpus_is_enough(tmp_path: Path) -> None:
    """The strategy is the one that the program takes, and the remarks name it."""
    report = ucp.convert(GPT, tmp_path / "ours", to="4gpus", spec="megatron_deepspeed_gpt")
    printed = told("ucprun", "convert", GPT, tmp_path / "theirs", "--to", "4gpus", "--spec", "megatron_deepspeed_gpt")
    strategy = "deepspeed:pp=2,tp=2,dp=1"
    assert [text.replace(f'to="{strategy}"', f"--to {strategy}") for text in report["remarks"]] == printed["remarks"]
    assert '4gpus is taken as to="deepspeed:' in report["remarks"][-1]
    assert files_of(tmp_path / "ours") == files_of(tmp_path / "theirs")


def test_progress_is_told_on_the_callers_thread(tmp_path: Path) -> None:
    """And ends with everything."""
    seen: list[tuple[int, int]] = []
    threads = set()

    def progress(done: int, total: int) -> None:
        seen.append((done, total))
        threads.add(threading.get_ident())

    ucp.convert(SOURCE, tmp_path / "out", to="universal", progress=progress)
    assert threads == {threading.get_ident()}
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)
    assert seen[-1][0] == seen[-1][1] > 0


def test_an_exception_of_the_callback_ends_the_run(tmp_path: Path) -> None:
    """It is raised, and nothing has the destination's name."""

    def progress(done: int, total: int) -> None:
        raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match=r"^enough$"):
        ucp.verify(SOURCE, progress=progress)
    out = tmp_path / "out"
    try:
        ucp.convert(SOURCE, out, to="universal", progress=progress)
    except RuntimeError as error:
        assert str(error) == "enough"
    # A conversion that is done before anybody looks is there; else nothing is.
    assert not out.exists() or ucp.verify(out)["differences"] == []


def test_control_c_ends_a_conversion(tmp_path: Path) -> None:
    """KeyboardInterrupt, and neither the folder nor a hidden one is left."""
    source = tmp_path / "large"
    subprocess.run([str(BIN / "ucprun"), "synth", "llama", source, "--to", "deepspeed:dp=2,zero=1", "--set", "layers=2",
                    "--set", "hidden=1024", "--set", "heads=8", "--set", "kv_heads=8", "--set", "ffn=4096",
                    "--set", "vocab=32000"], check=True, capture_output=True, timeout=120)  # fmt: skip
    program = (
        "import sys, ucp_checkpoint as ucp\n"
        "print('go', flush=True)\n"
        "ucp.convert(sys.argv[1], sys.argv[2], to='universal', threads=1)"
    )
    with subprocess.Popen([sys.executable, "-c", program, str(source), str(tmp_path / "out")], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True) as process:  # fmt: skip
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(0.3)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
    assert "KeyboardInterrupt" in errors
    assert not (tmp_path / "out").exists()


def test_verify_says_what_the_program_says(tmp_path: Path) -> None:
    """Of a sound folder, of one with a changed byte, and of two."""
    ucp.convert(SOURCE, tmp_path / "out", to="universal")
    assert ucp.verify(tmp_path / "out") == told("ucprun", "verify", tmp_path / "out")
    both = ucp.verify(tmp_path / "out", same=SOURCE, by_elements=True)
    assert both == told("ucprun", "verify", tmp_path / "out", "--same", SOURCE, "--bytes")
    assert both["differences"] == []
    file = next((tmp_path / "out").rglob("fp32.pt"))
    data = bytearray(file.read_bytes())
    data[-600] ^= 1
    file.write_bytes(data)
    (sentence,) = ucp.verify(tmp_path / "out")["differences"]
    assert file.name in sentence
    with pytest.raises(ucp.Error, match="name it with same="):
        ucp.verify(SOURCE, by_elements=True)


def test_diff_says_what_the_program_says(tmp_path: Path) -> None:
    """Of two runs, and of a part of them."""
    other = checkpoint("zero1_dp4")
    found = ucp.diff(SOURCE, other, tensor="*.bias")
    assert found == told("ucprun", "diff", SOURCE, other, "--tensor", "*.bias")
    assert found["tensors"]
    with pytest.raises(ucp.Error, match=r"no tensor of .* fits `nothing`"):
        ucp.diff(SOURCE, other, tensor="nothing")


def test_explain_says_what_the_program_says() -> None:
    """Of a spec with a checkpoint, with a strategy, and of one that is wrong."""
    spec = "megatron_deepspeed_gpt"
    found = ucp.explain(spec, source=GPT, to="deepspeed:tp=4")
    printed = told("ucpc", "explain", spec, "--from", GPT, "--to", "deepspeed:tp=4")
    assert Path(found.pop("spec")).name == Path(printed.pop("spec")).name  # The package brings its own.
    assert found == printed
    with pytest.raises(ucp.Error) as missing:
        ucp.explain("llama", source="deepspeed:tp=2")
    assert 'give it with `sets="layers=NUMBER"`' in str(missing.value)


def test_bad_arguments_and_destinations(tmp_path: Path) -> None:
    """One sentence each, in the words of the package, and nothing is written."""
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "mine").write_text("mine")
    for message, call in {
        r"exists; name another folder, or pass force=True to replace it": {"out": tmp_path / "there"},
        r"^progress is a function of two numbers, or None, not 3$": {"progress": 3},
        r"^force is True or False, not 'yes'$": {"force": "yes"},
        r"there is no format `deepspede` \(did you mean `deepspeed`\?\)": {"to": "deepspede"},
    }.items():
        with pytest.raises(ucp.Error, match=message):
            ucp.convert(SOURCE, **({"out": tmp_path / "out", "to": "universal"} | call))
    assert not (tmp_path / "out").exists()
    assert os.listdir(tmp_path / "there") == ["mine"]
    damaged = tmp_path / "damaged"
    shutil.copytree(SOURCE, damaged)
    file = next(path for path in damaged.rglob("*optim_states.pt"))
    file.write_bytes(file.read_bytes()[:1000])
    with pytest.raises(ucp.Error) as failure:
        ucp.convert(damaged, tmp_path / "out", to="universal")
    assert failure.value.code == "bad-data"
    assert file.name in str(failure.value)
    assert not (tmp_path / "out").exists()
