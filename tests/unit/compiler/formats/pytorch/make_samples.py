"""Writes the sample files beside this script with real PyTorch and DeepSpeed.

Run once, by hand, with torch 2.13, numpy 2 and deepspeed 0.19.8 on Python 3.11; the tests read the committed files.
"""

from __future__ import annotations

import argparse
import enum
import pathlib
import pickle
import random
from collections import OrderedDict
from typing import Any

import numpy as np
import torch
from deepspeed.runtime.fp16.loss_scaler import DynamicLossScaler, LossScaler
from deepspeed.runtime.zero.config import ZeroStageEnum
from deepspeed.utils.tensor_fragment import fragment_address

SAMPLES = pathlib.Path(__file__).parent / "samples"

DTYPES = [
    torch.bool,
    torch.uint8,
    torch.int8,
    torch.int16,
    torch.int32,
    torch.int64,
    torch.uint16,
    torch.uint32,
    torch.uint64,
    torch.float16,
    torch.bfloat16,
    torch.float32,
    torch.float64,
    torch.complex64,
    torch.complex128,
    torch.float8_e4m3fn,
    torch.float8_e5m2,
    torch.float8_e4m3fnuz,
    torch.float8_e5m2fnuz,
]


class ByNumber:
    """Pickles as ZeroStageEnum(2), the form of most Python versions; 3.11.2 itself writes getattr."""

    def __init__(self, member: enum.Enum) -> None:
        self.member = member

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self.member), (self.member.value,)


class ByName(ByNumber):
    def __reduce__(self) -> tuple[Any, ...]:
        return getattr, (type(self.member), self.member.name)


def views() -> dict[str, Any]:
    base = torch.arange(12, dtype=torch.float32).reshape(3, 4)
    return {
        "base": base,
        "transposed": base.t(),
        "column": base[:, 1],
        "row": base[2],
        "expanded": base[0, 3].expand(5),
        "empty": base[3:],
        "scalar": torch.tensor(7, dtype=torch.int64),
        "nothing": torch.empty(0, dtype=torch.float16),
        "same": base,
    }


def parameters() -> OrderedDict[str, Any]:
    module = torch.nn.Linear(2, 1)
    torch.nn.init.constant_(module.weight, 0.5)
    torch.nn.init.constant_(module.bias, -1.0)
    state = module.state_dict(keep_vars=True)
    marked = torch.tensor([1.0, 2.0])
    marked.tensor_model_parallel = True
    state["marked"] = marked
    parameter = torch.nn.Parameter(torch.tensor([3, 4]), requires_grad=False)
    parameter.partition_dim = 1
    state["parameter"] = parameter
    return state


def objects() -> dict[str, Any]:
    shared = ["once"]
    return {
        "args": argparse.Namespace(num_layers=2, params_dtype=torch.float16, lr=1e-4, name=None, betas=(0.9, 0.95)),
        "integers": [0, 255, 256, 65535, 65536, -1, 2**31 - 1, -(2**31), 2**31, -(2**31) - 1, 2**63 - 1, -(2**63),
                     2**63, -(2**70)],
        "doubles": [0.0, -0.0, 1.5, float("inf")],
        "truths": (True, False),
        "text": "größe \U0001f600",
        "bytes": b"ab\x00\xff",
        "no bytes": b"",
        "set": {3},
        "frozen": frozenset(),
        "range": range(3),
        "array": bytearray(b"\x01"),
        "size": torch.Size([3, 4]),
        "device": torch.device("cpu"),
        "scalar": np.float64(0.5),
        "complex": 1 + 2j,
        "shared": [shared, shared, {"again": shared}],
        1: "integer key",
    }


def deepspeed() -> dict[str, Any]:
    dynamic = DynamicLossScaler(
        init_scale=65536, scale_window=1000, min_scale=1, delayed_shift=2, consecutive_hysteresis=False
    )
    return {
        "static": LossScaler(scale=1.0),
        "dynamic": dynamic,
        "stage by number": ByNumber(ZeroStageEnum.gradients),
        "stage by name": ByName(ZeroStageEnum.gradients),
        "slices": [OrderedDict(weight=fragment_address(numel=6, start=2))],
    }


def random_states() -> dict[str, Any]:
    return {"random": random.Random(1).getstate(), "numpy": np.random.RandomState(1).get_state()}


def main() -> None:
    SAMPLES.mkdir(exist_ok=True)
    torch.save({str(dtype): torch.tensor([0, 1, 1]).to(dtype) for dtype in DTYPES}, SAMPLES / "dtypes.pt")
    torch.save(views(), SAMPLES / "views.pt")
    torch.save(parameters(), SAMPLES / "parameters.pt")
    torch.save(objects(), SAMPLES / "objects.pt")
    torch.save(deepspeed(), SAMPLES / "deepspeed.pt")
    torch.save(random_states(), SAMPLES / "random.pt")
    torch.save({"t": torch.zeros(2)}, SAMPLES / "stream.pt", _use_new_zipfile_serialization=False)
    torch.save(views(), SAMPLES / "views_stream.pt", _use_new_zipfile_serialization=False)
    torch.save(torch.eye(2).to_sparse(), SAMPLES / "sparse.pt")
    plain = {"list": list(range(1001)), "set": {1}, "frozen": frozenset([2]), "bytes": b"\xff",
             "array": bytearray(b"\x02"),
             "namespace": argparse.Namespace(a=1), "text": "t" * 300, "long": 2**70}
    for protocol in (2, 3, 4, 5):
        (SAMPLES / f"plain{protocol}.pkl").write_bytes(pickle.dumps(plain, protocol))


if __name__ == "__main__":
    main()
