"""`any_topology`: a DeepSpeedStrategy of Lightning that resumes from a checkpoint of any topology.

`memory_tier`: a callback that keeps the state of a Trainer in the memory of its machines, and goes on from there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from ucp_checkpoint._failure import failure

Strategy = TypeVar("Strategy")


def any_topology(strategy: Strategy, **options: Any) -> Strategy:
    """Changes how this strategy of a Trainer loads, and returns it: `Trainer(strategy=any_topology(…))`.

    `fit(ckpt_path=…)` then takes what any number of processes saved at any ZeRO stage, and universal folders. `options`
    are the further arguments of `ucp.deepspeed.load_checkpoint`, such as `spec`.
    """
    named: Any = strategy
    if "DeepSpeedStrategy" not in [kind.__name__ for kind in type(strategy).__mro__]:
        kind = type(strategy).__name__
        raise failure("unsupported", f"any_topology() takes a DeepSpeedStrategy, and this is a {kind}")
    if not hasattr(strategy, "lightning_module"):
        raise failure(
            "unsupported",
            "this is the DeepSpeedStrategy of Fabric; call `ucp.deepspeed.load_checkpoint(strategy.model, …)` after "
            "setup()",
        )

    def load_checkpoint(checkpoint_path: Any, weights_only: bool | None = None) -> dict[str, Any]:
        """The values that were saved beside the engine's state."""
        from ucp_checkpoint import deepspeed

        _, client = deepspeed.load_checkpoint(
            named.deepspeed_engine,
            checkpoint_path,
            load_module_strict=named.lightning_module.strict_loading,
            load_lr_scheduler_states=False,  # Lightning has them among those values.
            **options,
        )
        return client

    named.load_checkpoint = load_checkpoint
    return strategy


def memory_tier(*, load: Mapping[str, Any] | None = None, **settings: Any) -> Any:
    """A callback for a Trainer with a DeepSpeedStrategy, a DDPStrategy or one device:
    `Trainer(callbacks=[…, memory_tier(job="llama")])`.

    fit() goes on from the newest version of the job, if there is one, and keeps versions. They may be of any number of
    processes and any ZeRO stage. `settings` are those of `ucp.memory.Tier`; `load` has further arguments of
    `ucp.deepspeed.load_checkpoint`, such as `spec`. Callbacks that come before it are restored as they were at the end
    of the step. Versions are removed when fit() ends, unless an error ends it.
    """
    from ucp_checkpoint._lightning_tier import LightningTier

    return LightningTier(load or {}, settings)
