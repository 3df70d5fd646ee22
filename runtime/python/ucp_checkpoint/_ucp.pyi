"""The extension module: what needs C++."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

version: str

class Error(Exception):
    """What went wrong, in one sentence.

    `code` is its kind: "usage", "spec", "bad-data", "unsupported", "io", "memory" or "cancelled".
    """

    code: str

class OutOfMemory(Error, MemoryError):
    """There is not enough memory, on this rank or on another one; `code` is "memory"."""

class Source:
    """A source, with the programs' options for it."""

    @property
    def path(self) -> str: ...
    @path.setter
    def path(self, value: bytes) -> None: ...
    @property
    def spec(self) -> str: ...
    @spec.setter
    def spec(self, value: bytes) -> None: ...
    @property
    def config(self) -> str: ...
    @config.setter
    def config(self, value: bytes) -> None: ...
    set: list[str]
    unused: list[str]
    drop_states: list[str]
    prefer_rank: str
    def __init__(self) -> None: ...

def inspect(source: Source, tensor: str) -> str:
    """JSON, as `ucprun inspect --json` prints it."""

class Target:
    """The options of a target besides its strategy."""

    tag: str
    keep_opaque: list[str]
    @property
    def ds_config(self) -> str: ...
    @ds_config.setter
    def ds_config(self, value: bytes) -> None: ...
    def __init__(self) -> None: ...

def convert(
    source: Source,
    out: bytes,
    to: str,
    target: Target,
    verify: bool,
    force: bool,
    resume: bool,
    threads: int,
    memory_bytes: int,
    progress: object | None,
) -> str:
    """JSON, as `ucprun convert --json` prints it."""

def convert_together(
    ranks: Ranks,
    source: Source,
    folder: bytes,
    out: bytes,
    to: str,
    target: Target,
    force: bool,
    threads: int,
    memory_bytes: int,
) -> str:
    """By the lowest rank of each machine. `source.path` is the first one's folder, and `folder` this machine's. JSON on
    rank 0, nothing elsewhere. All ranks call it."""

def verify(
    source: Source,
    same: bytes,
    by_elements: bool,
    checksums: bool,
    threads: int,
    memory_bytes: int,
    progress: object | None,
) -> str:
    """JSON, as `ucprun verify --json` prints it."""

def diff(
    source: Source,
    other: bytes,
    tensor: str,
    read_all: bool,
    threads: int,
    memory_bytes: int,
    progress: object | None,
) -> str:
    """JSON, as `ucprun diff --json` prints it."""

def explain(source: Source, to: str, tensor: str) -> str:
    """JSON, as `ucpc explain --json` prints it."""

class Ranks:
    """The ranks of a job. `all_gather` takes this rank's bytes and returns those of all ranks, in order. `deliver`
    sends to some ranks, and fills memory with what some others send."""

    def __init__(
        self,
        rank: int,
        size: int,
        all_gather: Callable[[bytes], Sequence[bytes]],
        deliver: Callable[[list[tuple[int, memoryview]], list[tuple[int, memoryview]]], None],
        ask_to_stop: Callable[[], None],
    ) -> None: ...
    @property
    def rank(self) -> int: ...
    @property
    def size(self) -> int: ...
    @property
    def is_asked_to_stop(self) -> bool: ...
    def stop(self) -> None:
        """Another rank has asked to stop. From any thread."""

class Piece:
    """Local elements [begin, end) of a state, in a record from its element `place` on."""

    @property
    def record(self) -> int: ...
    @property
    def place(self) -> int: ...
    @property
    def begin(self) -> int: ...
    @property
    def end(self) -> int: ...

class State:
    """What a rank has of one state of a tensor; `shape` is that of the rank's local tensor."""

    @property
    def tensor(self) -> str: ...
    @property
    def state(self) -> str: ...
    @property
    def dtype(self) -> str: ...
    @property
    def item_bytes(self) -> int: ...
    @property
    def shape(self) -> list[int]: ...
    @property
    def coordinate(self) -> dict[str, int]: ...
    @property
    def pieces(self) -> list[Piece]:
        """By `begin`."""

class LoadPlan:
    """A load: a plan whose target files are memory."""

    @property
    def ranks(self) -> int:
        """Of the target's job; 0: any number."""
    @property
    def rank(self) -> int:
        """Which of them this process is, if it is one of several that load."""
    @property
    def remarks(self) -> list[str]: ...
    @property
    def left_out(self) -> list[dict[str, str]]:
        """Objects of the source that the target lacks: `file`, `path`, `object` and `calls` of each."""
    @property
    def source_folder(self) -> str: ...
    def files_of(self, rank: int) -> list[tuple[int, str, int]]:
        """(file, path, bytes) of each file that the rank opens."""
    def records_of(self, rank: int) -> list[tuple[int, int, int, int]]:
        """(record, file, begin in the file, bytes) of each record in these files."""
    def states_of(self, rank: int) -> list[State]: ...
    def blobs_of(self, file: int) -> list[tuple[int, bytes]]:
        """(offset, content) of all ready-made bytes of a file."""

def read_pickle(pickle: bytes, maker: object) -> object:
    """What a pickle holds, read as data. `maker` (`_objects.Maker`) makes what is neither a number nor a text
    nor a plain container. `ucp.Error` if an object is not a known one."""

class Description:
    """What a checkpoint holds besides the elements of its tensors."""

    @property
    def tensors(self) -> list[tuple[str, list[str], list[int], list[tuple[str, str]]]]:
        """(name, second names, shape, states with their dtypes) of each."""
    @property
    def groups(self) -> list[tuple[list[str], float | None]]:
        """(parameters, step) of each of the optimizer's."""
    @property
    def storages(self) -> list[bytes]:
        """Of the tensors in hyper-parameters and entries, by their keys."""
    @property
    def entries(self) -> list[tuple[str, bool]]:
        """(name, whether the module saved it) of what is neither the model's tensors nor the optimizer's."""
    @property
    def loose_states(self) -> list[str]:
        """Of the optimizer, which are not one number for each element."""
    @property
    def absent_optimizer(self) -> str:
        """Why there is none, or nothing."""
    def hyper_parameters(self, group: int, maker: object) -> object:
        """Of a group, made as by `read_pickle`."""
    def entry(self, entry: int, maker: object) -> object:
        """The same of an entry."""

def describe(source: Source, threads: int) -> Description:
    """Reads headers."""
    ...

class JobLoadPlan:
    """A load into tensors that ranks hold."""

    @property
    def load(self) -> LoadPlan: ...
    @property
    def records(self) -> list[int | None]:
        """For each tensor of this rank; nothing for one without elements."""
    @property
    def step(self) -> float | None:
        """The optimizer's, if all its groups count the same."""
    @property
    def not_loaded(self) -> dict[str, list[str]]: ...

# (tensor, state, dtype, whole shape, for each dimension the positions [begin, end) that the rank holds; None: all, and
# the second names of the tensor)
Held: TypeAlias = tuple[str, str, str, Sequence[int], list[list[tuple[int, int]]] | None, list[str]]

def compile_load(
    source: Source,
    to: str,
    target: Target,
    compare: bool,
    ranks: Ranks | None,
    opens: list[str],
    check: bool,
    threads: int,
) -> LoadPlan:
    """`opens`: names of files that this rank opens, where that decides which of the target's ranks it is. `check`:
    whether the source will be checked."""
    ...

def compile_held(
    source: Source,
    held: list[Held],
    all_tensors: bool,
    kept: list[str],
    compare: bool,
    ranks: Ranks | None,
    threads: int,
    parts: bool = ...,
    folder: bytes = ...,
    layout: str = ...,
) -> JobLoadPlan:
    """`parts`: the ranks together may hold a part of a tensor. `folder`: where this rank reads, if not where rank 0.
    `layout`: of the source's model, which the held tensors have."""
    ...

def load(
    plan: LoadPlan,
    memory: list[tuple[int, int, int]],
    threads: int,
    memory_bytes: int,
    check: bool,
    ranks: Ranks | None,
    devices: Mapping[int, str] = ...,
    device_memory_bytes: int = ...,
) -> dict[str, Any]:
    """Fills `memory`: (record, address, bytes), which the caller keeps alive.

    It is the host's, except for the records in `devices` ("cuda:0"). No work on these may be pending before; they are
    filled when this returns.
    """

# (key, path, dtype or None of a value, shape, [(offsets, sizes)])
HeldEntry: TypeAlias = tuple[
    str, Sequence[str | int], str | None, Sequence[int], Sequence[tuple[Sequence[int], Sequence[int]]]
]
# (address, bytes of an element, sizes, strides in elements); address 0: the caller stages it.
BoxMemory: TypeAlias = tuple[int, int, Sequence[int], Sequence[int]]
DeviceBox: TypeAlias = tuple[int, int, Sequence[int], Sequence[int], int]

# (this machine, its ranks, the lowest of them, addresses by machine, secret)
MachinesOfJob: TypeAlias = tuple[int, int, int, list[str], bytes]

class SaverSettings:
    """The settings of a Saver, the same on all ranks."""

    to: str
    source: Source
    target: Target
    threads: int
    memory_bytes: int
    keep: int
    timeout_seconds: float
    nice: int
    reads_memory: bool
    verifies_replicas: bool
    finishes_orphans: bool
    rooms: int
    staging_bytes: int
    part: int | None
    node_local: bool
    lock_file: bytes
    def __init__(self) -> None: ...

def name_of_this_machine() -> str:
    """Processes that have the same reach each other's memory; UCP_MACHINE is another one."""

def name_of_this_system() -> str:
    """Of the running system; two containers on it have the same."""

class MachineListener:
    """A socket at which other machines of the job connect."""

    address: str
    @staticmethod
    def open() -> MachineListener: ...

class SaveClient:
    """A rank's end of its job's saves."""

    @staticmethod
    def open(
        ranks: Ranks | None,
        program: bytes,
        settings: SaverSettings,
        state: Sequence[HeldEntry],
        memory: Sequence[Sequence[BoxMemory]],
        values: bytes,
        threads: int,
    ) -> SaveClient: ...
    @staticmethod
    def open_at(
        address: str,
        rank: int,
        ranks: int,
        machines: MachinesOfJob | None,
        listener: MachineListener | None,
        program: bytes,
        settings: SaverSettings,
        state: Sequence[HeldEntry],
        memory: Sequence[Sequence[BoxMemory]],
        values: bytes,
        problem: str,
    ) -> SaveClient: ...
    def begin(
        self,
        path: bytes,
        tag: str,
        force: bool,
        values: bytes,
        problem: str,
        state: Sequence[HeldEntry] | None,
        memory: Sequence[Sequence[BoxMemory]] | None,
    ) -> int: ...
    def wait(self, number: int, step: int, seconds: float) -> bool: ...
    def wait_for_wave(self, number: int, wave: int, seconds: float) -> bool: ...
    def report(self, number: int) -> str: ...
    def finish_staging(self, number: int, problem: str = "") -> None: ...
    def layout(self) -> tuple[list[tuple[int, int, int, int, int]], list[int], int, str, bool]:
        """Boxes to stage (entry, box, offset, bytes, wave), entries with values, the number of waves, the plan, and
        whether the ranks together hold all of every tensor."""

    def segment(self) -> tuple[int, int]:
        """Its address and size."""

    def close(self) -> None: ...
    def close_and_wait(self) -> None: ...

class DeviceStaging:
    """The way from one device to the segment of a client."""

    def __init__(self, device: str, pins: bool, threads: int) -> None:
        """`pins`: the segment, so that bytes come there straight; else by way of a little pinned memory."""

    def prepare(self, client: SaveClient) -> None:
        """Takes memory for the segment of this time, and pins it. Does nothing if that is done."""

    def stage(self, client: SaveClient, boxes: Sequence[DeviceBox], share: float) -> list[int]:
        """Copies the boxes. Returns the numbers of those that it cannot, whose strides are too irregular."""

def keepers(machines: int, copies: int, domains: list[str]) -> list[list[int]]:
    """By machine: those that keep its state, itself first."""
    ...

def check_files(folder: bytes, threads: int) -> list[str]:
    """A sentence for each file of a checkpoint that is not what its manifest says."""
    ...
