"""The compiler under test."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(scope="session")
def ucpc() -> Path:
    """UCP_BIN names its folder."""
    folder = os.environ.get("UCP_BIN")
    if folder is None:
        pytest.fail("UCP_BIN is not set: the folder with ucpc and ucprun")
    return Path(folder) / "ucpc"
