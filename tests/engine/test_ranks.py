"""The ranks that the other tests run, as forks of the process of the tests."""

from __future__ import annotations

import multiprocessing
import time

from fixtures.ranks import run_ranks


def test_ranks_leave_the_processes_of_who_forks_them() -> None:
    """The engine is such a process; a rank that ended it failed every test after it."""
    held = multiprocessing.get_context("spawn").Process(target=time.sleep, args=(600,))
    held.start()
    try:
        assert run_ranks(1, lambda: "done") == "done"
        held.join(1)
        assert held.is_alive()
    finally:
        held.kill()
        held.join()
