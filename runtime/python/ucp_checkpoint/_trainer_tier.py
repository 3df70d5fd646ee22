"""The Trainer of transformers with a tier: its own files are values of a version (docs/memory-tier.md)."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from transformers import TrainerCallback
from transformers.trainer_callback import ExportableState

from ucp_checkpoint._failure import failure
from ucp_checkpoint._kept_state import LaterState, ModuleState
from ucp_checkpoint.memory import Tier

_STATE, _SCHEDULER = "trainer_state.json", "scheduler.pt"
_FILES = "trainer"  # Of what `extra` returns.


class TrainerTier(TrainerCallback):
    """Comes before all other callbacks, which then see what was restored.

    A version is that of the end of the step before: logs and evaluations of that step are in it.
    """

    def __init__(self, trainer: Any, load: dict[str, Any], settings: dict[str, Any]) -> None:
        self._trainer, self._options = trainer, load
        self._state = LaterState(trainer.is_deepspeed_enabled)
        self.tier = Tier(self._state, extra=self._files, **settings)
        self._has_begun = False
        self._is_first = True  # Step of this run.
        self._random: dict[str, bytes] = {}
        self._folder = self.tier._folder.path / "trainer"
        self._machines = self.tier._machines

    def __enter__(self) -> TrainerTier:
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if self._has_begun:
            return self.tier.__exit__(kind, error, trace)
        return self.tier._folder.release()

    def folder(self) -> str | None:
        """Written as Trainer would have: what it reads before there is anything to load into."""
        restored = self.tier.restored
        if restored is None:
            return None
        files = {name: content for extra in restored.extras for name, content in extra.get(_FILES, {}).items()}
        if _STATE not in files:
            raise failure("usage", f"`{restored.path}` was not saved by a Trainer: it has no `{_STATE}`")
        self._machines.first_does(lambda: self._write(files))
        return str(self._folder)

    def _write(self, files: dict[str, bytes]) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)
        (self._folder / "global_step0").mkdir(mode=0o700, parents=True)  # Of DeepSpeed, for Trainer to see.
        for name, content in files.items():
            if Path(name).name != name:
                raise failure("data", f"a version names the file {name!r}, which no Trainer saves")
            (self._folder / name).write_bytes(content)

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Everything is there now, and gets what the version has."""
        restored, trainer = self.tier.restored, self._trainer
        if restored is not None and state.global_step != restored.step + 1:
            raise failure(
                "usage",
                f"Trainer begins with step {state.global_step}, and the version is of the end of step {restored.step}; "
                "give train() what memory_tier() gave: `trainer.train(resume_from_checkpoint=newest)`",
            )
        if self._has_begun:
            raise failure("usage", "one memory_tier() is for one train(); make another one")
        self._state.begin(self._made())
        if restored is not None and not trainer.is_deepspeed_enabled:
            trainer.lr_scheduler.load_state_dict(torch.load(self._folder / _SCHEDULER, weights_only=True))
        self.tier._begin()
        self._has_begun = True

    def _made(self) -> ModuleState:
        trainer = self._trainer
        if trainer.is_deepspeed_enabled:
            from ucp_checkpoint.deepspeed.tier import EngineState

            return EngineState(trainer.model_wrapped, None, self._options)
        return ModuleState(trainer.model_wrapped, getattr(trainer.optimizer, "optimizer", trainer.optimizer))

    def on_epoch_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Trainer restores generators here if a version has whole epochs, and else when it has fetched a batch."""
        self._random = self._written(self._trainer._save_rng_state)

    def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """The step before has been logged and evaluated."""
        if not self._is_first:
            self.tier.step(state.global_step - 1)
        self._is_first, self._random = False, {}

    def _files(self) -> dict[str, Any]:
        trainer = self._trainer
        files = self._random or self._written(trainer._save_rng_state)
        if trainer.args.process_index == 0:
            files |= self._written(self._save_shared)
        return {_FILES: files}

    def _save_shared(self, folder: str) -> None:
        trainer = self._trainer
        states: dict[str, list[Any]] = {}
        for callback in [*trainer.callback_handler.callbacks, trainer.control]:
            if isinstance(callback, ExportableState):
                states.setdefault(type(callback).__name__, []).append(callback.state())
        for name, found in states.items():
            trainer.state.stateful_callbacks[name] = found if len(found) > 1 else found[0]
        trainer.state.save_to_json(f"{folder}/{_STATE}")
        trainer._save_scaler(folder)
        if type(trainer.lr_scheduler).__name__ != "DeepSpeedSchedulerWrapper":  # The engine's files have that one's.
            torch.save(trainer.lr_scheduler.state_dict(), f"{folder}/{_SCHEDULER}")

    def _written(self, save: Any) -> dict[str, bytes]:
        """The files that it writes to a folder in memory."""
        with tempfile.TemporaryDirectory(dir=self.tier._folder.path) as folder:
            save(folder)
            return {file.name: file.read_bytes() for file in Path(folder).iterdir()}

    @contextmanager
    def lent(self) -> Iterator[None]:
        """While this lasts, Trainer keeps versions."""
        trainer, folder = self._trainer, str(self._folder)
        owner, name = trainer, "_load_from_checkpoint"
        if trainer.is_deepspeed_enabled:
            from deepspeed.runtime.engine import DeepSpeedEngine

            owner, name = DeepSpeedEngine, "load_checkpoint"
        own = getattr(owner, name)

        def load(*positional: Any, **named: Any) -> Any:
            if folder in map(str, positional[:2]):  # It is loaded in on_train_begin().
                return folder, {}
            return own(*positional, **named)

        setattr(owner, name, load)
        trainer.callback_handler.callbacks.insert(0, self)
        try:
            yield
        finally:
            trainer.remove_callback(self)
            setattr(owner, name, own)
            if self._machines.speaks:
                shutil.rmtree(self._folder, ignore_errors=True)
