"""check_includes.py ROOT: fails on an include that the architecture does not allow (docs/architecture.md).

A folder may include its own headers and those of the folders in its row. Headers of some third-party libraries stay
inside few folders, because they are slow to compile or because the library is an implementation detail.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

SUPPORT = "compiler/support"
FILES = "compiler/files"
SOURCE = "compiler/source"
DIAGNOSTICS = "compiler/diagnostics"
AST = "compiler/ast"
PARSE = "compiler/parse"
PRETTY = "compiler/pretty"
SETS = "compiler/sets"
LAYOUT = "compiler/layout"
SPEC = "compiler/spec"
CHECK = "compiler/check"
BIND_VALUES = "compiler/bind/values"
BIND_LOWER = "compiler/bind/lower"
BIND_SOLVE = "compiler/bind/solve"
BIND = "compiler/bind"
INFER = "compiler/infer"
PLAN = "compiler/plan"
VERIFIER = "compiler/verifier"
PLANNER = "compiler/planner"
TRIAL = "compiler/trial"
FORMATS = "compiler/formats"
PYTORCH_VALUES = "compiler/formats/pytorch/values"
PYTORCH_PICKLE = "compiler/formats/pytorch/pickle"
PYTORCH_ARCHIVE = "compiler/formats/pytorch/archive"
OBJECTS = "compiler/formats/objects"
RECOGNISE = "compiler/formats/recognise"
SAFETENSORS = "compiler/formats/safetensors"
DCP = "compiler/formats/dcp"
DCP_TREE = "compiler/formats/dcp/tree"
DCP_WRITE = "compiler/formats/dcp/write"
DCP_ENTRIES = "compiler/formats/dcp/entries"
DCP_TORCH_CHECKPOINTING = "compiler/formats/dcp/torch_checkpointing"
MEGATRON = "compiler/formats/megatron"
MEGATRON_RULES = "compiler/formats/megatron/rules"
MEGATRON_RANKS = "compiler/formats/megatron/ranks"
MEGATRON_WRITE = "compiler/formats/megatron/write"
DEEPSPEED_COMMON = "compiler/formats/deepspeed/common"
DEEPSPEED = "compiler/formats/deepspeed/native"
DEEPSPEED_READ = "compiler/formats/deepspeed/native/read"
DEEPSPEED_READ_RANKS = "compiler/formats/deepspeed/native/read/ranks"
DEEPSPEED_READ_OPTIMIZER = "compiler/formats/deepspeed/native/read/optimizer"
DEEPSPEED_WRITE = "compiler/formats/deepspeed/native/write"
DEEPSPEED_WRITE_JOB = "compiler/formats/deepspeed/native/write/job"
UNIVERSAL = "compiler/formats/deepspeed/universal"
OPEN = "compiler/open"
CATALOGUE = "compiler/catalogue"
DESCRIBE = "compiler/describe"
COMPILE = "compiler/compile"
STRATEGIES = "compiler/strategies"
SYNTHETIC = "compiler/synthetic"
PAGE = "compiler/page"
EXPLAIN = "compiler/explain"
COMMAND_LINE = "compiler/command_line"
COMPILER_DRIVER = "compiler/driver"
WIRE = "runtime/wire"
STORAGE = "runtime/storage"
COMMIT = "runtime/commit"
COMM = "runtime/comm"
DIGEST = "runtime/digest"
ELEMENTS = "runtime/elements"
ENGINE = "runtime/engine"
EXECUTOR = "runtime/executor"
GPU = "runtime/gpu"
SHARED_HEADERS = "runtime/shared_headers"
JOB_TENSORS = "runtime/job_tensors"
LOAD_PLAN = "runtime/load_plan"
LOAD = "runtime/load"
PEER_FILES = "runtime/peer_files"
MANIFEST = "runtime/manifest"
DIFFERENCE = "runtime/difference"
TRACE = "runtime/trace"
SYNTH = "runtime/synth"
INSPECT = "runtime/inspect"
SAVED_STATE = "runtime/saved_state"
PLAN_FILE = "runtime/plan_file"
RESOURCES = "runtime/resources"
DESTINATION = "runtime/destination"
CONVERT = "runtime/convert"
SAME_STATES = "runtime/same_states"
JOBS = "runtime/jobs"
JOBS_CONVERT = "runtime/jobs/convert"
JOBS_DIFF = "runtime/jobs/diff"
JOBS_VERIFY = "runtime/jobs/verify"
JOBS_SAVE = "runtime/jobs/save"
JOB_STATE = "runtime/job_state"
SAVE_RUN = "runtime/save_run"
SAVE = "runtime/save"
MEMORY_TIER = "runtime/memory_tier"
HEALING = "runtime/healing"
TRANSITIONS = "runtime/transitions"
COORDINATOR = "runtime/coordinator"
RUN_COMMAND_LINE = "runtime/command_line"
RUNTIME_DRIVER = "runtime/driver"
DRIVER_MEMORY = "runtime/driver/memory"
DRIVER_HEALING = "runtime/driver/healing"
PYTHON = "runtime/python"
LIBRARY = "runtime/library"
LIBRARY_SAVE = "runtime/library/save"
LIBRARY_HEADERS = "runtime/library/include/ucp"

# In the order of the data. A row names what the folder looks at, besides itself.
ALLOWED: dict[str, set[str]] = {
    SUPPORT: set(),
    FILES: {SUPPORT},
    SOURCE: {SUPPORT},
    DIAGNOSTICS: {SOURCE, SUPPORT},
    AST: {SOURCE},
    PARSE: {AST, DIAGNOSTICS, SOURCE, SUPPORT},
    PRETTY: {AST, SOURCE},
    SETS: {SUPPORT},
    LAYOUT: {SETS, SUPPORT},
    SPEC: {AST, LAYOUT, SOURCE, SUPPORT},
    CHECK: {SPEC, AST, LAYOUT, DIAGNOSTICS, SOURCE, SUPPORT},
    BIND_VALUES: {SPEC, LAYOUT, DIAGNOSTICS, SUPPORT},
    BIND_LOWER: {BIND_VALUES, SPEC, LAYOUT, DIAGNOSTICS, SUPPORT},
    BIND_SOLVE: {BIND_LOWER, BIND_VALUES, SPEC, LAYOUT, DIAGNOSTICS, SUPPORT},
    BIND: {BIND_SOLVE, BIND_LOWER, BIND_VALUES, SPEC, LAYOUT, SETS, DIAGNOSTICS, SUPPORT},
    INFER: {LAYOUT, SUPPORT},
    PYTORCH_VALUES: {LAYOUT, SUPPORT},
    PYTORCH_PICKLE: {PYTORCH_VALUES, SUPPORT},
    PYTORCH_ARCHIVE: {PYTORCH_PICKLE, PYTORCH_VALUES, FILES, LAYOUT, SUPPORT},
    OBJECTS: {PYTORCH_ARCHIVE, PYTORCH_PICKLE, PYTORCH_VALUES, FILES, SUPPORT},
    FORMATS: {OBJECTS, PYTORCH_ARCHIVE, PYTORCH_VALUES, FILES, LAYOUT, SUPPORT},
    RECOGNISE: {FORMATS, FILES, LAYOUT, SUPPORT},
    # Formats do not look at each other; those of a family share its common folder.
    SAFETENSORS: {FORMATS, PYTORCH_VALUES, FILES, LAYOUT, SETS, SUPPORT},
    DCP_TREE: {SUPPORT},
    DCP_WRITE: {FORMATS, PYTORCH_VALUES, LAYOUT, SETS, SUPPORT},
    DCP_ENTRIES: {DCP_WRITE, FORMATS, PYTORCH_VALUES, LAYOUT, SETS, SUPPORT},
    DCP_TORCH_CHECKPOINTING: {DCP_ENTRIES, DCP_TREE, FORMATS, PYTORCH_ARCHIVE, PYTORCH_VALUES, FILES, LAYOUT, SUPPORT},
    DCP: {
        DCP_TORCH_CHECKPOINTING, DCP_ENTRIES, DCP_TREE, DCP_WRITE, FORMATS, PYTORCH_ARCHIVE, PYTORCH_VALUES, FILES,
        SUPPORT,
    },
    # Megatron Core stores its tensors in dcp's container, which is read by dcp's code.
    MEGATRON_RULES: {DCP_ENTRIES, FORMATS, PYTORCH_VALUES, LAYOUT, SUPPORT},
    MEGATRON_RANKS: {MEGATRON_RULES, DCP_ENTRIES, FORMATS, PYTORCH_ARCHIVE, PYTORCH_VALUES, FILES, LAYOUT, SUPPORT},
    MEGATRON_WRITE: {MEGATRON_RULES, DCP, DCP_ENTRIES, DCP_WRITE, FORMATS, PYTORCH_VALUES, LAYOUT, SUPPORT},
    MEGATRON: {MEGATRON_RULES, DCP, DCP_ENTRIES, FORMATS, PYTORCH_VALUES, FILES, LAYOUT, SETS, SUPPORT},
    DEEPSPEED_COMMON: {FORMATS, PYTORCH_VALUES, FILES, LAYOUT, SUPPORT},
    DEEPSPEED: {DEEPSPEED_COMMON, FORMATS, PYTORCH_ARCHIVE, SUPPORT},
    DEEPSPEED_READ_RANKS: {DEEPSPEED_COMMON, FORMATS, PYTORCH_VALUES, SUPPORT},
    DEEPSPEED_READ_OPTIMIZER: {DEEPSPEED_READ_RANKS, DEEPSPEED_COMMON, FORMATS, PYTORCH_VALUES, SUPPORT},
    DEEPSPEED_READ: {
        DEEPSPEED_READ_OPTIMIZER, DEEPSPEED_READ_RANKS, DEEPSPEED_COMMON, FORMATS, PYTORCH_VALUES, FILES, LAYOUT,
        SUPPORT,
    },
    DEEPSPEED_WRITE_JOB: {DEEPSPEED_COMMON, FORMATS, PYTORCH_VALUES, LAYOUT, SUPPORT},
    DEEPSPEED_WRITE: {DEEPSPEED_WRITE_JOB, DEEPSPEED_COMMON, FORMATS, PYTORCH_VALUES, LAYOUT, SUPPORT},
    UNIVERSAL: {DEEPSPEED_COMMON, FORMATS, PYTORCH_ARCHIVE, PYTORCH_VALUES, LAYOUT, SUPPORT},
    PLAN: {LAYOUT, SETS, SUPPORT},
    VERIFIER: {PLAN, LAYOUT, SETS, SUPPORT},
    PLANNER: {VERIFIER, PLAN, LAYOUT, SETS, SUPPORT},
    TRIAL: {BIND, BIND_SOLVE, BIND_VALUES, SPEC, PLANNER, PLAN, LAYOUT, SUPPORT},
    OPEN: {CHECK, SPEC, PARSE, AST, PLAN, FORMATS, DIAGNOSTICS, SOURCE, SUPPORT},
    CATALOGUE: {OPEN, BIND, SPEC, PLAN, FORMATS, FILES, LAYOUT, SUPPORT},
    DESCRIBE: {CATALOGUE, OPEN, BIND, INFER, PLAN, RECOGNISE, FORMATS, LAYOUT, SUPPORT},
    COMPILE: {DESCRIBE, CATALOGUE, PLANNER, VERIFIER, PLAN, FORMATS, FILES, LAYOUT, SUPPORT},
    STRATEGIES: {COMPILE, DESCRIBE, OPEN, DIAGNOSTICS, FORMATS, FILES, LAYOUT, SUPPORT},
    SYNTHETIC: {COMPILE, DESCRIBE, CATALOGUE, BIND, FORMATS, FILES, LAYOUT, SUPPORT},
    PAGE: {LAYOUT, SUPPORT},
    EXPLAIN: {PAGE, BIND, LAYOUT, SUPPORT},
    COMMAND_LINE: {COMPILE, DESCRIBE, CATALOGUE, OPEN, FORMATS, FILES, DIAGNOSTICS, SUPPORT},
    COMPILER_DRIVER: {
        COMMAND_LINE, EXPLAIN, PAGE, STRATEGIES, SYNTHETIC, COMPILE, DESCRIBE, CATALOGUE, OPEN, TRIAL, BIND, INFER,
        CHECK, PARSE, PRETTY, AST, VERIFIER, PLAN, FORMATS, FILES, LAYOUT, DIAGNOSTICS, SUPPORT,
    },
    WIRE: set(),
    STORAGE: {FILES, SUPPORT},
    COMMIT: {STORAGE, FILES, SUPPORT},
    COMM: {FILES, SUPPORT},
    DIGEST: {WIRE, PLAN, SETS, SUPPORT},
    ELEMENTS: {PLAN, LAYOUT, SUPPORT},
    ENGINE: {ELEMENTS, COMM, DIGEST, WIRE, STORAGE, FILES, PLAN, LAYOUT, SUPPORT},
    EXECUTOR: {ENGINE, COMM, DIGEST, WIRE, STORAGE, FILES, PLAN, LAYOUT, SUPPORT},
    GPU: {COMM, SUPPORT},
    MANIFEST: {DIGEST, EXECUTOR, ENGINE, RECOGNISE, FORMATS, FILES, PLAN, SUPPORT},
    SHARED_HEADERS: {COMM, WIRE, FORMATS, FILES, SUPPORT},
    JOB_TENSORS: {COMPILE, DESCRIBE, PLANNER, PLAN, LAYOUT, WIRE, SUPPORT},
    LOAD_PLAN: {JOB_TENSORS, SHARED_HEADERS, COMPILE, PLAN, ENGINE, COMM, MANIFEST, WIRE, SUPPORT},
    LOAD: {LOAD_PLAN, ENGINE, COMM, GPU, WIRE, STORAGE, PLAN, SUPPORT},
    PEER_FILES: {COMM, ENGINE, MANIFEST, WIRE, FILES, SUPPORT},
    RESOURCES: {PEER_FILES, EXECUTOR, ENGINE, STORAGE, PLAN, SUPPORT},
    DESTINATION: {PEER_FILES, EXECUTOR, ENGINE, COMMIT, COMM, MANIFEST, WIRE, PLAN, SUPPORT},
    PLAN_FILE: {OBJECTS, PYTORCH_PICKLE, VERIFIER, PLAN, FILES, LAYOUT, SUPPORT},
    DIFFERENCE: {COMM, ELEMENTS, ENGINE, EXECUTOR, WIRE, FILES, PLAN, LAYOUT, SUPPORT},
    TRACE: {ELEMENTS, FILES, PLAN, SETS, SUPPORT},
    INSPECT: {MANIFEST, FORMATS, OBJECTS, PYTORCH_VALUES, FILES, CATALOGUE, DESCRIBE, PLAN, SUPPORT},
    SAVED_STATE: {MANIFEST, FORMATS, PYTORCH_VALUES, FILES, DESCRIBE, PLANNER, LAYOUT, SUPPORT},
    JOB_STATE: {DCP_ENTRIES, DCP_WRITE, FORMATS, PYTORCH_ARCHIVE, PYTORCH_VALUES, WIRE, FILES, LAYOUT, SUPPORT},
    CONVERT: {DESTINATION, RESOURCES, PEER_FILES, EXECUTOR, ENGINE, COMM, STORAGE, PLAN, SUPPORT},
    SAME_STATES: {DIFFERENCE, RESOURCES, PEER_FILES, EXECUTOR, ENGINE, ELEMENTS, MANIFEST, COMPILE, SUPPORT},
    SYNTH: {SAME_STATES, RESOURCES, EXECUTOR, ELEMENTS, WIRE, STORAGE, PLAN, LAYOUT, SUPPORT},
    JOBS: {EXECUTOR, OPEN},
    JOBS_CONVERT: {JOBS, CONVERT, ENGINE, STORAGE, COMPILE, DESCRIBE, PLAN, FILES, SUPPORT},
    JOBS_DIFF: {JOBS, SAME_STATES, DIFFERENCE, RESOURCES, ENGINE, MANIFEST, COMPILE, DESCRIBE, SUPPORT},
    JOBS_VERIFY: {JOBS, SAME_STATES, SYNTH, DESTINATION, PEER_FILES, MANIFEST, DESCRIBE, SUPPORT},
    JOBS_SAVE: {JOBS_CONVERT, CONVERT, ENGINE, JOB_STATE, COMPILE, DESCRIBE, PLAN, FILES, SUPPORT},
    SAVE_RUN: {JOBS_CONVERT, JOBS_SAVE, CONVERT, PEER_FILES, ENGINE, COMMIT, STORAGE, STRATEGIES, SUPPORT},
    SAVE: {DIGEST, SAVE_RUN, JOBS_SAVE, JOB_STATE, COMM, WIRE, STORAGE, FILES, SUPPORT},
    MEMORY_TIER: {SUPPORT},
    HEALING: {FILES, SUPPORT},
    TRANSITIONS: {HEALING, MEMORY_TIER, SYNTHETIC, COMPILE, DESCRIBE, PLAN, FILES, LAYOUT, SUPPORT},
    COORDINATOR: {HEALING, COMM, FILES, SUPPORT},
    RUN_COMMAND_LINE: {CONVERT, COMM, PEER_FILES, ENGINE, EXECUTOR, STORAGE, FILES, COMMAND_LINE, SUPPORT},
    RUNTIME_DRIVER: {
        RUN_COMMAND_LINE, JOBS_CONVERT, JOBS_DIFF, JOBS_VERIFY, INSPECT, PLAN_FILE, DESTINATION, RESOURCES, PEER_FILES,
        COMM, COORDINATOR, DIFFERENCE, LOAD, SAVE, SYNTH, TRACE, MANIFEST, ELEMENTS, ENGINE, EXECUTOR, GPU, WIRE,
        STORAGE, FILES, COMMAND_LINE, FORMATS, STRATEGIES, SYNTHETIC, COMPILE, DESCRIBE, CATALOGUE, OPEN, PAGE, PLAN,
        SUPPORT,
    },
    DRIVER_MEMORY: {RUNTIME_DRIVER, COMM, MANIFEST, MEMORY_TIER, STORAGE, COMMAND_LINE, FILES, SUPPORT},
    DRIVER_HEALING: {
        RUNTIME_DRIVER, RUN_COMMAND_LINE, COMM, COORDINATOR, TRANSITIONS, HEALING, COMMAND_LINE, FILES, SUPPORT,
    },
    PYTHON: {
        JOBS_CONVERT, JOBS_DIFF, JOBS_VERIFY, INSPECT, SAVED_STATE, SAVE, SAVE_RUN, LOAD, LOAD_PLAN, EXPLAIN,
        OBJECTS, PYTORCH_PICKLE, PYTORCH_VALUES, COMM, GPU, MANIFEST, MEMORY_TIER, STORAGE, STRATEGIES, COMPILE,
        DESCRIBE, OPEN, SUPPORT,
    },
    LIBRARY_HEADERS: set(),
    LIBRARY: {JOBS_CONVERT, JOBS_VERIFY, INSPECT, LOAD, LOAD_PLAN, COMM, DESCRIBE, OPEN, SUPPORT},
    LIBRARY_SAVE: {LIBRARY, SAVE, JOB_STATE, COMM, LAYOUT, SUPPORT},
}

# A row has at most so many others; the programs and the Python module put all of it together.
MOST_OTHERS = 9
LONG_ROWS = {COMPILER_DRIVER, RUNTIME_DRIVER, PYTHON}

# The file that lists the formats knows them all, and those of DeepSpeed and Megatron Core their sides.
ALLOWED_TO_FILE: dict[str, set[str]] = {
    "compiler/formats/format_list.cpp": {DCP, DEEPSPEED, MEGATRON, SAFETENSORS, UNIVERSAL},
    "compiler/formats/megatron/megatron.cpp": {DCP_WRITE, MEGATRON_RANKS, MEGATRON_WRITE},
    "compiler/formats/deepspeed/native/deepspeed.cpp": {DEEPSPEED_READ, DEEPSPEED_WRITE, DEEPSPEED_WRITE_JOB},
}

# Where headers of third-party libraries may be included: the beginning of the header's path, and the folders.
THIRD_PARTY: dict[str, set[str]] = {
    "antlr4": {PARSE},
    "UcpLexer": {PARSE},
    "UcpParser": {PARSE},
    "flatbuffers/": {PLAN},
    "plan_generated": {PLAN},
    "re2/": {INFER, DEEPSPEED_COMMON, DEEPSPEED_READ, UNIVERSAL},
    "libdeflate": {SUPPORT},
    "xxhash": {SUPPORT},
    "hwy/": {DIGEST, ELEMENTS},
    "zlib": {SUPPORT},
    "mpi.h": {COMM, LIBRARY_HEADERS},
    "nccl.h": {COMM},
    "openssl/": {COORDINATOR},
    "cuda": {COMM, GPU},
    "nanobind/": {PYTHON},
    "CLI/": {COMMAND_LINE, COMPILER_DRIVER, DRIVER_HEALING, DRIVER_MEMORY, RUN_COMMAND_LINE, RUNTIME_DRIVER},
}

INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]', re.MULTILINE)


def sources(root: Path) -> Iterator[Path]:
    """All sources of the two trees, as paths below the root."""
    for tree in ("compiler", "runtime"):
        for path in sorted((root / tree).rglob("*")):
            if path.suffix in (".h", ".cpp", ".cu", ".def"):
                yield path.relative_to(root)


def is_ours(header: str) -> bool:
    return header.startswith(("compiler/", "runtime/", "tests/"))


def wrong_include(source: Path, header: str) -> str | None:
    """Why `source` may not include `header`, or None."""
    folder = source.parent.as_posix()
    if folder not in ALLOWED:
        return f"{source}: the folder {folder} has no row in tests/style/check_includes.py"
    if is_ours(header):
        target = Path(header).parent.as_posix()
        allowed = ALLOWED[folder] | ALLOWED_TO_FILE.get(source.as_posix(), set()) | {folder}
        if target not in allowed:
            return f"{source}: includes {header}, but {folder} does not look at {target}"
        return None
    for prefix, folders in THIRD_PARTY.items():
        if header.startswith(prefix) and folder not in folders:
            return f"{source}: includes {header}, which stays inside {', '.join(sorted(folders))}"
    return None


def long_rows(rows: dict[str, set[str]]) -> Iterator[str]:
    for folder, others in rows.items():
        if len(others) > MOST_OTHERS and folder not in LONG_ROWS:
            yield f"{folder}: looks at {len(others)} other folders, and at most {MOST_OTHERS} are allowed; split it"


def problems(root: Path) -> Iterator[str]:
    yield from long_rows(ALLOWED)
    for source in sources(root):
        for header in INCLUDE.findall((root / source).read_text()):
            problem = wrong_include(source, header)
            if problem:
                yield problem


def main() -> int:
    found = list(problems(Path(sys.argv[1])))
    for problem in found:
        print(problem)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
