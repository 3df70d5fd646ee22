"""Cuts of the tensors in memory, by the class's own plans for tensor and expert parallelism."""

from __future__ import annotations

import re
from typing import Any

from ucp_checkpoint._import_places import Node

# A style of transformers: the axis that it cuts of a matrix, counted from the last one, and whether also of a bias.
STYLES = {
    "colwise": (-2, True), "colwise_gather_output": (-2, True), "colwise_rep": (-2, True), "packed_colwise": (-2, True),
    "rowwise": (-1, False), "rowwise_split_input": (-1, False), "embedding_rowwise": (-2, False),
}  # fmt: skip


def cut(module: Any, name: str, rank: int, dims: list[Node]) -> bool:
    """Cuts these dimensions of the tensor of this name where the plans say so and a whole factor or each part can be
    cut. Fused experts are tensors of rank 3, their biases of rank 2. Returns whether anything is cut."""
    general = re.sub(r"\.\d+(?=\.|$)", ".*", name)
    stem, _, last = general.rpartition(".")
    is_expert = general in {**(module.ep_plan or {}), **(module.tp_plan or {})} and rank in (2, 3)
    of_module = last in ("weight", "bias") and _is_plain(module, name)
    style = (module.tp_plan or {}).get(general if is_expert else stem if of_module else "")
    changed = False
    if is_expert and (module.ep_plan or {}).get(general) == "grouped_gemm" and len(dims) == rank:
        changed = _cut(dims[0], "ep", each=False)
    if style in STYLES and len(dims) == rank and not (is_expert and rank == 2):
        axis, also_bias = STYLES[style]
        axis = -1 if last == "bias" and of_module else axis
        if last != "bias" or also_bias or not of_module:
            changed |= _cut(dims[axis], "etp" if is_expert else "tp", each=style == "packed_colwise")
    return changed


def _is_plain(module: Any, name: str) -> bool:
    """Plans speak of the rows and columns of these."""
    import torch

    return isinstance(module.get_submodule(name.rpartition(".")[0]), (torch.nn.Linear, torch.nn.Embedding))


def _cut(dim: Node, axis: str, *, each: bool) -> bool:
    """`each` is a cut of both parts of a dimension that is two of them."""
    if not dim or (each and (isinstance(dim[0], str) or len(dim[0]) != 2)):
        return False
    if len(dim) > 1 and "heads" not in str(dim[0]) and all(isinstance(item, str) for item in dim):
        dim[:] = [f"({' * '.join(map(str, dim))})@{axis}"]
        return True
    if isinstance(dim[0], str):
        dim[0] = f"{dim[0]}@{axis}"
        return True
    terms = dim[0]
    if not each or not all(inner and isinstance(inner[0], str) for _, inner in terms):
        return False
    return all(_cut(inner, axis, each=False) for _, inner in terms)
