"""takeover.py [--rounds N] [--write]: how long tasks are without a coordinator when the one that leads in etcd ends.

Two coordinators wait and lead in turn. A watch of the leader's key, by the gateway of etcd, hears when the key goes.
The rest of the time until the next one listens is all that a watch could make shorter. With --write the table goes into
docs/healing.md. UCP_BIN names the folder of the programs.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "programs"))

from etcd import LEADER, Etcd, encoded  # noqa: E402

HEAD = ("the leader", "its key is gone after", "the next one listens, after that")
BEGIN, END = "<!-- table of takeover.py -->\n", "<!-- end of table of takeover.py -->\n"


class Watch:
    """Of the leader's key, by a thread."""

    def __init__(self, etcd: Etcd) -> None:
        self.gone: list[float] = []  # The moments at which the key went.
        body = json.dumps({"create_request": {"key": encoded(LEADER)}}).encode()
        self.answers = urllib.request.urlopen(f"http://127.0.0.1:{etcd.port}/v3/watch", body)
        threading.Thread(target=self.listen, daemon=True).start()

    def listen(self) -> None:
        """A line for each change."""
        for line in self.answers:
            events = json.loads(line)["result"].get("events", [])
            self.gone += [time.monotonic() for event in events if event.get("type") == "DELETE"]


class Head:
    """A coordinator at a port of its own."""

    def __init__(self, etcd: Etcd, folder: Path) -> None:
        with socket.create_server(("127.0.0.1", 0)) as server:
            self.port = int(server.getsockname()[1])
        program = Path(os.environ["UCP_BIN"]).resolve() / "ucprun"
        command = [program, "coordinate", "--port", str(self.port), "--registry", etcd.url]
        with (folder / "log").open("a") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log)

    def wait(self) -> float:
        """The moment at which it listens."""
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
            except OSError:
                time.sleep(0.002)
            else:
                return time.monotonic()


def measure(how: signal.Signals, rounds: int) -> list[tuple[float, float]]:
    """Of each round, the seconds until the key is gone, and from there until the next one listens."""
    found = []
    with tempfile.TemporaryDirectory() as name:
        etcd = Etcd(Path(name))
        leader = Head(etcd, Path(name))
        leader.wait()
        heads = [leader]
        try:
            watch = Watch(etcd)
            for number in range(rounds):
                heads.append(Head(etcd, Path(name)))
                time.sleep(1 + number * 0.037)  # Its looks at the key are 0.25 s apart.
                began = time.monotonic()
                heads[-2].process.send_signal(how)
                listens = heads[-1].wait()
                heads[-2].process.wait()
                while len(watch.gone) <= number:
                    time.sleep(0.001)
                found.append((watch.gone[number] - began, listens - watch.gone[number]))
        finally:
            for head in heads:
                head.process.kill()
                head.process.wait()
            etcd.remove()
    return found


def cells(name: str, found: list[tuple[float, float]]) -> tuple[str, ...]:
    """Of the table."""
    both = []
    for seconds in zip(*found, strict=True):
        both.append(f"{statistics.median(seconds):.2f} s ({min(seconds):.2f} to {max(seconds):.2f})")
    return (name, *both)


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    rows = [HEAD, ("---",) * len(HEAD)]
    rows.append(cells("is ended by SIGTERM", measure(signal.SIGTERM, options.rounds)))
    rows.append(cells("is killed", measure(signal.SIGKILL, options.rounds)))
    table = "".join(f"| {' | '.join(row)} |\n" for row in rows).replace("| --- | --- | --- |", "|---|---|---|")
    print(table, end="")
    if options.write:
        page = ROOT / "docs" / "healing.md"
        before, rest = page.read_text().split(BEGIN)
        page.write_text(before + BEGIN + table + END + rest.split(END)[1])


if __name__ == "__main__":
    main()
