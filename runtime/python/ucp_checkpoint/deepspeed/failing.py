"""An engine that was loaded in part does not train, until a load succeeds."""

from __future__ import annotations

from typing import Any, NoReturn

from .errors import LoadError

CALLS = ("forward", "backward", "step", "train_batch", "eval_batch", "save_checkpoint", "save_16bit_model")


def make_unusable(engine: Any, overwritten: list[str]) -> None:
    """Its calls raise from now on; DeepSpeed's own `load_checkpoint` stays."""

    def refuse(*_: Any, **__: Any) -> NoReturn:
        raise LoadError("loading a checkpoint into this engine failed when some tensors were overwritten; load again "
                        "before training", overwritten)  # fmt: skip

    own = engine.load_checkpoint

    def load_checkpoint(*arguments: Any, **options: Any) -> Any:
        loaded = own(*arguments, **options)
        if loaded[0] is not None:
            make_usable(engine)
        return loaded

    for name in CALLS:
        if hasattr(type(engine), name):
            setattr(engine, name, refuse)
    engine.load_checkpoint = load_checkpoint


def make_usable(engine: Any) -> None:
    """The class's own calls again."""
    for name in (*CALLS, "load_checkpoint"):
        vars(engine).pop(name, None)
