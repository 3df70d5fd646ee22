"""A failed allocation of the module is a MemoryError, and the process lives on: UCP_CALLS says how many fail."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from conftest import BIN, TESTS
from held import checkpoint

HOOK = BIN.parent / "lib" / "libucp_failing_allocation.so"
SAMPLE = 60


@pytest.mark.skipif(not HOOK.exists(), reason="the hook was not built: sanitizers do not go with it")
def test_memory_error() -> None:
    """In one process, again and again; between two that fail the same call works."""
    calls = os.environ.get("UCP_CALLS", str(SAMPLE))
    count = "1000000" if calls == "all" else calls
    result = subprocess.run(
        [sys.executable, Path(__file__).with_name("failing_allocations.py"), HOOK, checkpoint("zero1_dp2"), count],
        capture_output=True, text=True, timeout=600 if count == str(SAMPLE) else None, check=False,
        env=os.environ | {"LD_PRELOAD": str(HOOK), "UCP_FAILING_ALLOCATION_OF": "_ucp",
                          "PYTHONPATH": os.pathsep.join([str(BIN.parent / "python"), str(TESTS)])},
    )  # fmt: skip
    assert result.returncode == 0, f"{result.returncode}: {result.stdout}{result.stderr}"
    failed = dict(line.split() for line in result.stdout.splitlines())
    assert set(failed) == {"load", "inspect", "wrong_spec"}
    for work, number in failed.items():
        assert int(number) > 0, work
