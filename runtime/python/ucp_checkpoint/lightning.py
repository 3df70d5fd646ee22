"""`any_topology`: a DeepSpeedStrategy of Lightning that resumes from a checkpoint of any topology."""

from __future__ import annotations

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
