"""Lightning's Trainer with a tier: its own values are the client state of a version (docs/memory-tier.md)."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from ucp_checkpoint._failure import failure
from ucp_checkpoint.memory import Tier

if "lightning.pytorch" in sys.modules:  # One package under two names, of which a job uses one.
    from lightning.pytorch import Callback
else:
    from pytorch_lightning import Callback


class LightningTier(Callback):  # type: ignore[misc]  # It has no types.
    """The engine is there when fit() starts, and Lightning restores its own values after that."""

    def __init__(self, load: Mapping[str, Any], settings: dict[str, Any]) -> None:
        self._options, self._settings = dict(load), settings
        self._tier: Tier | None = None
        self._steps = 0

    def on_fit_start(self, trainer: Any, pl_module: Any) -> None:
        """Restores the engine, and gives Lightning the values."""
        strategy = trainer.strategy
        if "DeepSpeedStrategy" not in [kind.__name__ for kind in type(strategy).__mro__]:
            said = f"memory_tier() takes a Trainer with a DeepSpeedStrategy, and this has a {type(strategy).__name__}"
            raise failure("unsupported", said)
        from ucp_checkpoint.deepspeed.tier import EngineState

        # Lightning has the scheduler among its own values.
        options = {"load_lr_scheduler_states": False, "load_module_strict": pl_module.strict_loading} | self._options
        state = EngineState(strategy.deepspeed_engine, lambda: _values_of(trainer), options)
        self._tier = Tier(state, **self._settings)
        if self._tier.restored is not None:
            # It is taken as what a checkpoint had, also where fit() names one.
            trainer._checkpoint_connector._loaded_checkpoint = state.client
            strategy.load_checkpoint = _Once(strategy, state.client)

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        """All has been restored."""
        self._steps = trainer.global_step
        if isinstance(given := vars(trainer.strategy).get("load_checkpoint"), _Once):
            given.end()

    def on_train_batch_end(self, trainer: Any, *args: Any, **kwargs: Any) -> None:
        """A batch may be one of several of a step."""
        if self._tier is not None and trainer.global_step != self._steps:
            self._steps = trainer.global_step
            self._tier.step(self._steps - 1)

    def on_fit_end(self, trainer: Any, pl_module: Any) -> None:
        """Versions are removed."""
        if self._tier is not None:
            self._tier.close()
        self._tier = None

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        """Versions stay."""
        if self._tier is not None:
            self._tier.__exit__(type(exception), exception, None)
        self._tier = None


class _Once:
    """Takes the place of a strategy's load_checkpoint()."""

    def __init__(self, strategy: Any, values: dict[str, Any]) -> None:
        self._strategy, self._values = strategy, values
        self._own = vars(strategy).get("load_checkpoint")

    def __call__(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        return self._values

    def end(self) -> None:
        """The strategy loads by itself again."""
        if self._own is None:
            del self._strategy.load_checkpoint
        else:
            self._strategy.load_checkpoint = self._own


def _values_of(trainer: Any) -> dict[str, Any]:
    """As Lightning's strategy gives them to the engine: all but weights and states, which the engine has."""
    trainer.strategy.optimizer_state = lambda _: {}
    try:
        dumped = trainer._checkpoint_connector.dump_checkpoint(weights_only=False)
    finally:
        del trainer.strategy.optimizer_state
    return {name: value for name, value in dumped.items() if name not in ("state_dict", "optimizer_states")}
