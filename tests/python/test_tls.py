"""A connection of an agent with TLS (`ucp_checkpoint._tls`), to a real coordinator."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from healing_job import SECRET, Job
from programs.certificates import make_certificate
from ucp_checkpoint._coordinator import Link, Refused, failed


@pytest.fixture
def job(ucprun: Path, tmp_path: Path) -> Iterator[Job]:
    """Without nodes so far."""
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
        (other, "its certificate is not taken: self-signed certificate"),
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


def test_a_job_of_torchrun(job: Job) -> None:
    """Its processes start again, since the coordinator hears of a failure by TLS."""
    job.more_conf = f",tls_ca={job.certificate}"
    job.start("n1", "1:1")
    job.wait_for(lambda: job.last_step() >= 12)
    (job.folder / "raise-0").write_text("CUDA error: an illegal memory access was encountered")
    assert job.wait_for_end() == {"n1": 0}, job.logs()
    assert len(job.said("start")) == 2
