"""`ucp.Saver` and `ucp.save`: the state of a running job into a checkpoint of any format, off the training's path."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Iterable, Mapping
from contextlib import nullcontext
from pathlib import Path as SystemPath
from typing import TYPE_CHECKING, Any

from ucp_checkpoint import _arguments, _ucp
from ucp_checkpoint._agree import agree
from ucp_checkpoint._arrays import need_torch
from ucp_checkpoint._failure import failure
from ucp_checkpoint._source import Path, Settings, source_from
from ucp_checkpoint._work import byte_count, thread_count

if TYPE_CHECKING:
    import torch

    from ucp_checkpoint._ranks import Group
    from ucp_checkpoint._saved_dict import Description, SavedDict

_STAGING, _STAGED, _DONE = 1, 2, 3  # SaveStep
_SECONDS_BETWEEN_SIGNALS = 0.1  # Python handles them between two waits.


class Step:
    """A point that a save reaches: `staged`, or `durable`."""

    def __init__(self, client: _ucp.SaveClient, number: int, step: int) -> None:
        self._client, self._number, self._step = client, number, step

    def done(self) -> bool:
        """Whether it is reached, or the save has failed."""
        try:
            return self._client.wait(self._number, self._step, 0)
        except _ucp.Error:
            return True

    def result(self, timeout: float | None = None) -> None:
        """Waits until it is reached. Raises the error of a save that has failed, and TimeoutError."""
        until = None if timeout is None else time.monotonic() + timeout
        while True:
            left = _SECONDS_BETWEEN_SIGNALS if until is None else min(_SECONDS_BETWEEN_SIGNALS, until - time.monotonic())
            if self._client.wait(self._number, self._step, max(left, 0)):
                return
            if until is not None and time.monotonic() >= until:
                raise TimeoutError(f"the save has not come so far within {timeout} s")


class Saving:
    """A save that goes on."""

    def __init__(self, client: _ucp.SaveClient, number: int, path: str) -> None:
        self.path = path
        self.staged = Step(client, number, _STAGED)  # From then on the state may change.
        self.durable = Step(client, number, _DONE)  # The checkpoint is complete at its path.
        self.is_seen = False  # Its error has been raised.
        self._client, self._number = client, number

    def done(self) -> bool:
        """Whether it has ended, well or not."""
        return self.durable.done()

    def result(self, timeout: float | None = None) -> dict[str, Any]:
        """Waits for the end. Returns what `ucprun convert --json` prints of a conversion."""
        try:
            self.durable.result(timeout)
        except _ucp.Error:
            self.is_seen = True
            raise
        report: dict[str, Any] = json.loads(self._client.report(self._number))
        return report


def _writer_program() -> bytes:
    """The program that writes: of this package, or of the environment where it has none."""
    program = SystemPath(__file__).parent / "bin" / "ucprun"
    return os.fsencode(os.environ.get("UCP_WRITER", str(program)))


def _group_of(group: object, no_dist: bool) -> Group | None:
    import torch.distributed as dist

    if no_dist:
        if group is not None:
            raise failure("usage", "with no_dist there is no group")
        return None
    if group is None:
        if not (dist.is_available() and dist.is_initialized()):
            return None
        group = dist.group.WORLD
    from ucp_checkpoint._ranks import Group

    return Group(group, "ucp.Saver")


def _root_of(state: object, optimizer: object) -> dict[str, Any]:
    """The nested dict of a module and its optimizer, or of a dict."""
    import torch

    from ucp_checkpoint._saved_dict import ModuleTensors, optimizer_state

    if isinstance(state, torch.nn.Module):
        root: dict[str, Any] = {"model": ModuleTensors(state)}
        if optimizer is not None:
            if not isinstance(optimizer, torch.optim.Optimizer):
                raise failure("usage", f"optimizer= is a {type(optimizer).__name__} and no torch.optim.Optimizer")
            root["optimizer"] = optimizer_state(state, optimizer)
        return root
    if not isinstance(state, Mapping):
        raise failure("usage", f"the state is a module or a dict, not a {type(state).__name__}")
    if optimizer is not None:
        raise failure("usage", "with an optimizer the state is its module, which gives its states their names")
    return dict(state)


class Saver:
    """Saves the state of a job again and again, while it trains on.

    All ranks make one, before they train. It plans, takes the memory that a save is staged in, and starts the process
    that writes; what cannot be saved is refused here. `state` is a module, with `optimizer` for its optimizer, or a
    nested dict of tensors and values, as torch.distributed.checkpoint saves it; ranks may hold parts of its tensors
    (DTensors) or all of them. `to` is any target of `ucp.convert`. All ranks then make the same calls of save().
    """

    _reads_memory = False  # Whether each save is waited for, so that it needs no copy.

    def __init__(
        self,
        state: object,
        optimizer: torch.optim.Optimizer | None = None,
        *,
        to: str = "dcp",
        extra: Mapping[str, object] | None = None,
        keep: int | None = None,
        group: object = None,
        no_dist: bool = False,
        on_death: str = "finish",
        timeout: float = 600,
        nice: int = 0,
        threads: int | None = None,
        memory: int | str = "256MiB",
        spec: Path | None = None,
        sets: Settings = (),
        config: Path | None = None,
        unused: Mapping[str, str | int] | None = None,
        drop_states: Iterable[str] = (),
        keep_opaque: Iterable[str] = (),
        ds_config: Path | None = None,
    ) -> None:
        need_torch("Saver() saves tensors of PyTorch")
        self._savings: list[Saving] = []
        self._hook: Any = None
        problem: Exception | None = None
        described = None
        self._settings = _ucp.SaverSettings()
        try:
            source = source_from(
                "memory", spec=spec, sets=sets, config=config, unused=unused, drop_states=drop_states
            )
            self._set(to, source, keep, on_death, timeout, nice, threads, memory)
            target = _ucp.Target()
            target.keep_opaque = _arguments.texts("keep_opaque", keep_opaque)
            target.ds_config = _arguments.path("ds_config", ds_config) if ds_config is not None else b""
            self._settings.target = target
            self._root = _root_of(state, optimizer)
            described, values = self._first_state(state, optimizer, extra or {})
        except Exception as error:
            problem = error
        ranks = _group_of(group, no_dist)
        agree(ranks, problem)
        assert described is not None
        self._rank = ranks.rank if ranks is not None else 0
        with ranks or nullcontext():
            self._client = _ucp.SaveClient.open(
                ranks.ranks if ranks is not None else None,
                _writer_program(),
                self._settings,
                described.entries,
                described.memory,
                values,
                self._settings.threads,
            )
        self._described = described
        self.plan: dict[str, Any] = json.loads(self._client.layout()[3])
        if optimizer is not None:
            self._hook = optimizer.register_step_pre_hook(self._wait_for_staging)

    def _set(
        self,
        to: str,
        source: _ucp.Source,
        keep: int | None,
        on_death: str,
        timeout: float,
        nice: int,
        threads: int | None,
        memory: int | str,
    ) -> None:
        settings = self._settings
        settings.to = _arguments.text("to", to, 'a strategy such as "dcp:style=titan"')
        settings.source = source
        settings.threads = thread_count(threads)
        settings.memory_bytes = byte_count(memory)
        settings.keep = 0 if keep is None else _arguments.whole("keep", keep, 1, 1 << 30)
        if isinstance(timeout, bool) or not isinstance(timeout, (int, float)) or not 0 < timeout <= 1e6:
            raise failure("usage", f"timeout is a number of seconds, not {_arguments.shown(timeout)}")
        settings.timeout_seconds = float(timeout)
        settings.nice = _arguments.whole("nice", nice, 0, 19)
        if on_death not in ("finish", "drop"):
            raise failure("usage", f'on_death is "finish" or "drop", not {_arguments.shown(on_death)}')
        settings.finishes_orphans = on_death == "finish"
        settings.reads_memory = self._reads_memory

    def _first_state(self, state: object, optimizer: Any, extra: Mapping[str, object]) -> tuple[Description, bytes]:
        """Returns the entries to save. An optimizer that has made no step is asked which states it will have."""
        from ucp_checkpoint._saved_dict import describe, pickled

        self._dict = self._flatten(extra)
        described = describe(self._dict)
        if optimizer is not None and not optimizer.state:
            from torch.distributed.checkpoint.state_dict import get_optimizer_state_dict

            try:
                _without_gradients(optimizer, lambda: get_optimizer_state_dict(state, optimizer))  # type: ignore[arg-type]
                described = describe(self._flatten(extra))
            finally:
                optimizer.state.clear()
        return described, pickled(self._dict.values())

    def _flatten(self, extra: Mapping[str, object]) -> SavedDict:
        from ucp_checkpoint._saved_dict import SavedDict

        root = dict(self._root)
        for name, value in extra.items():
            if name in root:
                raise failure("usage", f"extra has an entry `{name}`, which the state also has")
            root[name] = value.state_dict() if hasattr(value, "state_dict") else value
        return SavedDict(root)

    def _wait_for_staging(self, *_: object) -> None:
        """Before the optimizer changes what is being staged."""
        if self._savings:
            try:
                self._savings[-1].staged.result()
            except _ucp.Error:
                return  # It is raised where the save's end is asked for.

    def save(
        self,
        path: Path,
        *,
        extra: Mapping[str, object] | None = None,
        tag: str | None = None,
        force: bool = False,
    ) -> Saving:
        """Begins to save to the folder `path`, which appears complete or not at all. All ranks call it.

        Returns at once: the state may not change before `staged` is done, which the optimizer of the Saver waits for
        by itself before its next step. `extra` has further entries, such as a scheduler or a number of steps. Raises
        the error of an earlier save that nobody has seen.
        """
        self._raise_unseen()
        problem = ""
        entries = memory = None
        values = b""
        place, name = b"", ""
        force = _arguments.flag("force", force)
        try:
            place = os.path.abspath(_arguments.path("path", path))
            name = os.path.basename(os.fsdecode(place)) if tag is None else _arguments.text("tag", tag)
            entries, memory, values = self._now(extra or {})
        except _ucp.Error as error:
            problem = str(error)
        number = self._client.begin(place, name, force, values, problem, entries, memory)
        saving = Saving(self._client, number, os.fsdecode(place))
        self._savings.append(saving)
        if not problem and any(box.device.type != "cpu" for boxes in self._described.boxes for box in boxes):
            threading.Thread(target=self._stage_devices, args=(number, self._event()), daemon=True).start()
        return saving

    def _now(self, extra: Mapping[str, object]) -> tuple[Any, Any, bytes]:
        """Returns the changes since the last save: entries, if they are other ones, their places, and the values."""
        from ucp_checkpoint._saved_dict import describe, pickled

        entries = memory = None
        state = self._dict if not extra and self._dict.is_as_before() else self._flatten(extra)
        if state is not self._dict:
            described = describe(state)
            if described.entries != self._described.entries:
                entries = described.entries
            memory = described.memory
            self._dict, self._described = state, described
        values = state.values()
        if entries is None:
            mine = {described_entry[0] for described_entry in self._entries_with_values()}
            values = {key: value for key, value in values.items() if key in mine}
        return entries, memory, pickled(values) if values else b""

    def _entries_with_values(self) -> list[_ucp.HeldEntry]:
        return [self._described.entries[entry] for entry in self._client.layout()[1]]

    def _event(self) -> Any:
        """Of the work on GPUs that the state comes from."""
        import torch

        if not torch.cuda.is_available():
            return None
        event = torch.cuda.Event()
        event.record()
        return event

    def _stage_devices(self, number: int, event: Any) -> None:
        """Copies what is not in the host's memory."""
        import ctypes

        import torch

        try:
            while not self._client.wait(number, _STAGING, _SECONDS_BETWEEN_SIGNALS):
                pass
        except _ucp.Error:
            return
        address, size = self._client.segment()
        segment = torch.frombuffer((ctypes.c_char * size).from_address(address), dtype=torch.uint8)
        if event is not None:
            event.synchronize()
        for entry, number_of_box, offset, count in self._client.layout()[0]:
            box = self._described.boxes[entry][number_of_box]
            if box.device.type != "cpu":
                segment[offset : offset + count].view(box.dtype).view(box.shape).copy_(box)
        self._client.finish_staging(number)

    def _raise_unseen(self) -> None:
        left = []
        first: _ucp.Error | None = None
        for saving in self._savings:
            if not saving.done():
                left.append(saving)
                continue
            if saving.is_seen or first is not None:
                continue
            try:
                saving.result()
            except _ucp.Error as error:
                first = error
        self._savings = left
        if first is not None:
            raise first

    def close(self) -> None:
        """Waits for saves that go on, and ends the process that writes. Raises an error that nobody has seen."""
        if self._hook is not None:
            self._hook.remove()
            self._hook = None
        self._client.close()
        for saving in self._savings:
            while not saving.done():
                saving.durable.result()
        self._raise_unseen()

    def __enter__(self) -> Saver:
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        self.close()


def _without_gradients(optimizer: torch.optim.Optimizer, work: Any) -> None:
    """PyTorch makes no states while there are gradients."""
    gradients = [(parameter, parameter.grad) for group in optimizer.param_groups for parameter in group["params"]]
    try:
        for parameter, _ in gradients:
            parameter.grad = None
        work()
    finally:
        for parameter, gradient in gradients:
            parameter.grad = gradient


class _OneSave(Saver):
    """The job waits for it."""

    _reads_memory = True


def save(state: object, path: Path, optimizer: torch.optim.Optimizer | None = None, **settings: Any) -> dict[str, Any]:
    """Saves the state of a job at once: a Saver for one save. All ranks call it.

    Takes the arguments of Saver() and of Saver.save(). Returns what `ucprun convert --json` prints of a conversion.
    """
    of_save = {name: settings.pop(name) for name in ("extra", "tag", "force") if name in settings}
    with _OneSave(state, optimizer, extra=of_save.get("extra"), **settings) as saver:
        return saver.save(path, **of_save).result()
