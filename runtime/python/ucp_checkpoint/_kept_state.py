"""The state that a tier keeps: of a module and its optimizer, or of what else has the methods of `ModuleState`."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ucp_checkpoint import _ucp
from ucp_checkpoint._failure import failure
from ucp_checkpoint._into import load_into
from ucp_checkpoint._machines import Machines
from ucp_checkpoint._optimizer import give_settings, settings_of
from ucp_checkpoint._save import TierSaver
from ucp_checkpoint._source import source_from

if TYPE_CHECKING:
    import torch

ENTRY = "ucp_memory"  # Of a version, beside model and optimizer.
_log = logging.getLogger("ucp_checkpoint")


class ModuleState:
    """A module and its optimizer, as a Saver takes them."""

    is_named_alike = True  # The ranks of each machine together have tensors of the same names.
    is_of_engine = False
    is_there = True  # When the tier is made; else it is restored later.
    waits = False  # step() returns when the state is copied; else the optimizer waits.

    def __init__(self, model: torch.nn.Module, optimizer: torch.optim.Optimizer | None) -> None:
        self._model, self._optimizer = model, optimizer
        self._groups: list[dict[str, Any]] = [] if optimizer is None else optimizer.param_groups

    def saver(self, part: int | None, **how: Any) -> TierSaver:
        """Of all ranks, or of those of one machine."""
        return TierSaver(part, self._model, self._optimizer, **how)

    def now(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Values of this rank, and tensors that its Saver does not know of. All ranks call it."""
        return {"groups": [settings_of(group) for group in self._groups]}, {}

    def load(self, path: str, machines: Machines, place: Path, verify: bool) -> None:
        """All ranks call it. `place` is a folder of this machine's part of the tier."""
        group, is_alone = machines.ranks.of_job, machines.count == 1
        how: dict[str, Any] = {"strict": False, "trust_ties": True, "group": group, "verify": verify}
        how["_own_folder"] = None if is_alone else path
        load_into(self._model, machines.ranks.all_tell(path)[0], optimizer=self._optimizer, **how)

    def take(self, path: str, values: Mapping[str, Any], is_first: bool) -> None:
        """The values that now() gave; called after load()."""
        groups = values.get("groups", [])
        if len(groups) == len(self._groups):
            for group, settings in zip(self._groups, groups, strict=True):
                give_settings(group, settings)
        elif is_first:
            said = "ucp.memory: `%s` has %d groups of parameters and the optimizer %d; it keeps its own settings"
            _log.warning(said, path, len(groups), len(self._groups))


class LaterState(ModuleState):
    """Of what a framework makes only when its run has begun. A version is chosen before, and loaded then."""

    is_there = False

    def __init__(self, is_of_engine: bool) -> None:
        self.is_of_engine = is_of_engine
        self._give: Callable[[ModuleState], None] | None = None
        self._values: tuple[str, Mapping[str, Any], bool] | None = None

    def load(self, path: str, machines: Machines, place: Path, verify: bool) -> None:
        """The version can be read: another one is taken now, or none."""
        if verify:
            machines.first_does(partial(_verify, path))
        self._give = lambda state: state.load(path, machines, place, False)

    def take(self, path: str, values: Mapping[str, Any], is_first: bool) -> None:
        """Until the state is there."""
        self._values = path, values, is_first

    def begin(self, state: ModuleState) -> None:
        """It is there, and gets what was chosen. All ranks call it."""
        self.is_named_alike, self.waits = state.is_named_alike, state.waits
        self.saver, self.now = state.saver, state.now  # type: ignore[method-assign]
        if self._give is not None and self._values is not None:
            self._give(state)
            state.take(*self._values)


def _verify(path: str) -> None:
    from ucp_checkpoint._jobs import verify

    if found := verify(Path(path))["differences"]:
        raise failure("data", f"`{path}`: {found[0]}")


def values_of(path: str) -> tuple[int, list[dict[str, Any]]]:
    """The step of a version and the values of its ranks, read as data."""
    from ucp_checkpoint._served import serve

    entry = serve(_ucp.describe(source_from(path), 1), "plain").nested.get(ENTRY)
    if not isinstance(entry, dict) or not isinstance(entry.get("step"), int):
        raise failure("data", f"`{path}` is not a version of ucp.memory: it has no step in `{ENTRY}`")
    of_ranks = [entry[f"rank_{rank}"] for rank in range(len(entry)) if isinstance(entry.get(f"rank_{rank}"), dict)]
    if len(of_ranks) != entry.get("ranks"):
        raise failure("data", f"`{path}` has entries of {len(of_ranks)} ranks, and says {entry.get('ranks')!r}")
    return entry["step"], of_ranks
