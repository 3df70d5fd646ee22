"""The jobs of the programs on whole checkpoints: `ucp.convert`, `ucp.verify`, `ucp.diff`, `ucp.explain`."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias

from ucp_checkpoint import _arguments, _ucp
from ucp_checkpoint._failure import failure
from ucp_checkpoint._source import Path, Settings, checkpoint_at, source_from
from ucp_checkpoint._work import byte_count, thread_count

# Called with the bytes that are done, and with all bytes, on the caller's thread, a few times a second and at the end.
Progress: TypeAlias = "Callable[[int, int], object] | None"


def _progress(given: object) -> Progress:
    if given is not None and not callable(given):
        raise failure("usage", f"progress is a function of two numbers, or None, not {_arguments.shown(given)}")
    return given


def convert(
    path: Path,
    out: Path,
    *,
    to: str,
    spec: Path | None = None,
    sets: Settings = (),
    config: Path | None = None,
    unused: Mapping[str, str | int] | None = None,
    drop_states: Iterable[str] = (),
    prefer_rank: str = "",
    tag: str = "",
    keep_opaque: Iterable[str] = (),
    ds_config: Path | None = None,
    verify: bool = True,
    force: bool = False,
    resume: bool = False,
    threads: int | None = None,
    memory: int | str = "1GiB",
    progress: Progress = None,
) -> dict[str, Any]:
    """Converts a checkpoint of any topology into the folder `out`, which appears complete, or not at all.

    `to` is a strategy such as "universal" or "deepspeed:tp=2,dp=4,zero=1", or "6gpus" for the one of 6 ranks that
    changes least, which the `remarks` name. Without `verify`, copies on other ranks are
    trusted and the archives' checksums are not read. `force` replaces an existing folder in one step; `resume` goes on
    where an interrupted run of the same call stopped. Ctrl-C, or an exception of `progress`, ends the run, and nothing
    is left under the destination's name. Returns what `ucprun convert --json` prints.
    """
    source = source_from(
        path, spec=spec, sets=sets, config=config, unused=unused, drop_states=drop_states, prefer_rank=prefer_rank
    )
    target = _ucp.Target()
    target.tag = _arguments.text("tag", tag)
    target.keep_opaque = _arguments.texts("keep_opaque", keep_opaque)
    target.ds_config = _arguments.path("ds_config", ds_config) if ds_config is not None else b""
    report: dict[str, Any] = json.loads(
        _ucp.convert(
            source,
            _arguments.path("out", out),
            _arguments.text("to", to, 'a strategy such as "deepspeed:tp=2,dp=4,zero=1"'),
            target,
            _arguments.flag("verify", verify),
            _arguments.flag("force", force),
            _arguments.flag("resume", resume),
            thread_count(threads),
            byte_count(memory),
            _progress(progress),
        )
    )
    return report


def verify(
    path: Path,
    *,
    same: Path | None = None,
    by_elements: bool = False,
    spec: Path | None = None,
    sets: Settings = (),
    config: Path | None = None,
    unused: Mapping[str, str | int] | None = None,
    drop_states: Iterable[str] = (),
    prefer_rank: str = "",
    checksums: bool = True,
    threads: int | None = None,
    memory: int | str = "1GiB",
    progress: Progress = None,
) -> dict[str, Any]:
    """Whether a checkpoint is what was written, can be read, and fits together; with `same`, whether both are the same.

    Returns what `ucprun verify --json` prints: `differences` is a list of sentences, and empty if all is as it should
    be. With `by_elements` the elements of both checkpoints are compared, and not their digests.
    """
    source = source_from(
        path, spec=spec, sets=sets, config=config, unused=unused, drop_states=drop_states, prefer_rank=prefer_rank
    )
    by_elements = _arguments.flag("by_elements", by_elements)
    if by_elements and same is None:
        raise failure("usage", "by_elements compares with another checkpoint: name it with same=")
    report: dict[str, Any] = json.loads(
        _ucp.verify(
            source,
            checkpoint_at("same", same) if same is not None else b"",
            by_elements,
            _arguments.flag("checksums", checksums),
            thread_count(threads),
            byte_count(memory),
            _progress(progress),
        )
    )
    return report


def diff(
    path: Path,
    other: Path,
    *,
    tensor: str = "*",
    read_all: bool = False,
    spec: Path | None = None,
    sets: Settings = (),
    config: Path | None = None,
    unused: Mapping[str, str | int] | None = None,
    drop_states: Iterable[str] = (),
    prefer_rank: str = "",
    threads: int | None = None,
    memory: int | str = "1GiB",
    progress: Progress = None,
) -> dict[str, Any]:
    """By how much two checkpoints differ, tensor by tensor, whichever way each is cut: as `ucprun diff --json` says it.

    `tensor` is a pattern for names. Tensors that are the same by the manifests of both are read only with `read_all`.
    """
    source = source_from(
        path, spec=spec, sets=sets, config=config, unused=unused, drop_states=drop_states, prefer_rank=prefer_rank
    )
    report: dict[str, Any] = json.loads(
        _ucp.diff(
            source,
            checkpoint_at("other", other),
            _arguments.text("tensor", tensor, "a pattern"),
            _arguments.flag("read_all", read_all),
            thread_count(threads),
            byte_count(memory),
            _progress(progress),
        )
    )
    return report


def explain(
    spec: Path | None = None,
    *,
    source: Path = "",
    to: str = "",
    tensor: str = "*",
    sets: Settings = (),
    config: Path | None = None,
    unused: Mapping[str, str | int] | None = None,
    prefer_rank: str = "",
) -> dict[str, Any]:
    """Returns the meaning of a spec, as `ucpc explain --json` prints it: the dims' values, and who holds which part of
    each tensor.

    `source` is a checkpoint that gives the dims and the degrees, or a strategy that gives the degrees; `to` a strategy
    whose holders are shown beside them.
    """
    asked = source_from(source, spec=spec, sets=sets, config=config, unused=unused, prefer_rank=prefer_rank)
    to = _arguments.text("to", to, "a strategy")
    found: dict[str, Any] = json.loads(_ucp.explain(asked, to, _arguments.text("tensor", tensor, "a pattern")))
    return found
