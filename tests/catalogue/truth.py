"""The contents of the real model classes of transformers: names, shapes, buffers and ties, in memory and on disk.

In memory: the class on the meta device, so a model of any size costs nothing. On disk: a small model, saved by
`save_pretrained`, and the header of the file read without safetensors' own code.
"""

from __future__ import annotations

import json
import re
import struct
from collections import defaultdict
from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from typing import Any

import torch
import transformers
from transformers.modeling_layers import MtpModel

Shape = tuple[int, ...]


@dataclass
class Truth:
    """The tensors of a checkpoint of one model."""

    shapes: dict[str, Shape]  # Of every name, a tied tensor's second names too.
    buffers: set[str] = field(default_factory=set)
    ties: list[set[str]] | None = None  # The names of each tensor that has several; None: a file has each tensor once.

    def parameters(self) -> int:
        """Their elements, each parameter once."""
        second = {name for names in self.ties or [] for name in sorted(names)[1:]}
        return sum(prod(shape) for name, shape in self.shapes.items() if name not in self.buffers | second)

    def buffer_elements(self) -> int:
        return sum(prod(self.shapes[name]) for name in self.buffers)


def configured(architecture: str, config: dict[str, Any]) -> tuple[type, Any]:
    """The class and its configuration; a class that this transformers does not have is an error."""
    model_class = getattr(transformers, architecture)
    return model_class, model_class.config_class(**config)


def in_memory(architecture: str, config: dict[str, Any]) -> Truth:
    """The tensors in the state dict of the class."""
    model_class, configuration = configured(architecture, config)
    with torch.device("meta"):
        model = model_class(configuration)
    state = model.state_dict(keep_vars=True)
    names_of: dict[int, set[str]] = defaultdict(set)
    for name, tensor in state.items():
        names_of[id(tensor)].add(name)
    return Truth(
        shapes={name: tuple(tensor.shape) for name, tensor in state.items()},
        buffers={name for name, _ in model.named_buffers() if name in state},
        ties=[names for names in names_of.values() if len(names) > 1],
    )


def on_disk(architecture: str, config: dict[str, Any], folder: Path) -> Truth:
    """The tensors that `save_pretrained` writes, and its config.json beside them."""
    model_class, configuration = configured(architecture, config)
    model = model_class(configuration)
    buffers = {name.rsplit(".", 1)[-1] for name, _ in model.named_buffers() if name in model.state_dict()}
    model.save_pretrained(folder)
    with (folder / "model.safetensors").open("rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(length))
    header.pop("__metadata__", None)
    shapes = {name: tuple(entry["shape"]) for name, entry in header.items()}
    return Truth(shapes, {name for name in shapes if name.rsplit(".", 1)[-1] in buffers})


def prediction_layer_on_disk(architecture: str, config: dict[str, Any]) -> dict[str, Shape]:
    """The multi-token-prediction layer of a DeepSeek-V3, by the names in the files of the hub.

    transformers has it as a model of its own, MtpModel, with the names that loading makes of the hub's. This undoes
    what its weight conversions do: layer 0 there is the one after the last, and the experts come apart.
    """
    model_class, configuration = configured(architecture, config)
    with torch.device("meta"):
        model = MtpModel(model_class(configuration), configuration.num_nextn_predict_layers)
    shapes: dict[str, Shape] = {}
    for name, tensor in model.state_dict().items():
        shape = tuple(tensor.shape)
        if name == "embed_tokens.weight" or name == "shared_head.weight":
            own = "embed_tokens" if name.startswith("embed") else "shared_head.head"
            shapes[f"model.layers.{configuration.num_hidden_layers}.{own}.weight"] = shape
            continue
        layer, rest = re.fullmatch(r"layers\.(\d+)\.(?:mtp_block\.)?(.+)", name).groups()
        prefix = f"model.layers.{int(layer) + configuration.num_hidden_layers}."
        if rest == "mlp.experts.gate_up_proj":
            for expert in range(shape[0]):
                for half in ("gate_proj", "up_proj"):
                    shapes[f"{prefix}mlp.experts.{expert}.{half}.weight"] = (shape[1] // 2, shape[2])
        elif rest == "mlp.experts.down_proj":
            for expert in range(shape[0]):
                shapes[f"{prefix}mlp.experts.{expert}.down_proj.weight"] = shape[1:]
        else:
            shapes[prefix + rest.replace("post_norm.", "shared_head.norm.")] = shape
    return shapes
