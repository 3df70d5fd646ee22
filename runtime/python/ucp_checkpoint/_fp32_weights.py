"""The fp32 weights of a checkpoint as files of Hugging Face's libraries, for `ucp_checkpoint.zero_to_fp32`."""

from __future__ import annotations

import glob
import json
import math
from pathlib import Path
from typing import Any

from ucp_checkpoint import _ucp
from ucp_checkpoint._drop_in import sync
from ucp_checkpoint._failure import failure
from ucp_checkpoint._inspect import inspect
from ucp_checkpoint._load import load
from ucp_checkpoint._source import Settings, source_from
from ucp_checkpoint._work import thread_count

_WIDTHS = {"int64": 8, "int32": 4, "int16": 2, "int8": 1, "uint8": 1, "bool": 1}  # The others become float32.


class Weights:
    """The tensors of a checkpoint in the order of DeepSpeed's script, which decides which file has which."""

    def __init__(self, path: Path, exclude_frozen: bool, spec: str | None, sets: Settings) -> None:
        self.path, self.spec, self.sets = path, spec, sets
        described = _ucp.describe(source_from(path, spec=spec, sets=sets), thread_count(None))
        self.second_names = {name: second for name, second, _, _ in described.tensors}
        tensors = inspect(path, spec=spec, sets=sets)["tensors"]
        found = {tensor["name"]: tensor for tensor in tensors if tensor["name"] in self.second_names}
        trained = dict.fromkeys(name for names, _ in described.groups for name in names if name in found)
        buffers = [name for name, tensor in found.items() if tensor["kind"] == "buffer"]
        frozen = [name for name in found if name not in trained and name not in buffers]
        names = [*buffers, *([] if exclude_frozen else frozen), *trained]
        if not names:
            raise failure("usage", f"`{path}` has frozen parameters alone, which exclude_frozen_parameters leaves out")
        self.bytes = {name: _bytes_of(found[name]) for name in names}

    def files(self, limit: int) -> list[list[str]]:
        """The names in each file, as huggingface_hub splits them."""
        files: list[list[str]] = []
        current: list[str] = []
        filled = 0
        for name, size in self.bytes.items():
            if size > limit:
                files.append([name])
                continue
            if filled + size > limit:
                files.append(current)
                current, filled = [], 0
            current.append(name)
            filled += size
        return [*files, current] if current else files

    def read(self, names: list[str]) -> dict[str, Any]:
        """Checked against checksums and copies; floating-point numbers as float32."""
        to, patterns = "safetensors:dtype=fp32,names=memory", map(glob.escape, names)
        how: dict[str, Any] = {"spec": self.spec, "sets": self.sets, "framework": "torch", "verify": True}
        states = load(self.path, to=to, tensors=patterns, **how)
        tensors = {name: states[name]["weight"] for name in names}
        return {name: tensor.float() if tensor.is_floating_point() else tensor for name, tensor in tensors.items()}

    def write(self, place: Path, limit: int, safe: bool) -> list[str]:
        """The names of the files."""
        stem, suffix = names_of(safe)
        parts = self.files(limit)
        written: list[str] = []
        where: dict[str, str] = {}
        for number, names in enumerate(parts, 1):
            part = f"-{number:05}-of-{len(parts):05}" if len(parts) > 1 else ""
            written.append(f"{stem}{part}.{suffix}")
            tensors = self.read(names)
            if not safe:
                tensors |= {other: tensors[name] for name in names for other in self.second_names.get(name, [])}
            _save(tensors, place / written[-1], safe)
            where |= dict.fromkeys(tensors, written[-1])
        if len(parts) > 1:
            written.append(f"{stem}.{suffix}.index.json")
            index = {"metadata": {"total_size": sum(self.bytes.values())}, "weight_map": where}
            (place / written[-1]).write_text(json.dumps(index, indent=2, sort_keys=True) + "\n")
            sync(place / written[-1])
        return written


def names_of(safe: bool) -> tuple[str, str]:
    """The stem and the suffix of the files."""
    return ("model", "safetensors") if safe else ("pytorch_model", "bin")


def _bytes_of(tensor: dict[str, Any]) -> int:
    dtype = tensor["states"].get("fp32") or tensor["states"]["weight"]
    elements: int = math.prod(tensor["shape"])
    return elements * _WIDTHS.get(dtype, 4)


def _save(tensors: dict[str, Any], file: Path, safe: bool) -> None:
    import torch

    if safe:
        from safetensors.torch import save_file

        save_file(tensors, file, metadata={"format": "pt"})
    else:
        torch.save(tensors, file)
    sync(file)
