"""The package under test is the one in the build tree, beside the programs of UCP_BIN."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
BIN = Path(os.environ.get("UCP_BIN", TESTS.parent / "build" / "release" / "bin"))
PACKAGE = BIN.parent / "python"
sys.path[:0] = [str(PACKAGE), str(TESTS)]
os.environ["PYTHONPATH"] = str(PACKAGE)  # For the processes that tests start.


@pytest.fixture
def fixtures() -> Path:
    """Checkpoints that the real engine wrote."""
    return TESTS / "fixtures"


@pytest.fixture
def ucprun() -> Path:
    """The program, whose sentences are also those of the package."""
    return BIN / "ucprun"
