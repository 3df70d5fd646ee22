"""A connection of an agent with TLS (`ucp_checkpoint._tls`), to a real coordinator."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest
from torch.distributed.elastic.rendezvous import RendezvousParameters

from healing_job import SECRET, Job
from programs.certificates import make_certificate
from ucp_checkpoint import _rendezvous, _tls
from ucp_checkpoint._coordinator import Link, Refused, failed


@pytest.fixture
def job(ucprun: Path, tmp_path: Path) -> Iterator[Job]:
    """Without nodes so far."""
    if "no TLS" in subprocess.run([ucprun, "--version"], check=True, capture_output=True, text=True).stdout:
        pytest.skip("NOT RUN: this build has no OpenSSL")
    with Job(ucprun, tmp_path) as of_none:
        of_none.certificate, key = make_certificate(tmp_path, "head")
        of_none.coordinate("--tls-certificate", str(of_none.certificate), "--tls-key", str(key))
        yield of_none


def link_of(job: Job, authority: Path | None) -> Link:
    """To its coordinator."""
    return Link("127.0.0.1", job.port, SECRET.encode(), str(authority) if authority else None)


def join(link: Link) -> None:
    """A job of one node."""
    link.send({"type": "join", "epoch": 0, "task": "t", "node": "n", "host": "h", "port": 1, "least": 1, "most": 1})
    (world,) = link.receive(10)
    assert (world["type"], world["nodes"]) == ("world", 1)


def test_lines_of_several_records(job: Job) -> None:
    """A report of failures is longer than a record of TLS."""
    link = link_of(job, job.certificate)
    join(link)
    link.send(failed(1, [{"rank": rank, "exit": -9, "text": "x" * 1000} for rank in range(60)]))
    assert link.receive(10)[0]["type"] == "restart"
    link.close()


def test_a_thread_sends_while_another_receives(job: Job) -> None:
    """As an agent does."""
    link = link_of(job, job.certificate)
    join(link)
    with ThreadPoolExecutor(1) as threads:
        heard = threads.submit(link.receive, 20)
        for step in range(2000):
            link.send({"type": "beat", "epoch": 1, "step": step})
        link.send(failed(1, [{"rank": 0, "exit": -9}]))
        assert heard.result()[0]["type"] == "restart"
    link.close()


def test_refusals(job: Job, tmp_path: Path) -> None:
    """One sentence each."""
    other, key = make_certificate(tmp_path, "other")
    for authority, words in (
        (other, "its certificate is not taken: self"),
        (key, f"`{key}` has no certificate in PEM: "),
        (tmp_path / "nowhere", f"`{tmp_path / 'nowhere'}`: the certificates cannot be read: no such file"),
    ):
        with pytest.raises(Refused) as refused:
            link_of(job, authority)
        assert words in str(refused.value)
    with pytest.raises(ConnectionResetError, match="does it speak TLS"):
        link_of(job, None)
    with pytest.raises(Refused, match="the secret of this node"):
        Link("127.0.0.1", job.port, b"another secret of some length", str(job.certificate))


def test_a_certificate_that_another_has_signed(job: Job, tmp_path: Path) -> None:
    """Either of both is enough, as for `ucprun cluster`."""
    authority = make_certificate(tmp_path, "authority")
    certificate, key = make_certificate(tmp_path, "signed", signer=authority)
    job.coordinator.kill()
    job.coordinator.wait()
    job.coordinate("--tls-certificate", str(certificate), "--tls-key", str(key))
    for trusted in (authority[0], certificate):
        link_of(job, trusted).close()


@pytest.mark.parametrize("slowly", [b"", b"\x16\x03\x03\x40\x00" + bytes(10_000)])
def test_no_handshake(slowly: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a server that says nothing, or always something."""
    monkeypatch.setattr(_tls, "_SECONDS_TO_AGREE", 1.0)
    certificate, _ = make_certificate(tmp_path, "head")

    def serve(server: socket.socket) -> None:
        connection, _ = server.accept()
        with connection, suppress(OSError):
            for byte in slowly:
                connection.sendall(bytes([byte]))
                time.sleep(0.05)
            while connection.recv(1 << 16):
                pass

    with socket.create_server(("127.0.0.1", 0)) as server, ThreadPoolExecutor(1) as threads:
        threads.submit(serve, server)
        with pytest.raises(TimeoutError, match="it does not answer in 1 s; does it speak TLS"):
            Link("127.0.0.1", server.getsockname()[1], SECRET.encode(), str(certificate))


def test_another_server_without_tls() -> None:
    """Its own end, and not its first line, leads to the question."""
    with socket.create_server(("127.0.0.1", 0)) as server, ThreadPoolExecutor(1) as threads:
        threads.submit(lambda: server.accept()[0].sendall(b"SSH-2.0-OpenSSH_9.2p1\r\n"))
        with pytest.raises(OSError, match="the coordinator's line is not JSON"):
            Link("127.0.0.1", server.getsockname()[1], SECRET.encode())


def test_python_without_ssl(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only TLS needs it."""
    monkeypatch.setitem(sys.modules, "ucp_checkpoint._tls", None)
    refused = pytest.raises(Refused, match="`tls_ca` needs Python's module `ssl`")
    with socket.create_server(("127.0.0.1", 0)) as server, refused:
        Link("127.0.0.1", server.getsockname()[1], b"", "head.pem")


def test_an_empty_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """A variable of the shell that is not set does not turn TLS off."""
    monkeypatch.delenv("UCP_TLS_CA", raising=False)

    def tls_ca(**conf: str) -> str | None:
        return _rendezvous._tls_ca_of(RendezvousParameters("ucp", "head", "t", 1, 1, **conf))

    assert (tls_ca(), tls_ca(tls_ca="a.pem")) == (None, "a.pem")
    with pytest.raises(ValueError, match="`tls_ca`, or UCP_TLS_CA, is empty"):
        tls_ca(tls_ca="")
    monkeypatch.setenv("UCP_TLS_CA", "")
    with pytest.raises(ValueError, match="is empty"):
        tls_ca()
    assert tls_ca(tls_ca="a.pem") == "a.pem"


def test_a_job_of_torchrun(job: Job) -> None:
    """Its processes start again, since the coordinator hears of a failure by TLS."""
    job.more_conf = f",tls_ca={job.certificate}"
    job.start("n1", "1:1")
    job.wait_for(lambda: job.last_step() >= 12)
    (job.folder / "raise-0").write_text("CUDA error: an illegal memory access was encountered")
    assert job.wait_for_end() == {"n1": 0}, job.logs()
    assert len(job.said("start")) == 2
