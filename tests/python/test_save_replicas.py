"""`verify_replicas`: elements that several ranks hold are compared before anything is written."""

from __future__ import annotations

from pathlib import Path

import forked
import replica_work
from writers import leftovers

DIFFERS = "is not the same on all ranks that hold the box"
ROWS = f"`rows` {DIFFERS} [3, 4] at [0, 0] of it: rank 2 differs from rank 0"
WHOLE = f"`whole` {DIFFERS} [4, 3] at [0, 0] of it: rank 2 differs from ranks 0, 1, 3"


def test_replicas_are_compared(tmp_path: Path) -> None:
    """All ranks raise one sentence, with the tensor and the ranks. Without the argument, one of them is taken."""
    (tmp_path / "saves").mkdir()
    for told in forked.run(replica_work.drifts, 4, tmp_path, root=str(tmp_path / "saves")):
        assert told["same"] == told["trusted"] == ""
        assert told["one"] == f"{ROWS}; nothing was written"
        assert told["two"] == told["at once"] == f"{WHOLE}; and 1 more box differs; nothing was written"
    assert sorted(path.name for path in (tmp_path / "saves").iterdir()) == ["same", "trusted"]
    assert leftovers(tmp_path / "saves") == []
