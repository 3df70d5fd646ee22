"""The rendezvous backend `ucp` of torchrun: `torchrun --rdzv-backend ucp --rdzv-endpoint HOST:PORT …`.

The coordinator at the endpoint, or at the one of several that answers, forms the group, and says when
processes are started again. torchrun then does so by its own means, which use up none of its `--max-restarts`.
"""

from __future__ import annotations

import logging
import os
import signal
import socket
import time
from collections.abc import Collection
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed
from torch.distributed.elastic.agent.server import local_elastic_agent
from torch.distributed.elastic.agent.server.api import RunResult, WorkerState
from torch.distributed.elastic.rendezvous.api import (
    RendezvousClosedError,
    RendezvousConnectionError,
    RendezvousHandler,
    RendezvousInfo,
    RendezvousParameters,
    RendezvousStoreInfo,
)

from ucp_checkpoint import _board
from ucp_checkpoint._agent import Agent
from ucp_checkpoint._coordinator import Link, Refused, secret_of

_DEFAULT_PORT = 29411
_DEFAULT_JOIN_SECONDS = 30
_SECONDS_FOR_ANSWER = 10.0
_SECONDS_FOR_STACKS = 0.3
_SECONDS_FOR_STORE = 20
_BETWEEN_TRIES = 0.5
_dist: Any = torch.distributed  # Its stores have no types.
_log = logging.getLogger("ucp_checkpoint")


class CoordinatedRendezvous(RendezvousHandler):
    """Of one node, in torchrun's process."""

    def __init__(self, parameters: RendezvousParameters) -> None:
        _watch_workers()
        self._parameters = parameters
        self._endpoints = _endpoints(parameters.endpoint)
        self._turn = 0
        self._patience = float(parameters.get_as_int("join_timeout", _DEFAULT_JOIN_SECONDS) or 0)
        self._name = str(parameters.get("node") or os.environ.get("UCP_NODE") or socket.gethostname())
        self._secret_file = parameters.get("secret_file") or os.environ.get("UCP_SECRET_FILE")
        self._tls_ca = _tls_ca_of(parameters)
        self._store: Any = None
        link = self._first_link()
        self._address = self._own_address(link)
        self._agent = Agent(self._connect, {"task": parameters.run_id, "node": self._name,
                                            "least": parameters.min_nodes, "most": parameters.max_nodes})  # fmt: skip
        self._agent.begin(link)

    def get_backend(self) -> str:
        return self._parameters.backend

    def get_run_id(self) -> str:
        return self._parameters.run_id

    @property
    def use_agent_store(self) -> bool:
        return True

    def next_rendezvous(self) -> RendezvousInfo:
        while True:
            own = _dist.TCPStore(
                self._address, 0, None, True, timedelta(seconds=_SECONDS_FOR_STORE), wait_for_workers=False
            )
            world = self._agent.join(self._address, own.port, self._patience)
            if world is None:
                raise RendezvousConnectionError(self._unreachable("it is away"))
            if world["type"] == "close":
                _end(world)
            os.environ |= {_board.BOARD: str(self._agent.board), _board.AGENT: _board.own_process()}
            try:
                self._store = own if world["rank"] == 0 else _dist.TCPStore(
                    world["host"], world["port"], None, False, timedelta(seconds=_SECONDS_FOR_STORE)
                )  # fmt: skip
            except RuntimeError as error:  # The first node has gone again.
                _log.warning("the store of the first node, at %s port %s, cannot be reached: %s", world["host"],
                             world["port"], error)  # fmt: skip
                continue
            store = _dist.PrefixStore(f"ucp/{world['epoch']}", self._store)
            return RendezvousInfo(
                store, world["rank"], world["nodes"], RendezvousStoreInfo(world["host"], world["port"])
            )

    def num_nodes_waiting(self) -> int:
        """1 has torchrun stop its processes and come to the next rendezvous."""
        order = self._agent.order
        if order is None:
            return 0
        if order["type"] == "close":
            _end(order)
        return 1

    def is_closed(self) -> bool:
        order = self._agent.order
        return order is not None and order["type"] == "close"

    def set_closed(self) -> None:
        """Tasks end when their processes do."""

    def shutdown(self) -> bool:
        self._agent.close()
        return True

    def judge(self, result: RunResult, processes: Collection[int], ranks: list[int]) -> RunResult:
        """The state of the processes as torchrun should see it: it restarts them if the coordinator says so."""
        pids = list(processes)
        self._agent.stopped = lambda: next(
            (rank for pid, rank in zip(pids, ranks, strict=False) if _is_stopped(pid)), -1
        )
        if result.state == WorkerState.SUCCEEDED:
            self._agent.end()
        elif result.state in (WorkerState.FAILED, WorkerState.UNHEALTHY):
            order = self._agent.order or self._agent.report(self._ends_of(result, ranks), _SECONDS_FOR_ANSWER)
            if order is not None and order["type"] == "restart":
                _log.warning("the processes of node `%s` start again: %s", self._name, order["reason"])
                return RunResult(state=WorkerState.HEALTHY)
        elif self._agent.order is not None and self._agent.order.get("kill"):
            board = self._agent.board
            _kill(pids, [pid for pid, rank in zip(pids, ranks, strict=False) if _board.writes_stacks(board, rank)])
        return result

    def _ends_of(self, result: RunResult, ranks: list[int]) -> list[dict[str, Any]]:
        said = _board.errors(self._agent.board)
        ends = []
        for rank, failure in list(result.failures.items())[:64]:
            message = failure.error_file_data.get("message", "")
            text = message.get("message", "") if isinstance(message, dict) else str(message)
            kind, _, rest = str(text).partition(": ")
            of_file = {"exception": kind, "text": rest[:1000]} if rest else {}
            ends.append({"rank": rank, "exit": failure.exitcode, **said.get(rank, of_file)})
        return ends or [{"rank": rank} for rank in ranks[:1]]

    def _connect(self) -> Link:
        """To the first coordinator that answers. Of several, one alone listens: the one that leads. The one that
        answered last comes last, since its machine may be gone."""
        secret = secret_of(self._secret_file)
        why: Exception = ConnectionRefusedError()
        for _ in self._endpoints:
            host, port = self._endpoints[self._turn]
            self._turn = (self._turn + 1) % len(self._endpoints)
            try:
                return Link(host, port, secret, self._tls_ca)
            except (OSError, Refused) as error:
                why = why if isinstance(why, Refused) else error
        raise why

    def _first_link(self) -> Link:
        until = time.monotonic() + self._patience
        while True:
            try:
                return self._connect()
            except Refused as error:
                raise RendezvousConnectionError(f"the coordinator at {self._parameters.endpoint}: {error}") from None
            except OSError as error:
                if time.monotonic() > until:
                    raise RendezvousConnectionError(self._unreachable(error)) from None
            time.sleep(_BETWEEN_TRIES)

    def _unreachable(self, why: object) -> str:
        return (
            f"the coordinator at {self._parameters.endpoint} cannot be reached: {why}; "
            f"`ucprun coordinate --port {self._endpoints[0][1]}` starts one"
        )

    def _own_address(self, link: Link) -> str:
        """Where other nodes reach this one."""
        own = link.own_address
        if self._parameters.local_addr:
            return str(self._parameters.local_addr)
        is_alone = all(host in ("localhost", "::1") or host.startswith("127.") for host, _ in self._endpoints)
        is_loop = own.startswith("127.") or own == "::1"
        return socket.getfqdn() if is_loop and not is_alone else own


def _tls_ca_of(parameters: RendezvousParameters) -> str | None:
    given: str | None = parameters.get("tls_ca")
    if given is None:
        given = os.environ.get("UCP_TLS_CA")
    if given == "":  # A variable of the shell that is not set must not turn TLS off.
        raise ValueError("`tls_ca`, or UCP_TLS_CA, is empty; name the file of certificates, or leave it out")
    return given


def _endpoints(endpoints: str) -> list[tuple[str, int]]:
    found = []
    for endpoint in endpoints.split(","):
        host, _, port = endpoint.strip().rpartition(":")
        if not host:
            host, port = port, str(_DEFAULT_PORT)
        if not host or not port.isdigit():
            raise ValueError(f"--rdzv-endpoint is `{endpoints}`, and must be HOST:PORT, such as head:{_DEFAULT_PORT}, "
                             "or several of these with commas")  # fmt: skip
        found.append((host, int(port)))
    return found


def _end(order: dict[str, Any]) -> None:
    if order.get("good"):  # torchrun ends well by that; its own RendezvousGracefulExitError makes it fail in 2.13.
        _log.info("%s", order["reason"])
        raise SystemExit(0)
    raise RendezvousClosedError(order["reason"])


def _is_stopped(pid: int) -> bool:
    with suppress(OSError, IndexError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "Tt"
    return False


def _kill(processes: list[int], watching: list[int]) -> None:
    """Processes that hang do not listen to SIGTERM. Those that watch() write their stacks first.

    To others SIGUSR1 says something else, such as that Slurm is to queue their job again.
    """
    for pid in watching:
        with suppress(OSError):
            if _board.catches(pid, signal.SIGUSR1):
                os.kill(pid, signal.SIGUSR1)
    time.sleep(_SECONDS_FOR_STACKS)
    for pid in processes:
        with suppress(OSError):
            os.kill(pid, signal.SIGKILL)


def _watch_workers() -> None:
    """torchrun asks nobody before it gives up a node whose process has failed; this has it ask."""
    agent: Any = local_elastic_agent.LocalElasticAgent
    original = getattr(agent, "_monitor_workers", None)
    if original is None:
        raise ValueError(f"--rdzv-backend ucp does not know torch {torch.__version__}, whose agent is another one")
    if getattr(original, "is_of_ucp", False):
        return

    def monitor(self: Any, worker_group: Any) -> RunResult:
        result: RunResult = original(self, worker_group)
        rendezvous = worker_group.spec.rdzv_handler
        if not isinstance(rendezvous, CoordinatedRendezvous):
            return result
        processes = self._pcontext.pids().values() if self._pcontext is not None else []
        return rendezvous.judge(result, processes, [worker.global_rank for worker in worker_group.workers])

    monitor.is_of_ucp = True  # type: ignore[attr-defined]
    agent._monitor_workers = monitor
