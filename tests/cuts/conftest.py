"""The programs under test, and a process with DeepSpeed imported."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
sys.path[:0] = [str(TESTS), str(TESTS / "engine")]

from fixtures.serve import Engines  # noqa: E402


@pytest.fixture(scope="session")
def programs() -> Path:
    """The folder with ucpc and ucprun; UCP_BIN names it."""
    folder = os.environ.get("UCP_BIN")
    if folder is None:
        pytest.fail("UCP_BIN is not set: the folder with ucpc and ucprun")
    return Path(folder)


@pytest.fixture(scope="session")
def engines() -> Iterator[Engines]:
    """A process with DeepSpeed imported."""
    engines = Engines()
    yield engines
    engines.close()
