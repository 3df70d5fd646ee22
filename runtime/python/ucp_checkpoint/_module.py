"""The tensors of a module by the names that a checkpoint has for them: those of the module within its wrappers.

DistributedDataParallel puts `module.` before all names, and torch.compile() `_orig_mod.` before those of what it has
compiled, which may be blocks of a model. torch.distributed.checkpoint.state_dict leaves both out, and so does this.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

from ucp_checkpoint import _arguments
from ucp_checkpoint._failure import failure
from ucp_checkpoint._target import Named, has_memory

if TYPE_CHECKING:
    import torch


def named_tensors(target: object) -> Named:
    """Of a module, or a mapping."""
    import torch

    if isinstance(target, torch.nn.Module):
        return _of_module(target)
    if isinstance(target, Mapping):
        return Named(_arguments.mapping("target", target))
    raise failure("usage", f"the target is a module or a mapping from names to tensors, not a {type(target).__name__}")


def _of_module(module: torch.nn.Module) -> Named:
    """Its state_dict(); a hook may have put copies there, which nobody would look at."""
    import torch

    states = module.state_dict()
    parameters = list(module.named_parameters(remove_duplicate=False))
    own = [*parameters, *module.named_buffers(remove_duplicate=False)]
    addresses = {tensor.data_ptr() for _, tensor in own if has_memory(tensor)}
    for name, value in states.items():
        if isinstance(value, torch.Tensor) and has_memory(value) and value.data_ptr() not in addresses:
            raise failure(
                "unsupported",
                f"`{name}` of the module's state_dict() is none of its parameters and buffers but a copy, which would "
                "be filled in vain; give the tensors themselves, as a mapping",
            )
    bare = unwrapped(module)
    tensors = {bare(name): value for name, value in states.items()}
    wrapped = {bare(name): name for name in states if bare(name) != name}
    return Named(tensors, {bare(name): id(parameter) for name, parameter in parameters}, wrapped)


def unwrapped(module: torch.nn.Module) -> Callable[[str], str]:
    """Returns a function that removes the parts of wrappers from the names of the module."""
    wrappers = set(_wrappers(module))
    if not wrappers:
        return lambda name: name

    def bare(name: str) -> str:
        parts = name.split(".")
        return ".".join(part for i, part in enumerate(parts) if ".".join(parts[: i + 1]) not in wrappers)

    return bare


def _wrappers(module: torch.nn.Module) -> Iterator[str]:
    """The names of modules that others have wrapped."""
    from torch.nn.parallel import DataParallel, DistributedDataParallel

    compiler = sys.modules.get("torch._dynamo.eval_frame")
    compiled = (compiler.OptimizedModule,) if compiler is not None else ()
    for name, part in module.named_modules(remove_duplicate=False):
        inner = "_orig_mod" if isinstance(part, compiled) else "module"
        if isinstance(part, (*compiled, DistributedDataParallel, DataParallel)):
            yield f"{name}.{inner}" if name else inner
