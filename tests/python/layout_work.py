"""The work of the ranks of tests/python/test_layouts.py, and the models that it loads."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import torch
from torch.distributed import checkpoint as dcp
from torch.distributed.checkpoint.state_dict import get_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import Shard, distribute_tensor
from transformers import Qwen3MoeConfig, Qwen3MoeForCausalLM

import ucp_checkpoint as ucp

SPEC = "models/qwen3_moe"


def make(seed: int) -> tuple[torch.nn.Module, torch.optim.Optimizer]:
    """A small mixture of experts, which transformers has fused in memory."""
    torch.manual_seed(seed)
    model = Qwen3MoeForCausalLM(
        Qwen3MoeConfig(
            num_hidden_layers=2,
            hidden_size=12,
            num_attention_heads=6,
            num_key_value_heads=2,
            head_dim=4,
            moe_intermediate_size=8,
            vocab_size=14,
            num_experts=3,
            num_experts_per_tok=2,
            tie_word_embeddings=False,
        )
    )
    return model, torch.optim.AdamW(model.parameters(), lr=0.01)


def train(folder: Path) -> tuple[torch.nn.Module, torch.optim.Optimizer]:
    """One step, and what PyTorch saves of it; the configuration stands beside the folder."""
    model, optimizer = make(3)
    tokens = torch.arange(24).reshape(2, 12) % 14
    model(input_ids=tokens, labels=tokens).loss.backward()
    optimizer.step()
    model.config.save_pretrained(folder.parent)
    weights, states = get_state_dict(model, optimizer)
    dcp.save({"app": {"model": weights, "optim": states}}, checkpoint_id=folder, no_dist=True)
    return model, optimizer


def expect_filled(
    filled: ucp.Filled, found: torch.nn.Module, states: torch.optim.Optimizer, model: torch.nn.Module,
    optimizer: torch.optim.Optimizer,
) -> None:  # fmt: skip
    """Weights, moments and steps are those of the other job, and nothing is left out."""
    assert filled.not_loaded == {}
    expected = dict(model.named_parameters())
    for name, parameter in found.named_parameters():
        assert torch.equal(parameter, expected[name]), name
        for state in ("exp_avg", "exp_avg_sq", "step"):
            assert torch.equal(states.state[parameter][state], optimizer.state[expected[name]][state]), (name, state)


def shards(rank: int, saved: str, right: str) -> list[str]:
    """Tensors of another layout than the checkpoint's, cut over the ranks: names of those that are wrong."""
    mesh = init_device_mesh("cpu", (2,))
    wrong = []
    for dim in (0, 1):
        wanted = {name: tensor for name, tensor in torch.load(right).items() if tensor.ndim > dim}
        expected = {name: distribute_tensor(tensor, mesh, [Shard(dim)]) for name, tensor in wanted.items()}
        target: dict[str, Any] = {name: torch.full_like(tensor, torch.nan) for name, tensor in expected.items()}
        alone = {name: torch.empty_like(tensor) for name, tensor in torch.load(right).items() if tensor.ndim <= dim}
        ucp.load_into(target | alone, saved, layout="hub", spec=SPEC, config=Path(saved).parent / "config.json")
        wrong += [name for name in wanted if not torch.equal(target[name].to_local(), expected[name].to_local())]
    return wrong


def save_shards(rank: int, root: str) -> bool:
    """A job that has made the same step, whose ranks share the model, saves it with the names of the hub."""
    os.environ["UCP_MACHINE"] = "ab"[rank]
    model, _ = train(Path(root) / f"alone-{rank}" / "memory")
    fully_shard(model, mesh=init_device_mesh("cpu", (2,)))
    config = Path(root) / "alone-0" / "config.json"
    torch.distributed.barrier()  # It is there.
    report = ucp.save(model, Path(root) / "hub", to="safetensors:layout=hub", spec=SPEC, config=config)
    return report["bytes_written"] > 0
