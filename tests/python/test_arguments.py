"""Arguments of a wrong type or value: one sentence each that names the argument, and none of the extension module's."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

import ucp_checkpoint as ucp
from held import checkpoint

SOURCE = checkpoint("zero1_dp2")
NAME, SIZE = "blocks.0.up.bias", 50


class Unprintable:
    def __repr__(self) -> str:
        raise ValueError


WRONG: list[tuple[str, dict[str, Any]]] = [
    ('to is a strategy such as "deepspeed:tp=2,dp=4,zero=1", not None', {"to": None}),
    ('to is a strategy such as "deepspeed:tp=2,dp=4,zero=1", not 3', {"to": 3}),
    ("to has characters that are not text: 'x\\ud800'", {"to": "x\ud800"}),
    ("rank is a number from 0 to 2147483647, not '1'", {"rank": "1"}),
    ("rank is a number from 0 to 2147483647, not -5", {"rank": -5}),
    ("rank is a number from 0 to 2147483647, not 1.0", {"rank": 1.0}),
    ("rank is a number from 0 to 2147483647, not True", {"rank": True}),
    ("tensors has no pattern, and so asks for nothing; leave it out to load all", {"tensors": []}),
    ("states has no pattern, and so asks for nothing; leave it out to load all", {"states": ()}),
    ("tensors is a pattern or several, not 3", {"tensors": 3}),
    ("tensors is a pattern or several, not b'x'", {"tensors": b"x"}),
    ("an entry of states is a text, not None", {"states": [None]}),
    ("device is a name such as \"cpu\" or \"cuda:1\", not None", {"device": None}),
    ('device="meta": tensors there have no memory to load into', {"device": "meta"}),
    (f'device="mps": PyTorch {torch.__version__} cannot use it: ', {"device": "mps"}),
    (f'device="xpu": PyTorch {torch.__version__} cannot use it: ', {"device": "xpu"}),
    ("framework is \"torch\" or \"numpy\", not 3", {"framework": 3}),
    ("spec is a path, not 3", {"spec": 3}),
    ("spec is a path, not 'x\\x00y'", {"spec": "x\0y"}),
    ("config is a path, not ''", {"config": ""}),
    ("ds_config is a path, not {}", {"ds_config": {}}),
    ("path is a path, not None", {"path": None}),
    ("sets is a mapping such as {\"layers\": 4}, not 3", {"sets": 3}),
    ("an entry of sets is a text, not 3", {"sets": [3]}),
    ("a name in sets is a text, not 3", {"sets": {3: 4}}),
    ('unused is a mapping, {"NAME": …}, not [\'x\']', {"unused": ["x"]}),
    ("drop_states is a text or several, not 3", {"drop_states": 3}),
    ('prefer_rank is a text such as "tp=1", not 3', {"prefer_rank": 3}),
    ("verify is True or False, not 'no'", {"verify": "no"}),
    ("threads is a number from 1 to 256, not '2'", {"threads": "2"}),
    ("threads is a number from 1 to 256, not 257", {"threads": 257}),
    *((f'memory takes a number of bytes or a size such as "256MiB" or "4GB", not {shown}', {"memory": memory})
      for shown, memory in ((2**70, 2**70), ("'99999999TiB'", "99999999TiB"), ("0", 0), ("1.5", 1.5), ("None", None),
                            ("True", True), ("a Unprintable", Unprintable()), ("'" + "9" * 76 + "...", "9" * 5000))),
]  # fmt: skip


@pytest.mark.parametrize(("sentence", "wrong"), WRONG, ids=[said[:40] for said, _ in WRONG])
def test_load(sentence: str, wrong: dict[str, Any]) -> None:
    with pytest.raises(ucp.Error) as failure:
        ucp.load(**{"path": SOURCE, "to": "universal"} | wrong)
    assert str(failure.value).startswith(sentence)
    assert failure.value.code in ("usage", "unsupported")


@pytest.mark.parametrize(
    ("sentence", "wrong"),
    [
        ("keep is a name or several, not 3", {"keep": 3}),
        ("strict is True or False, not 'no'", {"strict": "no"}),
        ("verify is True or False, not 1", {"verify": 1}),
        ("path is a path, not 3", {"path": 3}),
        ("a name in target is a text, not 3", {"target": {3: torch.zeros(3)}}),
        ("the target is a module or a mapping from names to tensors, not a list", {"target": []}),
    ],
)
def test_load_into(sentence: str, wrong: dict[str, Any]) -> None:
    target = {NAME: torch.zeros(SIZE)}
    with pytest.raises(ucp.Error) as failure:
        ucp.load_into(**{"target": target, "path": SOURCE} | wrong)
    assert (str(failure.value), failure.value.code) == (sentence, "usage")
    assert not target[NAME].any()


@pytest.mark.parametrize(
    ("sentence", "wrong"),
    [("tensor is a pattern, not None", {"tensor": None}), ("path is a path, not 3", {"path": 3})],
)
def test_inspect(sentence: str, wrong: dict[str, Any]) -> None:
    with pytest.raises(ucp.Error) as failure:
        ucp.inspect(**{"path": SOURCE} | wrong)
    assert str(failure.value) == sentence


def test_paths_of_any_bytes(tmp_path: Path) -> None:
    """As a text, as bytes, as a path, and with bytes that are not text."""
    odd = os.fsencode(tmp_path) + b"/ckpt\xff\xfe"
    shutil.copytree(SOURCE, os.fsdecode(odd))
    right = ucp.load(SOURCE, to="universal", tensors=NAME)
    for path in (odd, os.fsdecode(odd), Path(os.fsdecode(odd))):
        found = ucp.load(path, to="universal", tensors=NAME)
        assert torch.equal(found[NAME]["fp32"], right[NAME]["fp32"])
        assert ucp.inspect(path)["format"] == "deepspeed"
    with pytest.raises(ucp.Error, match="does not exist"):
        ucp.inspect(odd + b"\xff")


def test_numbers_that_count() -> None:
    """Any kind of whole number is a rank."""
    rank = torch.tensor(1)
    assert ucp.load(SOURCE, to="deepspeed:dp=2,zero=1", rank=rank).parts


def test_the_programs_options_are_arguments_here() -> None:
    """Their sentences name what a caller of this package can give."""
    gpt = checkpoint("gpt_pp2_tp2_dp2")
    with pytest.raises(ucp.Error, match=r"^sets=, config= and unused= say how .*, and no spec= is named$"):
        ucp.inspect(gpt, sets={"layers": 4})
    with pytest.raises(ucp.Error) as missing:
        ucp.inspect(checkpoint("autotp_tp2_dp2"), spec="llama")
    assert 'give it with `sets="ffn=NUMBER"`' in str(missing.value)
    with pytest.raises(ucp.Error, match=r"raise memory= or lower threads=") as little:
        ucp.load(SOURCE, to="universal", memory=16)
    for failure in (missing, little):
        assert "--" not in str(failure.value)


def test_a_name_that_looks_like_an_option(tmp_path: Path) -> None:
    """Parts of paths stay what they are."""
    with pytest.raises(ucp.Error) as failure:
        ucp.inspect(tmp_path / "--set" / "a--spec")
    assert f"{tmp_path}/--set/a--spec" in str(failure.value)
