"""The settings of a save, checked; and the program that writes it."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path as SystemPath

from ucp_checkpoint import _arguments, _ucp
from ucp_checkpoint._failure import failure
from ucp_checkpoint._source import Path, Settings, source_from
from ucp_checkpoint._work import byte_count, thread_count


def writer_program() -> bytes:
    """The program that writes: of this package, or of the environment where it has none."""
    program = SystemPath(__file__).parent / "bin" / "ucprun"
    return os.fsencode(os.environ.get("UCP_WRITER", str(program)))


def share_of_bus(share: object) -> float:
    """Of the time, for the bytes that leave a GPU."""
    if isinstance(share, bool) or not isinstance(share, (int, float)) or not 0 < share <= 1:
        raise failure("usage", f"bus_share is a number above 0 and at most 1, not {_arguments.shown(share)}")
    return float(share)


def _bytes_to_stage_in(staging: int | str) -> int:
    try:
        return byte_count(staging)
    except _ucp.Error:
        text = f'staging is "1x", "2x" or a size such as "2GB", not {_arguments.shown(staging)}'
        raise failure("usage", text) from None


def save_settings(
    to: str,
    *,
    keep: int | None = None,
    staging: int | str = "1x",
    on_death: str = "finish",
    timeout: float = 600,
    verify_replicas: bool = False,
    node_local: bool = False,
    nice: int = 0,
    threads: int | None = None,
    memory: int | str = "1GiB",
    spec: Path | None = None,
    sets: Settings = (),
    config: Path | None = None,
    unused: Mapping[str, str | int] | None = None,
    drop_states: Iterable[str] = (),
    keep_opaque: Iterable[str] = (),
    ds_config: Path | None = None,
) -> _ucp.SaverSettings:
    """As docs/python.md lists them."""
    settings = _ucp.SaverSettings()
    settings.source = source_from(
        "memory", spec=spec, sets=sets, config=config, unused=unused, drop_states=drop_states
    )
    settings.to = _arguments.text("to", to, 'a strategy such as "dcp:style=titan"')
    settings.threads = thread_count(threads)
    settings.memory_bytes = byte_count(memory)
    if staging in ("1x", "2x"):
        settings.rooms = int(str(staging)[0])
    else:
        settings.staging_bytes = _bytes_to_stage_in(staging)
    settings.keep = 0 if keep is None else _arguments.whole("keep", keep, 1, 1 << 30)
    if isinstance(timeout, bool) or not isinstance(timeout, (int, float)) or not 0 < timeout <= 1e6:
        raise failure("usage", f"timeout is a number of seconds, not {_arguments.shown(timeout)}")
    settings.timeout_seconds = float(timeout)
    settings.verifies_replicas = _arguments.flag("verify_replicas", verify_replicas)
    settings.node_local = _arguments.flag("node_local", node_local)
    if settings.node_local and to.partition(":")[0] != "dcp":
        kinds = 'to="dcp", whose files each machine can have of its own'
        raise failure("usage", f"node_local=True is for {kinds}, and not for to={_arguments.shown(to)}")
    settings.nice = _arguments.whole("nice", nice, 0, 19)
    if on_death not in ("finish", "drop"):
        raise failure("usage", f'on_death is "finish" or "drop", not {_arguments.shown(on_death)}')
    settings.finishes_orphans = on_death == "finish"
    target = _ucp.Target()
    target.keep_opaque = _arguments.texts("keep_opaque", keep_opaque)
    target.ds_config = _arguments.path("ds_config", ds_config) if ds_config is not None else b""
    settings.target = target
    return settings
