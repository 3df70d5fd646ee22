"""`ucp.healing.watch()` without a job: the board that an agent reads, and refusals."""

from __future__ import annotations

import fcntl
import importlib.metadata
import json
import mmap
import os
import resource
import select
import socket
import subprocess
import sys
from pathlib import Path

import pytest

import ucp_checkpoint as ucp
from ucp_checkpoint import _board, _coordinator

SOURCE = Path(__file__).parents[2]
SCRIPT = """
import os, signal, sys
import ucp_checkpoint as ucp
with ucp.healing.watch() as watch:
    watch.beat(41)
    with watch.long("evaluation", 600):
        print("ready", flush=True)
        sys.stdin.readline()
    os.kill(os.getpid(), signal.SIGUSR1)
    raise KeyError("no such layer")
"""


def test_an_agent_sees_steps_phases_and_exceptions(tmp_path: Path) -> None:
    """Of a process that is there, and after it has ended; SIGUSR1 has it write its stacks."""
    environment = os.environ | {_board.BOARD: str(tmp_path), "RANK": "3"}
    process = subprocess.Popen([sys.executable, "-c", SCRIPT], env=environment, stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)  # fmt: skip
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    assert _board.seen(tmp_path) == {3: _board.Seen(41, "evaluation", 600.0)}
    assert _board.errors(tmp_path) == {}
    _, errors = process.communicate("\n", timeout=60)
    assert process.returncode == 1
    assert _board.seen(tmp_path) == {3: _board.Seen(41, "", None)}
    assert _board.errors(tmp_path) == {3: {"exception": "KeyError", "text": "'no such layer'"}}
    assert "Current thread" in errors
    assert "KeyError: 'no such layer'" in errors


def test_files_that_are_not_a_board_count_for_nothing(tmp_path: Path) -> None:
    """A page that is too short, and an exception that is not JSON."""
    (tmp_path / "1").write_bytes(b"short")
    (tmp_path / "2.error").write_text("{")
    (tmp_path / "other").write_text("x")
    assert _board.seen(tmp_path) == {}
    assert _board.errors(tmp_path) == {}


def test_without_a_coordinator_nothing_happens(tmp_path: Path) -> None:
    """And nothing is written."""
    environment = {key: value for key, value in os.environ.items() if key != _board.BOARD}
    script = "import ucp_checkpoint as u\nw = u.healing.watch()\nw.beat(1)\nwith w.long('x'): pass\nprint('done')"
    result = subprocess.run([sys.executable, "-c", script], env=environment, cwd=tmp_path, capture_output=True,
                            text=True, timeout=60, check=False)  # fmt: skip
    assert (result.stdout, result.stderr) == ("done\n", "")
    assert list(tmp_path.iterdir()) == []


def run(folder: Path, script: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """As rank 3, with the board in the folder; to its end."""
    environment = os.environ | {_board.BOARD: str(folder), "RANK": "3"} | variables
    script = "import os, signal, subprocess, sys\nimport ucp_checkpoint as ucp\n" + script
    return subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, timeout=60,
                          check=False)  # fmt: skip


def test_a_child_with_the_same_environment_is_no_rank(tmp_path: Path) -> None:
    """Such as an evaluation, or a worker that imports the script. The same process may ask again."""
    child = "import ucp_checkpoint as u; u.healing.watch().beat(1)"
    script = f"""
ucp.healing.watch().beat(7)
subprocess.run([sys.executable, "-c", {child!r}], check=True)
assert ucp.healing.watch() is ucp.healing.watch()
ucp.healing.watch().beat(8)
"""
    result = run(tmp_path, script)
    assert result.returncode == 0, result.stderr
    assert _board.seen(tmp_path) == {3: _board.Seen(8, "", None)}


def test_a_disk_without_room_for_the_board(tmp_path: Path) -> None:
    """Training goes on, with one warning."""
    script = """
import resource
resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))
for step in range(2):
    ucp.healing.watch().beat(step)
raise SystemExit(5)
"""
    result = run(tmp_path, script)
    assert result.returncode == 5, result.stderr
    assert result.stderr.count("ucp.healing.watch() cannot say how far this rank is") == 1
    assert "File too large" in result.stderr
    assert _board.seen(tmp_path) == {}


def test_the_page_is_no_hole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A hole that the disk has no room for ends the process when it is written to."""
    holes = []
    original = mmap.mmap

    def mapped(file: int, size: int) -> mmap.mmap:
        holes.append(os.lseek(file, 0, os.SEEK_HOLE))
        return original(file, size)

    monkeypatch.setattr(_board.mmap, "mmap", mapped)
    _board.Board(str(tmp_path), 0)
    assert holes == [4096]


@pytest.mark.parametrize(
    "before",
    [
        "signal.signal(signal.SIGUSR1, lambda *_: print('queued again'))",
        "import faulthandler; faulthandler.register(signal.SIGUSR1, sys.stdout)",
    ],
)
def test_a_handler_that_is_there_stays(tmp_path: Path, before: str) -> None:
    """Such as Lightning's, which has Slurm queue the job again. The agent does not send it then."""
    result = run(tmp_path, f"{before}\nucp.healing.watch().beat(1)\nos.kill(os.getpid(), signal.SIGUSR1)")
    assert (result.returncode, result.stderr) == (0, "")
    assert "queued again" in result.stdout or "Current thread" in result.stdout
    assert not _board.writes_stacks(tmp_path, 3)


def test_the_board_says_who_writes_stacks(tmp_path: Path) -> None:
    """Until somebody takes the signal."""
    assert run(tmp_path, "ucp.healing.watch().beat(1)").returncode == 0
    assert _board.writes_stacks(tmp_path, 3)
    assert not _board.writes_stacks(tmp_path, 4)
    script = "w = ucp.healing.watch()\nsignal.signal(signal.SIGUSR1, signal.SIG_IGN)\nw.beat(1)"
    assert run(tmp_path, script).returncode == 0
    assert not _board.writes_stacks(tmp_path, 3)


def test_a_rank_whose_agent_has_ended_before_it_watches(tmp_path: Path) -> None:
    """The rank ends by itself. With a script between the agent and the rank, it goes on while the agent is there."""
    with subprocess.Popen(["true"]) as gone:
        gone.wait()
    namespace = os.readlink("/proc/self/ns/pid")
    script = "ucp.healing.watch()\nprint('goes on')"
    result = run(tmp_path, script, UCP_HEALING_AGENT=f"{gone.pid} {namespace}")
    assert (result.returncode, result.stdout) == (1, "")
    assert "the agent of this rank has ended" in result.stderr
    for agent in (f"{os.getpid()} {namespace}", f"{os.getppid()} {namespace}", f"{gone.pid} pid:[1]"):
        assert run(tmp_path, script, UCP_HEALING_AGENT=agent).stdout == "goes on\n"


def test_a_connection_with_a_large_number() -> None:
    """Of a torchrun that has many files open; select() takes none from 1024 on."""
    most = resource.getrlimit(resource.RLIMIT_NOFILE)
    if most[1] <= 1100:
        pytest.skip("NOT RUN: needs 1100 open files")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(most[0], 1200), most[1]))
    near, far = socket.socketpair()
    link = _coordinator.Link.__new__(_coordinator.Link)
    link._socket = socket.socket(fileno=fcntl.fcntl(near, fcntl.F_DUPFD, 1100))
    link._received = b""
    link._tls = None
    try:
        assert link.receive(0) == []
        far.sendall(b'{"type":"close"}\n')
        assert link.receive(5) == [{"type": "close"}]
        link.send({"type": "ended", "node": "\udcff長"})
        assert select.select([far], [], [], 5)[0]
        assert far.recv(100) == '{"type": "ended", "node": "?長"}\n'.encode()
    finally:
        for end in (link, near, far):
            end.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, most)


def test_refusals() -> None:
    """In one sentence."""
    watch = ucp.healing.Watch(None)
    with pytest.raises(ucp.Error, match="name is empty"), watch.long(""):
        pass
    with pytest.raises(ucp.Error, match="seconds is -1, and must be above 0"), watch.long("x", -1):
        pass


def test_torchrun_finds_the_backend() -> None:
    """The build's entry point is that of pyproject.toml."""
    (point,) = (point for point in importlib.metadata.entry_points(group="torchrun.handlers") if point.name == "ucp")
    assert callable(point.load()())
    line = f'[project.entry-points."torchrun.handlers"]\nucp = {json.dumps(point.value)}\n'
    assert line in (SOURCE / "pyproject.toml").read_text()
