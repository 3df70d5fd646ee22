"""States that cannot be saved, and places where nothing can be: one sentence, nothing left, and the next save works."""

from __future__ import annotations

import os
import resource
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import forked
import ucp_checkpoint as ucp
from dying_work import MIB, error_of, stop_while_it_writes
from engine.dcp_judges import read_flat
from test_into import Wrapper
from writers import children_of, leftovers, supervisor_of, wait_until, worker_of

WEIGHT = {"weight": torch.ones(4)}
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")  # Of PyTorch, about rare kinds of tensors.


@pytest.fixture
def saver(tmp_path: Path) -> Iterator[ucp.Saver]:
    """After whose error the next save must work."""
    with ucp.Saver(WEIGHT, timeout=10) as saver:
        yield saver
        saver.save(tmp_path / "next").result()
    assert torch.equal(read_flat(tmp_path / "next")["weight"], torch.ones(4))


def inside_itself() -> dict[str, Any]:
    """A dict without an end."""
    state: dict[str, Any] = {}
    state["more"] = state
    return state


def storage_made_empty() -> torch.Tensor:
    """As FSDP makes it."""
    tensor = torch.ones(3)
    tensor.untyped_storage().resize_(0)
    return tensor


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: torch.ones(3).to_sparse(), "`more` is torch.sparse_coo; only dense tensors are saved"),
        (lambda: torch.eye(3).to_sparse_csr(), "`more` is torch.sparse_csr; only dense tensors are saved"),
        (lambda: torch.nested.nested_tensor([torch.ones(2)]), "`more` is nested; only dense tensors are saved"),
        (lambda: torch.quantize_per_tensor(torch.ones(3), 0.1, 0, torch.qint8), "`more` is quantized; only dense"),
        (lambda: torch.ones(3, device="meta"), "`more` is on the meta device and has no numbers"),
        (lambda: nn.LazyLinear(3).weight, "`more` has no shape before the module's first forward"),
        (lambda: torch._neg_view(torch.ones(3)), "`more` is a view that negates or conjugates"),
        (lambda: torch.zeros(3, dtype=torch.complex64).conj(), "`more` is a view that negates or conjugates"),
        (lambda: Wrapper(torch.ones(3)), "`more` is a Wrapper without memory of its own numbers; save the tensors"),
        (storage_made_empty, "`more` is a Tensor without memory of its own numbers"),
        (lambda: torch.zeros(3, dtype=torch.uint8).view(torch.bits8), "`more` has numbers of the unknown kind bits8"),
        (lambda: torch.zeros(2, dtype=torch.complex32), "`more` has numbers of the unknown kind complex32"),
        (lambda: lambda: 0, "`more` of the state cannot be pickled: "),
        (lambda: {"a.b": 1, "a": {"b": 2}}, "two entries of the state have the key `more.a.b`"),
        (lambda: {"\udc80": 1}, "a key of the state has characters that are not text"),
        (inside_itself, "the state is nested too deeply, or contains itself"),
    ],
)
def test_what_cannot_be_saved(make: Callable[[], Any], said: str, saver: ucp.Saver, tmp_path: Path) -> None:
    """The same sentence of a Saver and of a save."""
    for error in (
        error_of(lambda: ucp.Saver({"more": make(), **WEIGHT})),
        error_of(lambda: saver.save(tmp_path / "saved", extra={"more": make()}).result()).removeprefix("rank 0 of 1: "),
    ):
        assert error.startswith(said)
        assert "\n" not in error
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"to": "dpc"}, "there is no format `dpc` .did you mean `dcp`"),
        ({"to": "dcp:style=titn"}, "`style` in a strategy of the format `dcp` takes titan, app, accelerate, li"),
        ({"to": 3}, 'to is a strategy such as "dcp:style=titan", not 3'),
        ({"to": "deepspeed:dp=2,zero=1,dtype=fp32"}, "holds no states of an optimizer"),
        ({"state": {}}, "the job's state holds no tensors of a model"),
        ({"state": 3}, "the state is a module or a dict, not a int"),
        ({"optimizer": torch.optim.SGD([torch.ones(1)])}, "with an optimizer the state is its module"),
        ({"state": nn.Linear(2, 2), "optimizer": 3}, "optimizer= is a int and no torch.optim.Optimizer"),
        ({"state": nn.Linear(2, 2), "optimizer": torch.optim.SGD([torch.ones(1)])}, "has a parameter that the model"),
        ({"extra": {"weight": 3}}, "extra has an entry `weight`, which the state also has"),
        ({"extra": [3]}, "extra is a mapping"),
        ({"keep": 0}, "keep is a number from 1 to"),
        ({"staging": "3x"}, 'staging is "1x", "2x" or a size such as "2GB", not .3x'),
        ({"staging": 2}, "rank 0 stages 64 B at once for `weight`, and may stage 2 B at a time; allow 64 bytes"),
        ({"on_death": "go on"}, 'on_death is "finish" or "drop", not'),
        ({"timeout": 0}, "timeout is a number of seconds, not 0"),
        ({"nice": -1}, "nice is a number from 0 to 19, not -1"),
        ({"threads": 0}, "threads is a number from 1 to 256, not 0"),
        ({"memory": "much"}, "memory takes a number of bytes or a size"),
        ({"spec": "nosuch"}, "there is no spec `nosuch`"),
        ({"group": 3}, "a process group was given, and torch.distributed is not initialised"),
        ({"group": 3, "no_dist": True}, "with no_dist there is no group"),
    ],
)
def test_arguments_of_a_saver(arguments: dict[str, Any], said: str) -> None:
    """Before any process is started, or soon afterwards."""
    with pytest.raises(ucp.Error, match=said) as raised:
        ucp.Saver(**{"state": WEIGHT} | arguments)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"path": ""}, "path is a path, not ''"),
        ({"path": 3}, "path is a path, not 3"),
        ({"path": "a\0b"}, "path is a path, not"),
        ({"path": "/"}, "`/` cannot be a destination: it does not end in a name"),
        ({"path": "missing/saved"}, "cannot be written: there is no folder"),
        ({"path": "/etc/passwd/saved"}, "`/etc/passwd/saved` cannot be written: there is no folder `/etc/passwd`"),
        ({"path": "x" * 300}, "cannot examine"),
        ({"tag": 3}, "tag is a text, not 3"),
        ({"force": 1}, "force is True or False, not 1"),
        ({"extra": 3}, "extra is a mapping"),
    ],
)
def test_arguments_of_a_save(
    arguments: dict[str, Any], said: str, saver: ucp.Saver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The result raises it, so that all ranks hear of it."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ucp.Error, match=said) as raised:
        saver.save(**{"path": tmp_path / "saved"} | arguments).result()
    assert "\n" not in str(raised.value)
    assert list(tmp_path.iterdir()) == []


def test_a_path_that_exists(saver: ucp.Saver, tmp_path: Path) -> None:
    """Is replaced if that is asked for, and if it is a checkpoint."""
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "file").touch()
    with pytest.raises(ucp.Error, match="other` exists; name another folder"):
        saver.save(tmp_path / "other").result()
    with pytest.raises(ucp.Error, match="other` is neither empty nor a checkpoint"):
        saver.save(tmp_path / "other", force=True).result()
    saver.save(tmp_path / "saved").result()
    with pytest.raises(ucp.Error, match="saved` exists"):
        saver.save(tmp_path / "saved").result()
    saver.save(tmp_path / "saved", extra={"count": 2}, force=True).result()
    assert read_flat(tmp_path / "saved")["count"] == 2
    assert leftovers(tmp_path) == []


def test_options_have_their_names_in_python(saver: ucp.Saver, tmp_path: Path) -> None:
    """As in the errors of all other functions."""
    (tmp_path / "saved").mkdir()
    (tmp_path / "saved" / "file").touch()
    assert error_of(lambda: saver.save(tmp_path / "saved").result()).endswith("or pass force=True to replace it")


def test_writers_that_cannot_be_started(monkeypatch: pytest.MonkeyPatch) -> None:
    """Or programs that are not writers."""
    for program, said in {
        "/no/such": "the writer `/no/such write-saves` cannot be started: no such file or directory",
        "/bin/true": "the process that writes the saves is gone: it ended with code 0",
        "/bin/false": "the process that writes the saves is gone: it ended with code 1",
    }.items():
        monkeypatch.setenv("UCP_WRITER", program)
        with pytest.raises(ucp.Error, match=f"^{said}$"):
            ucp.Saver(WEIGHT)


NOBODY = 65534


def without_rights(rank: int, place: str) -> str:
    """The error of a save by a user who may not write there."""
    if os.getuid() == 0:
        os.setuid(NOBODY)
    with ucp.Saver(WEIGHT) as saver:
        return error_of(lambda: saver.save(Path(place) / "saved").result())


def test_no_permission(tmp_path: Path) -> None:
    """To write into a folder."""
    for folder in (tmp_path, *tmp_path.parents):
        if folder == Path(tempfile.gettempdir()):
            break
        folder.chmod(0o755)
    closed = tmp_path / "closed"
    closed.mkdir()
    closed.chmod(0o555)
    (error,) = forked.run(without_rights, 1, tmp_path, place=str(closed))
    assert error == f"`{closed}/saved` cannot be written: `{closed}` is not writable"
    assert "\n" not in error
    assert list(closed.iterdir()) == []


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """A small file system of its own, where that may be made."""
    small = tmp_path / "small"
    small.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", str(small)]
    if subprocess.run(mount, check=False, capture_output=True).returncode != 0:
        pytest.skip("no file system can be mounted here")
    try:
        yield small
    finally:
        subprocess.run(["umount", small], check=True)


def save_while_it_fills(saver: ucp.Saver, small: Path) -> str:
    """The error; none if the writer had written all when it was stopped."""
    saving = saver.save(small / "saved")
    stop_while_it_writes(small)
    # Closing a file with a buffer would write what has no room, and fail again.
    with suppress(OSError), (small / "other").open("wb", buffering=0) as file:
        while True:
            file.write(b"." * (1 << 20))
    os.kill(worker_of(supervisor_of(os.getpid())), signal.SIGCONT)
    try:
        saving.result()
    except ucp.Error as error:
        return str(error)
    shutil.rmtree(small / "saved")
    (small / "other").unlink()
    return ""


def test_a_full_disk(small: Path, tmp_path: Path) -> None:
    """Full before the save, which is seen before anything is written, and full in the middle."""
    with ucp.Saver({"weight": torch.ones(16 * MIB)}, threads=1, nice=19, timeout=10) as saver:
        (small / "other").write_bytes(b"." * (12 << 20))
        with pytest.raises(ucp.Error, match=r"needs 16.8 MB \(.* has .* free$"):
            saver.save(small / "saved").result()
        assert [path.name for path in small.iterdir()] == ["other"]
        (small / "other").unlink()
        error = next(filter(None, (save_while_it_fills(saver, small) for _ in range(30))), "")
        assert "no space left on device" in error
        assert "\n" not in error
        assert [path.name for path in small.iterdir()] == ["other"]
        saver.save(tmp_path / "next").result()
    assert bool((read_flat(tmp_path / "next")["weight"] == 1).all())


def test_files_that_may_not_be_so_large(tmp_path: Path) -> None:
    """The limit of a job's files, as the shell's ulimit sets it."""
    with ucp.Saver({"weight": torch.ones(16 * MIB)}, timeout=10) as saver:
        worker = worker_of(supervisor_of(os.getpid()))
        resource.prlimit(worker, resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))
        with pytest.raises(ucp.Error, match="file too large"):
            saver.save(tmp_path / "saved").result()
        assert list(tmp_path.iterdir()) == []


def test_views_are_saved_as_they_look(tmp_path: Path) -> None:
    """Tensors that share memory, with any strides."""
    row = torch.arange(24.0)
    views = {
        "row": row, "begin": row[:15], "end": row[9:], "turned": row.view(4, 6).t(), "each_third": row[::3],
        "box": row.view(4, 6)[1:3, 2:5], "one": torch.tensor(3.0).expand(4, 5), "none": row[:0], "point": row[3],
        "real": torch.view_as_real(row.view(4, 6).to(torch.complex64)),
    }  # fmt: skip
    ucp.save(views, tmp_path / "saved")
    found = read_flat(tmp_path / "saved")
    assert found.keys() == views.keys()
    assert all(torch.equal(found[name], view) for name, view in views.items())


def test_a_saver_that_failed_leaves_no_process() -> None:
    """Not even one that has ended."""
    before = set(children_of(os.getpid()))
    assert error_of(lambda: ucp.Saver(WEIGHT, to="dpc"))
    wait_until(lambda: set(children_of(os.getpid())) <= before)
