"""`python -m ucp_checkpoint` is the program `ucprun`, and `ucpc` the compiler; both come with the package."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import NoReturn


def become(program: str) -> NoReturn:
    """Gives this process to the program, so that signals, output and exit code are its own."""
    path = Path(__file__).parent / "bin" / program
    try:
        os.execv(path, [str(path), *sys.argv[1:]])
    except OSError as error:
        reason = error.strerror or str(error)
        sys.exit(f"ucp: error: cannot start `{path}`: {reason[:1].lower()}{reason[1:]}")


def ucpc() -> NoReturn:
    become("ucpc")


def ucprun() -> NoReturn:
    become("ucprun")


if __name__ == "__main__":
    ucprun()
