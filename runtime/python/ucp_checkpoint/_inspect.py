"""`ucp.inspect`: what is in a checkpoint."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ucp_checkpoint import _arguments, _ucp
from ucp_checkpoint._source import Path, Settings, source_from


def inspect(
    path: Path,
    *,
    tensor: str = "*",
    spec: Path | None = None,
    sets: Settings = (),
    config: Path | None = None,
    unused: Mapping[str, str | int] | None = None,
    prefer_rank: str = "",
) -> dict[str, Any]:
    """Returns the contents of a checkpoint of any known format, from headers alone, as `ucprun inspect --json` does.

    `tensor` is a pattern for the names of the tensors that are listed; at least one must fit. With a `spec`, a file or
    a name of the catalogue, tensors that tensor parallelism cuts are shown whole; `sets` and `config` give its dims
    their values.
    """
    import json

    source = source_from(path, spec=spec, sets=sets, config=config, unused=unused, prefer_rank=prefer_rank)
    found: dict[str, Any] = json.loads(_ucp.inspect(source, _arguments.text("tensor", tensor, "a pattern")))
    return found
