"""Loads with one allocation of the module failing after the other; every call raises or gives what it should.

Its arguments are the hook (failing_allocation.c), which is preloaded, a checkpoint, and how many allocations fail.
"""

from __future__ import annotations

import ctypes
import random
import sys
from collections.abc import Callable

import ucp_checkpoint as ucp

hook = ctypes.CDLL(sys.argv[1])
hook.ucp_fail_allocation.argtypes = [ctypes.c_long]
hook.ucp_fail_allocation.restype = ctypes.c_long
checkpoint = sys.argv[2]


def bytes_of(found: ucp.Loaded) -> dict[tuple[str, str], bytes]:
    """All that was loaded."""
    return {(tensor, state): value.tobytes() for tensor, states in found.items() for state, value in states.items()}


def load() -> object:
    """Into new memory."""
    return bytes_of(ucp.load(checkpoint, to="deepspeed:dp=2,zero=1", rank=1, framework="numpy", verify=True, threads=2))


def inspect() -> object:
    """From headers."""
    return ucp.inspect(checkpoint)


def wrong_spec() -> object:
    """With diagnostics."""
    try:
        ucp.inspect(checkpoint, spec="llama")
    except ucp.Error as error:
        if isinstance(error, MemoryError):
            raise
        return str(error)
    return None


def try_some(work: Callable[[], object], count: int) -> int:
    """How many failed."""
    expected = work()
    hook.ucp_fail_allocation(1 << 60)
    work()
    allocations = hook.ucp_fail_allocation(0)
    assert allocations > 500, allocations
    failed = 0
    for number in sorted(random.Random(1).sample(range(1, allocations + 1), min(count, allocations))):
        hook.ucp_fail_allocation(number)
        try:
            found = work()
        except MemoryError as error:
            assert isinstance(error, ucp.OutOfMemory) and error.code == "memory", repr(error)
            failed += 1
            found = expected
        finally:
            hook.ucp_fail_allocation(0)
        assert found == expected, number
        assert work() == expected, f"after allocation {number}"
    return failed


for one in (load, inspect, wrong_spec):
    print(one.__name__, try_some(one, int(sys.argv[3])), flush=True)
