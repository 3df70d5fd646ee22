"""Reads training checkpoints of one topology into the memory of a job of another, and says what is in them.

No framework is imported before a tensor is asked for. What goes wrong is a `ucp.Error`, whose text is the sentence that
the programs `ucpc` and `ucprun` would print, and whose `code` says of which kind it is.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from ucp._source import Settings, source_from
from ucp._ucp import Error
from ucp._ucp import inspect as _inspect
from ucp._ucp import version as __version__

__all__ = ["Error", "__version__", "inspect"]


def inspect(
    path: str | os.PathLike[str],
    *,
    tensor: str = "*",
    spec: str | os.PathLike[str] | None = None,
    sets: Settings = (),
    config: str | os.PathLike[str] | None = None,
    unused: Mapping[str, str | int] | None = None,
    prefer_rank: str = "",
) -> dict[str, Any]:
    """What a checkpoint of any known format holds, from its headers alone: as `ucprun inspect --json` says it.

    `tensor` is a pattern for the names of the tensors that are listed. With a `spec`, a file or a name of the
    catalogue, what tensor parallelism cuts is shown whole; `sets` and `config` give its dims their values.
    """
    import json

    source = source_from(path, spec=spec, sets=sets, config=config, unused=unused, prefer_rank=prefer_rank)
    return json.loads(_inspect(source, tensor))
