"""A model of the installed transformers, by the name of its type or by a folder's `config.json`, and its conversion
from the names in memory to those of the hub, element by element."""

from __future__ import annotations

import importlib
import json
import logging
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy

from ucp_checkpoint._failure import failure, printable
from ucp_checkpoint._ucp import Error

LARGEST = 40_000_000  # Elements of a model that is converted element by element.
MOST_REGISTERED = 20_000  # Modules, and parameters.
MOST_BYTES = 16 << 20  # Of a `config.json`, which may have the names of 21,000 labels twice.
MOST_VALUES = 2_000
MOST_COUNTED = 100_000  # Layers and the like, of which a class makes lists.
LARGEST_NUMBER = 2**63 - 1
COUNTED = re.compile(r"(layers?|depths?|blocks|stages|heads?|experts|labels)$")
TIED = "tie_word_embeddings"
HEADS = [
    "MODEL_FOR_CAUSAL_LM_MAPPING_NAMES", "MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES",
    "MODEL_FOR_MULTIMODAL_LM_MAPPING_NAMES", "MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES",
    "MODEL_FOR_MASKED_LM_MAPPING_NAMES", "MODEL_MAPPING_NAMES",
]  # fmt: skip


# How a model is run, and the code that belongs to it.
NOT_SIZES = ("auto_map", "attn_implementation", "experts_implementation", "quantization_config", "dtype", "torch_dtype")
# The layers of which a backbone returns the outputs.
STAGES = ("out_features", "out_indices", "stage_names")
# Objects that say nothing of tensors, and may be long.
NAMES = ("id2label", "label2id", "task_specific_params")


def _expect_bounded(path: Path, value: Any, key: str = "") -> None:
    """Numbers that no model has would keep a class busy, or fill the memory."""
    several = value.items() if isinstance(value, dict) else [(key, entry) for entry in value]
    for name, inner in several:
        if isinstance(inner, (dict, list)):
            _expect_bounded(path, inner, name)
        elif isinstance(inner, int) or (isinstance(inner, float) and COUNTED.search(name)):
            most = MOST_COUNTED if COUNTED.search(name) else LARGEST_NUMBER
            if not abs(inner) <= most:
                number = f"{str(inner)[:20]}{'…' if len(str(inner)) > 20 else ''}"
                raise failure("bad-data", f"`{path}` has {number} as `{printable(name)}`, above {most}; correct it")


def _expect_few(path: Path, config: dict[str, Any]) -> None:
    """Each value is tried several times, and takes a conversion to check."""
    count = _count(config)
    if count > MOST_VALUES:
        raise failure("bad-data", f"`{path}` has {count} values without its labels, above {MOST_VALUES}; shorten it")


def _expect_printable(path: Path, value: Any) -> None:
    """A spec has names of values in its comments."""
    for name, inner in value.items():
        if not name.isprintable():
            raise failure("bad-data", f"`{path}` has the name `{printable(name)}` with a control character; correct it")
        if isinstance(inner, dict) and name not in NAMES:
            _expect_printable(path, inner)


def _count(value: Any) -> int:
    if isinstance(value, dict):
        return 1 + sum(_count(inner) for key, inner in value.items() if key not in NAMES)
    return 1 + sum(map(_count, value)) if isinstance(value, list) else 1


def _bytes_of(path: Path) -> bytes:
    """A pipe or a device may have no end."""
    if path.exists() and not path.is_file():
        raise failure("io", f"`{path}` is not a file; name a folder with a `config.json`")
    with path.open("rb") as file:
        found = file.read(MOST_BYTES + 1)
    if len(found) > MOST_BYTES:
        raise failure("bad-data", f"`{path}` has more than {MOST_BYTES} bytes, the most that are read; shorten it")
    return found


class Model:
    """A class of transformers, and the configuration that it is asked with."""

    def __init__(self, given: str) -> None:
        os.environ["HF_HUB_OFFLINE"] = "1"  # A configuration may name weights and code of the hub.
        try:
            import torch  # noqa: F401
            import transformers
            from transformers.core_model_loading import revert_weight_conversion  # noqa: F401
            from transformers.models.auto import configuration_auto
        except ImportError as error:
            raise failure("usage", f"a model is imported with transformers 5 and PyTorch: {error}") from error
        self.transformers: Any = transformers
        self.transformers.logging.set_verbosity(logging.CRITICAL)
        types: Any = configuration_auto
        self.version = transformers.__version__
        self.missing: set[str] = set()  # Attributes that a class asked its configuration for in vain.
        described = self._read(given) if os.path.isdir(given) else {"model_type": given}
        self.name = str(described["model_type"])
        where = f"`{given}/config.json` has" if os.path.isdir(given) else "the command line has"
        if self.name not in types.CONFIG_MAPPING_NAMES:
            raise failure(
                "usage",
                f"{where} the model type `{printable(self.name)}`, which transformers {self.version} does not have; "
                "name one that it has, or a folder with a `config.json`",
            )
        try:
            self.config_class = types.CONFIG_MAPPING[self.name]
            self.model_class = self._class(described, where)
            self.base = _without_stages(self.config_class.from_dict(described).to_dict(), described)
            self.can_tie = isinstance(self.base.get(TIED), bool)
            self.aliases = dict(self._aliases(self.config_class, self.base))
        except Error:
            raise
        except Exception as error:  # Whatever the class of a configuration raises.
            raise failure(
                "unsupported",
                f"a configuration of `{self.name}` cannot be made: {reason_of(error)}; correct the `config.json`, or "
                "write a spec by hand",
            ) from error

    def _read(self, folder: str) -> dict[str, Any]:
        path = Path(folder) / "config.json"
        try:
            described = json.loads(_bytes_of(path))
            if isinstance(described, dict):
                described = {key: value for key, value in described.items() if key not in NOT_SIZES}
                _expect_bounded(path, described)
                _expect_few(path, described)
                _expect_printable(path, described)
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            raise failure("io", f"`{path}` cannot be read: {reason}; name a folder with a `config.json`") from error
        except (ValueError, RecursionError) as error:
            raise failure("bad-data", f"`{path}` is not JSON: {error}") from error
        if not isinstance(described, dict) or not isinstance(described.get("model_type"), str):
            raise failure("bad-data", f"`{path}` has no `model_type`, which says what class of transformers it is for")
        return described

    def _class(self, described: dict[str, Any], where: str) -> Any:
        from transformers.models.auto import modeling_auto

        mapped = [getattr(modeling_auto, head, {}).get(self.name) for head in HEADS]
        names = [name for entry in mapped for name in ([entry] if isinstance(entry, str) else entry or ())]
        given = described.get("architectures")
        inner = self._inner_classes()
        chosen = [*filter(self._is_of, names), *inner]
        wanted = given[0] if isinstance(given, list) and given else next(iter(chosen), None)
        known = set(inner)
        for key, mapping in vars(modeling_auto).items():
            entry = mapping.get(self.name) if key.endswith("_NAMES") else None
            known |= {entry} if isinstance(entry, str) else set(entry or ())
        if wanted not in known:
            if wanted is None:
                raise failure("unsupported", f"transformers {self.version} has no model of the type `{self.name}`")
            raise failure(
                "unsupported",
                f"{where} the architecture `{printable(str(wanted))}` of `{self.name}`, which transformers "
                f"{self.version} does not have; write a spec by hand",
            )
        return inner[wanted] if wanted in inner else getattr(self.transformers, wanted)

    def _inner_classes(self) -> dict[str, Any]:
        """Classes of the type's module that take this configuration, such as the tower of a larger model, which no list
        of transformers has. A class with a head is first, as in the lists."""
        place = self.config_class.__module__.replace(".configuration_", ".modeling_")
        try:
            module = importlib.import_module(place)
        except ImportError:  # An optional package is missing, or the type has no module of this name.
            return {}
        base = self.transformers.PreTrainedModel
        found: dict[str, Any] = {
            name: value for name, value in reversed(vars(module).items())
            if isinstance(value, type) and issubclass(value, base) and value.__module__ == place
            and getattr(value, "config_class", None) is self.config_class and not name.endswith("PreTrainedModel")
        }  # fmt: skip
        ranked = sorted(found, key=lambda name: (not re.search("For[A-Z]", name), not name.endswith("Model")))
        return {name: found[name] for name in ranked}

    def _aliases(
        self, config_class: Any, base: dict[str, Any], path: tuple[str, ...] = ()
    ) -> Iterator[tuple[tuple[str, ...], set[str]]]:
        """The further names that a class has for values, by the path of the object that they are in."""
        yield path, set(getattr(config_class, "attribute_map", {}))
        for key, inner in getattr(config_class, "sub_configs", {}).items():
            if isinstance(base.get(key), dict):
                yield from self._aliases(inner, base[key], (*path, key))

    def _is_of(self, name: str) -> bool:
        """Whether this class takes the configuration as it is, and not one inside of it."""
        try:
            return getattr(self.transformers, name).config_class is self.config_class
        except Exception:  # An optional package is missing.
            return False


def _without_stages(config: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
    """Without the last stage, which a class derives from its number of layers."""
    is_derived = len(config.get("out_indices") or ()) < 2
    return {
        key: _without_stages(inner, given.get(key) or {}) if isinstance(inner, dict) else inner
        for key, inner in config.items() if key not in STAGES or key in given or not is_derived
    }  # fmt: skip


def reason_of(error: Exception) -> str:
    """The message of a class of transformers, in one line."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return printable(f"{type(error).__name__}: {' '.join(lines[:2])}")


@contextmanager
def _bounded() -> Iterator[None]:
    """Ends the making of a model that has too many modules or parameters. Modules in a list of Python are not counted
    until it is complete, but their parameters are."""
    from torch.nn.modules import module

    counts = {"modules": 0, "parameters": 0}

    def counted(kind: str) -> None:
        counts[kind] += 1
        if counts[kind] > MOST_REGISTERED:
            raise ValueError(f"it has more than {MOST_REGISTERED} {kind}")

    hooks = [
        module.register_module_module_registration_hook(lambda *_: counted("modules")),
        module.register_module_parameter_registration_hook(lambda *_: counted("parameters")),
    ]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


@contextmanager
def _watched(missing: set[str]) -> Iterator[None]:
    """Notes what a class asks its configurations for that they do not have."""
    from transformers import PreTrainedConfig

    def asked(config: Any, name: str) -> None:
        missing.add(name)
        raise AttributeError(f"`{type(config).__name__}` has no `{name}`")

    base: Any = PreTrainedConfig
    base.__getattr__ = asked
    try:
        yield
    finally:
        del base.__getattr__


class Build:
    """A model with one configuration, on no device: names, shapes, ties."""

    def __init__(self, model: Model, config: dict[str, Any]) -> None:
        import torch

        with _bounded(), _watched(model.missing):
            self.config = model.config_class.from_dict(config)
            with torch.device("meta"):
                self.module = model.model_class(self.config)
        held = self.module.state_dict(keep_vars=True)
        first: dict[int, str] = {}
        self.shapes: dict[str, tuple[int, ...]] = {}
        self.ties: dict[str, str] = {}  # A second name, and the first one.
        self.buffers: set[str] = set()
        for name, tensor in held.items():
            if id(tensor) in first:
                self.ties[name] = first[id(tensor)]
                continue
            first[id(tensor)] = name
            self.shapes[name] = tuple(tensor.shape)
            if not isinstance(tensor, torch.nn.Parameter):
                self.buffers.add(name)

    def count(self) -> int:
        """Its elements."""
        return sum(int(numpy.prod(shape, dtype=numpy.int64)) for shape in self.shapes.values())

    def convert(self) -> None:
        """Numbers every element, and lets transformers write them as the files of the hub."""
        import torch
        from transformers.core_model_loading import revert_weight_conversion

        elements = self.count()
        if elements > LARGEST:
            raise ValueError(f"it has {elements} elements, above {LARGEST}")
        coded: dict[str, Any] = {}
        at = 0
        for name, shape in self.shapes.items():
            count = int(numpy.prod(shape, dtype=numpy.int64))
            coded[name] = torch.arange(at, at + count, dtype=torch.int32).reshape(shape)
            at += count
        self.memory: dict[str, numpy.ndarray] = {name: tensor.numpy() for name, tensor in coded.items()}
        hub = revert_weight_conversion(self.module, dict(coded))
        every = hub if not self.ties else revert_weight_conversion(
            self.module, coded | {s: coded[f] for s, f in self.ties.items()}
        )  # fmt: skip
        self.hub: dict[str, numpy.ndarray] = {name: tensor.numpy() for name, tensor in hub.items()}
        self.elements = at
        stored = {int(codes.flat[0]): name for name, codes in self.hub.items() if codes.size}
        self.hub_ties = {
            name: stored[int(tensor.flatten()[0])]
            for name, tensor in every.items()
            if name not in hub and tensor.numel() and int(tensor.flatten()[0]) in stored
        }
