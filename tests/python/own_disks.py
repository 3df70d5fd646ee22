"""Folders that have one path and are not one: what a process mounts there in a namespace of its own, others do not see.

So processes of one system have disks of their own, as the machines of a job have.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
from pathlib import Path

_NEW_NAMESPACE, _BIND, _ALL_PRIVATE = 0x20000, 0x1000, 0x44000  # CLONE_NEWNS, MS_BIND, MS_REC | MS_PRIVATE.


def are_there() -> bool:
    """Only root may mount, and in many containers not even root."""
    tried = subprocess.run(["unshare", "-m", "mount", "-t", "tmpfs", "tmpfs", "/mnt"], capture_output=True, check=False)
    return tried.returncode == 0


def _call(name: str, *arguments: object) -> None:
    calls = ctypes.CDLL(None, use_errno=True)
    if getattr(calls, name)(*arguments) != 0:
        raise OSError(ctypes.get_errno(), name)


def _leave() -> None:
    """Others do not see what is mounted from now on."""
    _call("unshare", _NEW_NAMESPACE)
    _call("mount", None, b"/", None, ctypes.c_ulong(_ALL_PRIVATE), None)


def put(disk: Path, at: Path) -> None:
    """From now on this process, and those that it starts, see the folder `disk` at this path."""
    _leave()
    _call("mount", os.fsencode(disk), os.fsencode(at), None, ctypes.c_ulong(_BIND), None)


def put_small(size: str, at: Path) -> None:
    """The same with an empty disk of this size, such as "64m"."""
    _leave()
    _call("mount", b"tmpfs", os.fsencode(at), b"tmpfs", ctypes.c_ulong(0), f"size={size}".encode())


def be_elsewhere(boot: Path) -> None:
    """From now on this process, and those that it starts, are on a machine whose boot has the name in this file."""
    _leave()
    _call("mount", os.fsencode(boot), b"/proc/sys/kernel/random/boot_id", None, ctypes.c_ulong(_BIND), None)
