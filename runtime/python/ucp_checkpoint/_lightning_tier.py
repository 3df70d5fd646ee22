"""Lightning's Trainer with a tier: its own values are in a version (docs/memory-tier.md)."""

from __future__ import annotations

import io
import pickle
import sys
from collections.abc import Mapping
from typing import Any

import torch

from ucp_checkpoint._failure import failure
from ucp_checkpoint._kept_state import ModuleState
from ucp_checkpoint.memory import Tier

if "lightning.pytorch" in sys.modules:  # One package under two names, of which a job uses one.
    from lightning.pytorch import Callback
else:
    from pytorch_lightning import Callback

_VALUES = "lightning"  # Of what `extra` returns.


class LightningTier(Callback):  # type: ignore[misc]  # It has no types.
    """Model and optimizer are there when fit() starts, and Lightning restores its own values after that."""

    def __init__(self, load: Mapping[str, Any], settings: dict[str, Any]) -> None:
        self._options, self._settings = dict(load), settings
        self._tier: Tier | None = None
        self._steps = 0

    def on_fit_start(self, trainer: Any, pl_module: Any) -> None:
        """Restores the state, and gives Lightning the values."""
        strategy = trainer.strategy
        kinds = [kind.__name__ for kind in type(strategy).__mro__]
        if "DeepSpeedStrategy" in kinds:
            self._keep_engine(trainer, pl_module)
        elif "DDPStrategy" in kinds or "SingleDeviceStrategy" in kinds:
            self._keep_module(trainer, pl_module)
        else:
            said = "memory_tier() takes a Trainer with a DeepSpeedStrategy, a DDPStrategy or one device, and this has "
            raise failure("unsupported", f"{said}a {type(strategy).__name__}")

    def _keep_engine(self, trainer: Any, pl_module: Any) -> None:
        from ucp_checkpoint.deepspeed.tier import EngineState

        strategy = trainer.strategy
        # Lightning has the scheduler among its own values.
        options = {"load_lr_scheduler_states": False, "load_module_strict": pl_module.strict_loading} | self._options
        state = EngineState(strategy.deepspeed_engine, lambda: _values_of(trainer), options)
        self._tier = Tier(state, **self._settings)
        if self._tier.restored is not None:
            # It is taken as what a checkpoint had, also where fit() names one.
            trainer._checkpoint_connector._loaded_checkpoint = state.client
            strategy.load_checkpoint = _Once(strategy, state.client)

    def _keep_module(self, trainer: Any, pl_module: Any) -> None:
        """Of replicas. Lightning has restored a checkpoint that fit() names, but for the optimizer and its loops."""
        if self._options or "extra" in self._settings:
            said = "`load` is for a DeepSpeedStrategy" if self._options else "`extra` holds Lightning's own values here"
            raise failure("usage", f"{said}; leave it out")
        if len(trainer.optimizers) > 1:
            raise failure("unsupported", f"the module has {len(trainer.optimizers)} optimizers; a tier keeps one")
        _unpacked(_packed(_values_of(trainer)))  # A restart can read it.
        state = ModuleState(pl_module, *trainer.optimizers[:1] or [None])
        self._tier = Tier(state, extra=lambda: {_VALUES: _packed(_values_of(trainer))}, **self._settings)
        if (restored := self._tier.restored) is not None:
            rank = trainer.global_rank
            extra = restored.extras[rank if len(restored.extras) == trainer.world_size else 0]
            if _VALUES not in extra:
                said = f"`{restored.path}` was not saved by Lightning's Trainer: it has none of its values"
                raise failure("usage", f"{said}; name another job")
            _give(trainer, _unpacked(extra[_VALUES]))

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


def _packed(values: dict[str, Any]) -> bytes:
    """As data alone, which is what a restart reads: without the arguments that the module was made with."""
    file = io.BytesIO()
    is_kept = {name: "hparams" not in name and "hyper_parameters" not in name for name in values}
    torch.save({name: value for name, value in values.items() if is_kept[name]}, file)
    return file.getvalue()


def _unpacked(content: bytes) -> dict[str, Any]:
    try:
        values: dict[str, Any] = torch.load(io.BytesIO(content), weights_only=True)
    except pickle.UnpicklingError as error:
        said = f"the state of a callback, a loader or the module is not data alone: {str(error).splitlines()[0]}"
        raise failure("unsupported", said) from None
    return values


def _give(trainer: Any, values: dict[str, Any]) -> None:
    """As if they were of a checkpoint that fit() names. Lightning takes loops and schedulers after this."""
    connector, strategy = trainer._checkpoint_connector, trainer.strategy
    connector._loaded_checkpoint = values | {"optimizer_states": []}
    strategy.load_model_state_dict = lambda *_, **__: None
    try:
        connector.restore_model()
    finally:
        del strategy.load_model_state_dict
    connector.restore_datamodule()
    connector.restore_callbacks()
