"""Refusals of `ucp_checkpoint.import_hf`: wrong words, hostile folders, and places that a spec cannot go to."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from test_import import is_offline  # noqa: F401
from ucp_checkpoint import Error, import_hf


def test_where_it_goes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """A file that appears during the work stays. A missing folder is found before it, and a full disk after."""
    out = tmp_path / "made.ucp"
    assert import_hf.main(["llama", "-o", str(tmp_path / "none" / "made.ucp")]) == 1
    assert "none` is not a folder; make it first" in capsys.readouterr().err

    def import_model(_: str) -> str:
        out.write_text("mine")
        return "a spec"

    monkeypatch.setattr(import_hf, "import_model", import_model)
    assert import_hf.main(["llama", "-o", str(out)]) == 1
    assert "made.ucp` exists; remove it" in capsys.readouterr().err
    assert out.read_text() == "mine" and list(tmp_path.iterdir()) == [out]
    with Path("/dev/full").open("w") as full:
        monkeypatch.setattr(sys, "stdout", full)
        assert import_hf.main(["llama"]) == 2
    assert "standard output cannot be written: no space left on device" in capsys.readouterr().err


@pytest.mark.parametrize("module", ["torch", "transformers.core_model_loading"])
def test_a_missing_package(module: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """PyTorch is not installed, or transformers is one of before version 5."""
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(Error, match="a model is imported with transformers 5 and PyTorch: ") as raised:
        import_hf.import_model("llama")
    assert raised.value.code == "usage"


LLAMA = {"model_type": "llama"}
REFUSED: dict[str, tuple[Any, int, str]] = {
    "unknown": ({"model_type": "no_such\x1b[2J"}, 1, "has the model type `no_such\\x1b[2J`, which transformers"),
    "broken": ('{"model_type": ', 2, "config.json` is not JSON"),
    "not text": (b"\xff\xfe\x00", 2, "config.json` is not JSON"),
    "deep": ("[" * 100_000, 2, "config.json` is not JSON"),
    "a list": ([], 2, "has no `model_type`"),
    "a number": ({"model_type": 5}, 2, "has no `model_type`"),
    "architecture": (LLAMA | {"architectures": ["Own\n"]}, 2, "has the architecture `Own` of `llama`"),
    "no function": (LLAMA | {"hidden_act": "none"}, 2, "a small `llama` cannot be built"),
    "layers": (LLAMA | {"num_hidden_layers": 10**9}, 2, "has 1000000000 as `num_hidden_layers`, above 100000"),
    "labels": (LLAMA | {"num_labels": 10**12}, 2, "has 1000000000000 as `num_labels`, above 100000"),
    "huge": (LLAMA | {"hidden_size": 10**30}, 2, "has 10000000000000000000… as `hidden_size`, above"),
    "null": (LLAMA | {"hidden_size": None}, 2, "a configuration of `llama` cannot be made: "),
    "list": (LLAMA | {"hidden_size": [1, 2]}, 2, "a configuration of `llama` cannot be made: "),
    "values": (LLAMA | {f"x{i}": True for i in range(3000)}, 2, "has 3002 values without its labels, above 2000"),
    "name": (LLAMA | {"a\x1blayout": 5}, 2, "has the name `a\\x1blayout` with a control character; correct it"),
    "bytes": (b" " * (1 << 24) + b"{}", 2, "has more than 16777216 bytes, the most that are read"),
    "parameters": ({"model_type": "git", "num_image_with_embedding": 10**15}, 2, "has more than 20000 parameters"),
    "modules": ({"model_type": "resnet", "depths": [99_999, 1, 1, 1]}, 2, "has more than 20000 modules"),
    "large": ({"model_type": "mamba2"}, 2, "elements, above 40000000; write a spec by hand"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refusals(case: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One sentence and the documented exit code, and no file."""
    config, code, sentence = REFUSED[case]
    folder = tmp_path / "model"
    folder.mkdir()
    if isinstance(config, bytes):
        (folder / "config.json").write_bytes(config)
    else:
        (folder / "config.json").write_text(config if isinstance(config, str) else json.dumps(config))
    assert import_hf.main([str(folder), "-o", str(tmp_path / "made.ucp")]) == code
    printed = capsys.readouterr()
    assert sentence in printed.err
    assert printed.err.count("\n") == 1 and printed.err.rstrip("\n").isprintable() and printed.out == ""
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_other_refusals(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A type that nobody has, a folder without a `config.json` or with a pipe of that name, and a spec that is there
    already."""
    assert import_hf.main(["no_such_type"]) == 1
    assert "the command line has the model type `no_such_type`, which transformers" in capsys.readouterr().err
    assert import_hf.main([str(tmp_path)]) == 2
    assert "config.json` cannot be read: no such file or directory; name a folder" in capsys.readouterr().err
    os.mkfifo(tmp_path / "config.json")
    assert import_hf.main([str(tmp_path)]) == 2
    assert "config.json` is not a file; name a folder with a `config.json`" in capsys.readouterr().err
    (tmp_path / "here.ucp").write_text("mine")
    assert import_hf.main(["llama", "-o", str(tmp_path / "here.ucp")]) == 1
    assert "here.ucp` exists; remove it, or name another file with -o" in capsys.readouterr().err
    assert (tmp_path / "here.ucp").read_text() == "mine"
