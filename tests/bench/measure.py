"""measure.py COMMAND…: runs `ucprun convert … --json`, and compares its report with what the system counted."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path


def counters(pid: int) -> dict[str, int]:
    """The kernel's counters of a process that has ended and was not yet waited for."""
    with open(f"/proc/{pid}/io", encoding="ascii") as file:
        return {key: int(value) for key, value in (line.split(": ") for line in file)}


def peak_memory(process: subprocess.Popen[bytes]) -> int:
    """The most that was resident, mapped files included, by looking until the process ends."""
    peak = 0
    while os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is None:
        status = Path(f"/proc/{process.pid}/status").read_text(encoding="ascii")
        for line in status.splitlines():
            if line.startswith("VmHWM:"):
                peak = max(peak, int(line.split()[1]) * 1024)
        time.sleep(0.005)
    return peak


def row(what: str, reported: int, counted: int) -> str:
    return f"{what:<14} {reported:>16,} {counted:>16,} {counted - reported:>+14,}"


def main() -> int:
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(sys.argv[1:], stdout=output)
        peak = peak_memory(process)
        io = counters(process.pid)
        status = process.wait()
        output.seek(0)
        text = output.read()
    if status != 0:
        print(text.decode())
        return 1
    report = json.loads(text)
    read = report["bytes_copied"] + report["bytes_compared"] + report["bytes_checksummed"]
    print(f"{'bytes':<14} {'reported':>16} {'by the system':>16} {'difference':>14}")
    print(row("read", read, io["rchar"]))
    print(row("written", report["bytes_written"], io["wchar"]))
    print(row("peak memory", report["peak_memory_bytes"], peak))
    print(
        f"read: {report['bytes_copied']:,} copied, {report['bytes_compared']:,} compared, "
        f"{report['bytes_checksummed']:,} for checksums only; {report['seconds']:.2f} s"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
