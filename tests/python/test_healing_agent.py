"""The agent of a node (`ucp_checkpoint._agent`) without torchrun: a stand-in for the connection says what it hears."""

from __future__ import annotations

import json
import logging
import os
import queue
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from ucp_checkpoint import _agent, _board, _coordinator
from ucp_checkpoint._agent import Agent

NODE = {"task": "job", "node": "n1", "least": 1, "most": 2}


class Wire:
    """A connection. A test puts into `coming` messages that are received, or an exception that is raised."""

    def __init__(self) -> None:
        self.sent: list[dict[str, Any]] = []
        self.coming: queue.Queue[Any] = queue.Queue()
        self.is_closed = False

    def send(self, message: dict[str, Any]) -> None:
        if self.is_closed:
            raise BrokenPipeError
        self.sent.append(message)

    def receive(self, seconds: float) -> list[dict[str, Any]]:
        try:
            messages = self.coming.get(timeout=seconds)
        except queue.Empty:
            return []
        if isinstance(messages, Exception):
            raise messages
        return messages

    def close(self) -> None:
        self.is_closed = True

    def of(self, *kinds: str) -> list[tuple[str, int]]:
        """The messages of those kinds that were sent, with their epochs."""
        return [(message["type"], message["epoch"]) for message in self.sent if message["type"] in kinds]


class Node:
    """An agent, and its connections in the order in which they were made."""

    def __init__(self) -> None:
        self.wires = [Wire()]
        self.agent = Agent(self._connect, dict(NODE))
        self.agent.begin(self.wires[0])  # type: ignore[arg-type]
        self.threads = ThreadPoolExecutor(4)

    def _connect(self) -> Any:
        self.wires.append(Wire())
        return self.wires[-1]

    def join(self) -> Future[dict[str, Any] | None]:
        """By a thread, once the coordinator has heard of it."""
        count = len(self.wires[-1].of("join"))
        joined = self.threads.submit(self.agent.join, "here", 1234, 20)
        wait_for(lambda: len(self.wires[-1].of("join")) > count)
        return joined

    def run(self, epoch: int) -> None:
        """Has processes of that epoch."""
        joined = self.join()
        self.wires[-1].coming.put([world(epoch)])
        assert joined.result(20) == world(epoch)


def world(epoch: int) -> dict[str, Any]:
    """For the first of two nodes."""
    return {"type": "world", "epoch": epoch, "rank": 0, "nodes": 2, "host": "here", "port": 1234}


def wait_for(condition: Callable[[], Any]) -> None:
    """Fails if it does not come true."""
    until = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.005)


@pytest.fixture
def node(monkeypatch: pytest.MonkeyPatch) -> Iterator[Node]:
    """That connects again soon."""
    monkeypatch.setattr(_agent, "_BETWEEN_TRIES", 0.02)
    monkeypatch.setattr(_agent, "_BETWEEN_REFUSALS", 0.05)
    node = Node()
    yield node
    node.agent.close()
    node.threads.shutdown()


def test_nothing_is_said_before_the_node_has_joined(node: Node) -> None:
    """The coordinator refuses a node that it does not know, and needs its host for that."""
    time.sleep(0.2)
    node.wires[0].coming.put(ConnectionResetError("gone"))
    wait_for(lambda: len(node.wires) == 2)
    time.sleep(0.2)
    assert [wire.sent for wire in node.wires] == [[], []]


def test_a_coordinator_that_comes_back_hears_of_the_end(node: Node) -> None:
    """Its journal has none of it."""
    node.run(3)
    node.agent.end()
    node.wires[0].coming.put(ConnectionResetError("gone"))
    wait_for(lambda: len(node.wires) == 2 and node.wires[1].of("ended"))
    assert node.wires[1].of("join", "resume", "ended") == [("resume", 3), ("ended", 3)]


def test_after_the_last_word_nobody_is_called(node: Node) -> None:
    """The coordinator says that the task is over, and closes the connection."""
    node.run(3)
    node.wires[0].coming.put([{"type": "close", "good": False, "reason": "task `job` is parked"}])
    node.wires[0].coming.put(ConnectionResetError("gone"))
    wait_for(lambda: node.wires[0].is_closed)
    time.sleep(0.2)
    assert len(node.wires) == 1
    order = node.agent.order
    assert order is not None
    assert order["reason"] == "task `job` is parked"


def test_a_restart_right_behind_its_world(node: Node) -> None:
    """The world is over before anybody has taken it. The node joins again, and waits for the next."""
    joined = node.join()
    restart = {"type": "restart", "epoch": 1, "kill": False, "reason": "the other node is lost"}
    node.wires[0].coming.put([world(1), restart])
    wait_for(lambda: len(node.wires[0].of("join")) == 2)
    assert not joined.done()
    node.wires[0].coming.put([world(2)])
    assert joined.result(20) == world(2)
    assert node.agent.order is None


def test_a_world_that_nobody_has_taken_is_over_when_the_node_joins_again(node: Node) -> None:
    """A coordinator that came back meanwhile has been told that the node has no processes, and begins another epoch."""
    joined = node.join()
    with node.agent._changed:  # torchrun's thread comes late.
        node.agent._offer = world(1)
        node.agent._introduce_again()
    wait_for(lambda: len(node.wires[0].of("join")) == 2)
    time.sleep(0.1)
    assert not joined.done()
    node.wires[0].coming.put([world(2)])
    assert joined.result(20) == world(2)


def test_a_join_names_the_last_epoch(node: Node) -> None:
    """So that a coordinator that knows nothing begins above it."""
    node.run(7)
    joined = node.join()
    node.wires[0].coming.put(ConnectionResetError("gone"))
    wait_for(lambda: len(node.wires) == 2 and node.wires[1].of("join"))
    assert node.wires[1].of("join") == [("join", 7)]
    node.wires[1].coming.put([world(7)])  # H1.
    node.wires[1].coming.put([world(8)])
    assert joined.result(20) == world(8)


@pytest.mark.parametrize("message", [{"type": "world"}, {"type": "restart", "epoch": "x", "reason": ""}, {"type": []},
                                     {"type": "close"}])  # fmt: skip
def test_a_message_that_is_none(node: Node, message: dict[str, Any]) -> None:
    """Whatever it is, the agent goes on: by another connection if it cannot do without."""
    node.run(1)
    node.wires[0].coming.put([message])
    count = 1 if message == {"type": []} else 2
    wait_for(lambda: len(node.wires) == count and len(node.wires[-1].of("beat")) > 1)
    node.agent.end()
    assert node.wires[-1].of("ended") == [("ended", 1)]
    assert node.agent.order is None


def test_whatever_looking_raises(node: Node) -> None:
    """Such as a question about processes that torchrun has taken away."""

    def stopped() -> int:
        raise KeyError(1)

    node.run(1)
    node.agent.stopped = stopped
    wait_for(lambda: len(node.wires) > 2)
    node.agent.stopped = lambda: -1
    wait_for(lambda: len(node.wires[-1].of("beat")) > 1)


def test_a_refusal_does_not_stop_training(node: Node, caplog: pytest.LogCaptureFixture) -> None:
    """Of a coordinator that comes back with another version, say. A node that joins ends by it."""
    refusal = {"type": "close", "refused": True, "good": False, "reason": "it speaks version 2"}
    node.run(1)
    with caplog.at_level(logging.WARNING):
        for count in (1, 2, 3):
            node.wires[-1].coming.put([refusal])
            wait_for(lambda count=count: len(node.wires) > count and node.wires[-1].of("resume"))
    assert node.agent.order is None
    assert caplog.text.count("it speaks version 2") == 1
    joined = node.join()
    node.wires[-1].coming.put([refusal])
    assert joined.result(20) == refusal


def test_reports_fit(node: Node) -> None:
    """The coordinator takes 64 ends, and lines of 64 KiB, in UTF-8."""
    node.run(1)
    texts = ["長" * 1000, "\x01" * 1000, "\udcff\ud800.pt", "a short one"]
    ends = [{"rank": rank, "exit": 1, "exception": "E" * 3000, "text": texts[rank % 4]} for rank in range(100)]
    node.agent.report(ends, 0)
    (report,) = (message for message in node.wires[0].sent if message["type"] == "failed")
    line = _coordinator.line_of(report)
    assert len(line) <= 50_000
    said = json.loads(line.decode("utf-8"))["ends"]
    assert [end["rank"] for end in said] == list(range(64))
    assert (said[2]["text"], said[3]["text"]) == ("??.pt", "a short one")
    assert said[0]["text"].startswith("長" * 50)
    one = _coordinator.failed(1, [ends[0] | {"exception": "E"}])["ends"][0]
    assert one == {"rank": 0, "exit": 1, "exception": "E", "text": texts[0]}


def test_exceptions_of_many_ranks_are_said_in_turn(node: Node) -> None:
    """Each once."""
    node.run(1)
    for rank in range(100):
        part = node.agent.board / f"{rank}.part"
        part.write_text(json.dumps({"exception": "E", "text": "x"}))
        part.rename(node.agent.board / f"{rank}.error")
    (node.agent.board / "100.error").write_text("[]")

    def said() -> list[int]:
        return [end["rank"] for message in node.wires[0].sent for end in message.get("ends", [])]

    wait_for(lambda: len(said()) >= 100)
    time.sleep(0.2)
    assert sorted(said()) == list(range(100))
    assert max(len(message.get("ends", [])) for message in node.wires[0].sent) <= 64


def test_folders_of_killed_agents_are_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of agents that run stay, and so do links and what has another name."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    script = (
        "import sys; from ucp_checkpoint import _board; print(_board.own_folder()[0], flush=True); sys.stdin.read()"
    )
    environment = os.environ | {"TMPDIR": str(tmp_path)}
    processes = [
        subprocess.Popen([sys.executable, "-c", script], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                         text=True)
        for _ in range(2)
    ]  # fmt: skip
    killed, runs = (Path(process.stdout.readline().strip()) for process in processes if process.stdout is not None)
    (killed / "epoch-1").mkdir()
    (killed / "epoch-1" / "0").write_bytes(b"page")
    processes[0].kill()
    processes[0].communicate()
    (tmp_path / "ucp-healing-other").mkdir()
    link = tmp_path / f"ucp-healing-agent-{Path('/proc/sys/kernel/random/boot_id').read_text().strip()}-link"
    link.symlink_to(tmp_path / "ucp-healing-other")
    own, lock = _board.own_folder()
    assert sorted(tmp_path.iterdir()) == sorted([own, runs, tmp_path / "ucp-healing-other", link])
    os.close(lock)
    processes[1].communicate()


def test_a_secret_that_is_not_there(tmp_path: Path) -> None:
    """A refusal, which is not tried again; with the path and the reason."""
    with pytest.raises(_coordinator.Refused) as refused:
        _coordinator.secret_of(str(tmp_path / "secret"))
    assert str(refused.value) == f"`{tmp_path / 'secret'}`: the secret cannot be read: no such file or directory"
