"""`ucp.Saver` and `ucp.save`: the state of a running job into a checkpoint of any format, off the training's path."""

from __future__ import annotations

import atexit
import json
import logging
import os
import sys
import threading
import weakref
from collections.abc import Iterable, Mapping
from contextlib import nullcontext, suppress
from typing import TYPE_CHECKING, Any

from ucp_checkpoint import _arguments, _ucp
from ucp_checkpoint._agree import agree
from ucp_checkpoint._arrays import need_torch
from ucp_checkpoint._failure import failure
from ucp_checkpoint._save_settings import save_settings, share_of_bus, writer_program
from ucp_checkpoint._saving import DONE, STAGED, STAGING, Progress, Saving
from ucp_checkpoint._source import Path, Settings

if TYPE_CHECKING:
    import torch

    from ucp_checkpoint._job_state import JobState, Moment
    from ucp_checkpoint._ranks import Group
    from ucp_checkpoint._saved_dict import Description
    from ucp_checkpoint._stage_devices import DeviceStages

_log = logging.getLogger("ucp_checkpoint")
_SECONDS_FOR_OTHERS = 5.0  # To call the same save, where this rank is about to end.


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


class Saver:
    """Saves the state of a job again and again, while it trains on.

    All ranks make one, before they train. It plans, takes the memory that a save is staged in, and starts the process
    that writes; what cannot be saved is refused here. `state` is a module, with `optimizer` for its optimizer, or a
    nested dict of tensors and values, as torch.distributed.checkpoint saves it; ranks may hold parts of its tensors
    (DTensors) or all of them. `to` is any target of `ucp.convert`. `extra` is an example of what save() will be given
    beside the state, for the plan. With `node_local` each machine keeps what its ranks hold on a disk of its own, as a
    part of one checkpoint. All ranks then make the same calls of save(), each from one thread at a time.
    """

    _reads_memory = False  # Whether each save is waited for, so that it needs no copy.
    _part: int | None = (
        None  # The number of the machine whose ranks save what they hold, which is not all of the state.
    )
    _lock_file = b""  # On which the writer has a shared lock as long as it lives.

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
        staging: int | str = "1x",
        on_death: str = "finish",
        timeout: float = 600,
        verify_replicas: bool = False,
        node_local: bool = False,
        nice: int = 0,
        threads: int | None = None,
        bus_share: float = 1.0,
        memory: int | str = "1GiB",
        spec: Path | None = None,
        sets: Settings = (),
        config: Path | None = None,
        unused: Mapping[str, str | int] | None = None,
        drop_states: Iterable[str] = (),
        keep_opaque: Iterable[str] = (),
        ds_config: Path | None = None,
    ) -> None:
        need_torch("Saver() saves tensors of PyTorch")
        from ucp_checkpoint._job_state import JobState
        from ucp_checkpoint._saved_dict import pickled

        self._savings: list[Saving] = []
        self._new_state: Progress | None = None  # The last save that had other entries, until all have staged it.
        self._hook: Any = None
        self._is_closed = False
        self._process = os.getpid()
        problem: Exception | None = None
        moment: Moment | None = None
        values = b""
        try:
            self._settings = save_settings(
                to,
                keep=keep,
                staging=staging,
                on_death=on_death,
                timeout=timeout,
                verify_replicas=verify_replicas,
                node_local=node_local,
                nice=nice,
                threads=threads,
                memory=memory,
                spec=spec,
                sets=sets,
                config=config,
                unused=unused,
                drop_states=drop_states,
                keep_opaque=keep_opaque,
                ds_config=ds_config,
            )
            self._settings.reads_memory = self._reads_memory
            if self._reads_memory:
                self._settings.rooms = 1
            self._bus_share = share_of_bus(bus_share)
            self._settings.part = self._part
            self._settings.lock_file = self._lock_file
            self._job: JobState = JobState(state, optimizer)
        except Exception as error:
            problem = error
        ranks = _group_of(group, no_dist)
        agree(ranks, problem)
        if ranks is not None:
            names = json.dumps(self._job.names_of_groups()).encode()
            self._job.join_groups([json.loads(told) for told in ranks.all_gather(names)])
        try:
            moment = self._job.first(_mapping_of(extra))
            values = pickled(moment.values)
        except Exception as error:
            problem = error
        agree(ranks, problem)
        assert moment is not None
        self._described: Description = moment.described
        self._rank = ranks.rank if ranks is not None else 0
        with ranks or nullcontext():
            self._client = _ucp.SaveClient.open(
                ranks.ranks if ranks is not None else None,
                writer_program(),
                self._settings,
                self._described.entries,
                self._described.memory,
                values,
                self._settings.threads,
            )
        self.plan: dict[str, Any] = json.loads(self._client.layout()[3])
        if "waves" in self.plan and self._rank == 0 and not self._reads_memory:
            _log.warning(
                "ucp.Saver: ranks stage %d bytes at a time (staging=), so each save() copies their state in %d waves; "
                "it returns when the last is copied, which waits until all others are written",
                self.plan["wave_bytes"],
                self.plan["waves"],
            )
        self._devices: DeviceStages | None = None
        if self._described.is_on_devices:
            self._stages().prepare(self._described)
        if optimizer is not None:
            self._hook = optimizer.register_step_pre_hook(self._wait_for_staging)
        self._at_exit = _call_at_exit(self)

    def _stages(self) -> DeviceStages:
        from ucp_checkpoint._stage_devices import DeviceStages

        if self._devices is None:
            self._devices = DeviceStages(
                self._client,
                pins=not self._reads_memory,
                threads=self._settings.threads,
                bus_share=self._bus_share,
            )
        return self._devices

    def _wait_for_staging(self, *_: object) -> None:
        """Before the optimizer changes what is being staged."""
        if self._savings and os.getpid() == self._process:
            with suppress(_ucp.Error):  # It is raised where the save's end is asked for.
                self._savings[-1].progress.wait_for(STAGED)

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
        by itself before its next step. A state that is staged in waves is copied when it returns. A module's buffers
        are copied at once. `extra` has further entries, such as a scheduler or a number of steps. `tag` names the
        checkpoint within formats that have such names; it is the last part of the path. With `force` a folder at the
        path is replaced. An error of this save is raised by what is returned. Raises the error of an earlier save that
        nobody has seen; then this one has begun all the same, as it has on other ranks, where that error may have been
        seen.
        """
        if os.getpid() != self._process:
            raise failure("usage", f"the saver is that of process {self._process}, of which this one is a fork")
        if self._is_closed:
            raise failure("usage", "the saver is closed")
        from ucp_checkpoint._stage_devices import event_of_devices

        unseen = self._unseen()
        problem = ""
        moment: Moment | None = None
        entries = memory = None
        values = b""
        place, name = b"", ""
        try:
            place = os.path.abspath(_arguments.path("path", path))
            force = _arguments.flag("force", force)
            name = _name_of(place) if tag is None else _arguments.text("tag", tag)
            is_free = not self._savings or self._savings[-1].staged.done()
            moment = self._job.now(_mapping_of(extra), is_free)
            entries, memory, values = self._news_of(moment)
        except Exception as error:  # All ranks shall hear of it.
            moment = None
            problem = str(error) if isinstance(error, _ucp.Error) else f"{type(error).__name__}: {error}"
        number = self._client.begin(place, name, force is True, values, problem, entries, memory)
        saving = Saving(Progress(self._client, number, moment), os.fsdecode(place))
        self._savings.append(saving)
        if moment is not None:
            self._described = moment.described
            if entries is not None:
                self._new_state = saving.progress
            if moment.described.is_on_devices:
                arguments = (saving.progress, moment.described, event_of_devices())
                threading.Thread(target=self._stages().stage, args=arguments, daemon=True).start()
        if self._settings.staging_bytes > 0 and (self._new_state is not None or self._client.layout()[2] > 1):
            self._wait_for_waves(saving.progress)
        if unseen is not None:
            raise unseen
        return saving

    def _wait_for_waves(self, progress: Progress) -> None:
        """If there are several, until the last one is staged."""
        with suppress(_ucp.Error):  # It is raised where the save's end is asked for.
            progress.wait_for(STAGING)  # The state may have been laid out anew.
            if self._client.layout()[2] > 1:
                progress.wait_for(STAGED)

    def _news_of(self, moment: Moment) -> tuple[Any, Any, bytes]:
        """The news since the last save: the entries, if they are other ones, where they lie, and the values."""
        from ucp_checkpoint._saved_dict import pickled

        described, values = moment.described, moment.values
        if self._new_state is not None and self._new_state.is_staged():
            self._new_state = None
        if self._new_state is not None or described.entries != self._described.entries:
            # After a save that may have failed nobody knows which entries the writer has.
            return described.entries, described.memory, pickled(values)
        memory = None if described.memory == self._described.memory else described.memory
        mine = {described.entries[entry][0] for entry in self._client.layout()[1]}
        values = {key: value for key, value in values.items() if key in mine}
        return None, memory, pickled(values) if values else b""

    def _unseen(self) -> _ucp.Error | None:
        """The first error that nobody has seen, of saves that have ended."""
        left = []
        first: _ucp.Error | None = None
        for saving in self._savings:
            if not saving.done():
                left.append(saving)
                continue
            saving.progress.release()
            try:
                if not saving.progress.is_seen:
                    saving.result()
            except _ucp.Error as error:
                first = first or error
        self._savings = left
        return first

    def _raise_unseen(self) -> None:
        unseen = self._unseen()
        if unseen is not None:
            raise unseen

    def close(self) -> None:
        """Waits for saves that go on, and ends the process that writes. Raises an error that nobody has seen."""
        self._end(None)
        self._raise_unseen()

    def _end(self, patience: float | None) -> None:
        """`patience` is for other ranks, to call the same save; None: until the timeout."""
        if os.getpid() != self._process:
            return
        self._is_closed = True
        if self._hook is not None:
            self._hook.remove()
            self._hook = None
        atexit.unregister(self._at_exit)
        self._client.close()
        for saving in self._savings:
            with suppress(_ucp.Error, TimeoutError):
                saving.progress.wait_for(STAGING, patience)
                saving.progress.wait_for(DONE)

    def __del__(self) -> None:
        if hasattr(self, "_at_exit"):  # It was made.
            _end_forgotten(self)

    def __enter__(self) -> Saver:
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if error is None:
            self.close()
        else:  # That is what the caller wants to see.
            self._end(_SECONDS_FOR_OTHERS)


def _mapping_of(extra: object) -> Mapping[str, object]:
    return _arguments.mapping("extra", {} if extra is None else extra)


def _name_of(place: bytes) -> str:
    return os.path.basename(place).decode(errors="replace")


def _call_at_exit(saver: Saver) -> Any:
    weak = weakref.ref(saver)

    def end() -> None:
        saver = weak()
        if saver is not None:
            _end_forgotten(saver)

    return atexit.register(end)


def _end_forgotten(saver: Saver) -> None:
    """One that nobody has closed: what has begun is finished, and an error is not lost."""
    if os.getpid() != saver._process or saver._is_closed:
        return
    saver._end(_SECONDS_FOR_OTHERS)
    for saving in saver._savings:
        if not saving.done():
            sys.stderr.write(f"ucp.Saver: the save to `{saving.path}` is given up: not all ranks called it\n")
    error = saver._unseen()
    if error is not None:
        sys.stderr.write(f"ucp.Saver: {error}\n")


class _OneSave(Saver):
    """The job waits for it."""

    _reads_memory = True


class TierSaver(Saver):
    """Saves versions of a tier: all of the state, or what the ranks of one machine hold, which is this `part` of it.

    `group` has these ranks. The writer has a shared lock on `lock_file`, if there is one, as long as it lives.
    """

    def __init__(
        self,
        part: int | None,
        state: object,
        optimizer: torch.optim.Optimizer | None = None,
        *,
        lock_file: bytes = b"",
        **how: Any,
    ) -> None:
        self._part, self._lock_file = part, lock_file
        super().__init__(state, optimizer, **how)

    def holds_all(self) -> bool:
        """Whether the ranks together hold all of every tensor."""
        return self._client.layout()[4]

    def names(self) -> list[str]:
        """Of the tensors that this rank knows of."""
        return [entry[0] for entry in self._described.entries if entry[2] is not None]


def save(state: object, path: Path, optimizer: torch.optim.Optimizer | None = None, **settings: Any) -> dict[str, Any]:
    """Saves the state of a job at once: a Saver for one save. All ranks call it.

    Takes the arguments of Saver() and of Saver.save(). Returns what `ucprun convert --json` prints of a conversion.
    """
    of_save = {name: settings.pop(name) for name in ("extra", "tag", "force") if name in settings}
    with _OneSave(state, optimizer, extra=of_save.get("extra"), **settings) as saver:
        return saver.save(path, **of_save).result()
