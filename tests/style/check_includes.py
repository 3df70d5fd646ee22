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
SOURCE = "compiler/source"
DIAGNOSTICS = "compiler/diagnostics"
AST = "compiler/ast"
PARSE = "compiler/parse"
PRETTY = "compiler/pretty"
LAYOUT = "compiler/layout"
CHECK = "compiler/check"
BIND = "compiler/bind"
INFER = "compiler/infer"
PLAN = "compiler/plan"
VERIFIER = "compiler/verifier"
PLANNER = "compiler/planner"
TRIAL = "compiler/trial"
PHASES = "compiler/phases"
EXPLAIN = "compiler/explain"
COMMAND_LINE = "compiler/command_line"
COMPILER_DRIVER = "compiler/driver"
IO = "runtime/io"
PYTORCH = "runtime/formats/pytorch"
OBJECTS = "runtime/formats/objects"
FORMATS = "runtime/formats"
DEEPSPEED = "runtime/formats/deepspeed"
DEEPSPEED_READ = "runtime/formats/deepspeed/read"
DEEPSPEED_WRITE = "runtime/formats/deepspeed/write"
SAFETENSORS = "runtime/formats/safetensors"
UNIVERSAL = "runtime/formats/universal"
COMM = "runtime/comm"
DIGEST = "runtime/digest"
ELEMENTS = "runtime/elements"
EXECUTOR = "runtime/executor"
GPU = "runtime/gpu"
LOAD = "runtime/load"
EXCHANGE = "runtime/exchange"
MANIFEST = "runtime/manifest"
REPORT = "runtime/report"
DIFFERENCE = "runtime/difference"
TRACE = "runtime/trace"
SYNTH = "runtime/synth"
INSPECT = "runtime/inspect"
CONVERT = "runtime/convert"
RUN_COMMAND_LINE = "runtime/command_line"
RUNTIME_DRIVER = "runtime/driver"
PYTHON = "runtime/python"
LIBRARY = "runtime/library"
LIBRARY_HEADERS = "runtime/library/include/ucp"

# In the order of the data. A row names what the folder looks at, besides itself.
ALLOWED: dict[str, set[str]] = {
    SUPPORT: set(),
    SOURCE: {SUPPORT},
    DIAGNOSTICS: {SOURCE, SUPPORT},
    AST: {SOURCE},
    PARSE: {AST, DIAGNOSTICS, SOURCE, SUPPORT},
    PRETTY: {AST, SOURCE},
    LAYOUT: {SUPPORT},
    CHECK: {AST, LAYOUT, DIAGNOSTICS, SOURCE, SUPPORT},
    BIND: {CHECK, LAYOUT, DIAGNOSTICS, SUPPORT},
    INFER: {LAYOUT, SUPPORT},
    PLAN: {LAYOUT, SUPPORT},
    VERIFIER: {PLAN, LAYOUT, SUPPORT},
    PLANNER: {VERIFIER, PLAN, LAYOUT, SUPPORT},
    TRIAL: {BIND, CHECK, PLANNER, PLAN, LAYOUT, SUPPORT},
    PHASES: {
        BIND, CHECK, INFER, PARSE, AST, PLANNER, VERIFIER, PLAN, LAYOUT, DIAGNOSTICS, SOURCE, SUPPORT, FORMATS, IO,
    },
    EXPLAIN: {BIND, LAYOUT, SUPPORT},
    COMMAND_LINE: {PHASES, DIAGNOSTICS, SUPPORT, FORMATS, IO},
    COMPILER_DRIVER: {
        COMMAND_LINE, EXPLAIN, PHASES, TRIAL, BIND, INFER, PARSE, PRETTY, AST, VERIFIER, PLAN, DIAGNOSTICS, SUPPORT,
        FORMATS, IO,
    },
    IO: {SUPPORT},
    PYTORCH: {IO, LAYOUT, SUPPORT},
    OBJECTS: {PYTORCH, IO, SUPPORT},
    FORMATS: {OBJECTS, PYTORCH, IO, LAYOUT, SUPPORT},
    # Formats do not look at each other.
    DEEPSPEED: {FORMATS, PYTORCH, IO, SUPPORT},
    DEEPSPEED_READ: {DEEPSPEED, FORMATS, PYTORCH, IO, LAYOUT, SUPPORT},
    DEEPSPEED_WRITE: {DEEPSPEED, FORMATS, PYTORCH, LAYOUT, SUPPORT},
    SAFETENSORS: {FORMATS, PYTORCH, LAYOUT, SUPPORT},
    UNIVERSAL: {FORMATS, PYTORCH, LAYOUT, SUPPORT},
    COMM: {SUPPORT},
    DIGEST: {PLAN, LAYOUT, SUPPORT},
    ELEMENTS: {PLAN, LAYOUT, SUPPORT},
    EXECUTOR: {ELEMENTS, COMM, DIGEST, IO, PLAN, LAYOUT, SUPPORT},
    GPU: {COMM, SUPPORT},
    MANIFEST: {DIGEST, EXECUTOR, IO, PLAN, SUPPORT},
    LOAD: {
        COMM, ELEMENTS, EXECUTOR, GPU, MANIFEST, PYTORCH, SAFETENSORS, IO,
        PHASES, PLANNER, VERIFIER, PLAN, LAYOUT, SUPPORT,
    },
    EXCHANGE: {COMM, EXECUTOR, IO, SUPPORT},
    REPORT: {IO, SUPPORT},
    DIFFERENCE: {COMM, ELEMENTS, EXECUTOR, IO, PLAN, LAYOUT, SUPPORT},
    SYNTH: {ELEMENTS, IO, PLAN, LAYOUT, SUPPORT},
    TRACE: {ELEMENTS, IO, PLAN, LAYOUT, SUPPORT},
    INSPECT: {MANIFEST, FORMATS, OBJECTS, PYTORCH, IO, PHASES, PLAN, SUPPORT},
    CONVERT: {
        COMM, EXCHANGE, EXECUTOR, MANIFEST, FORMATS, OBJECTS, PYTORCH, IO,
        VERIFIER, PLAN, LAYOUT, SUPPORT,
    },
    RUN_COMMAND_LINE: {CONVERT, COMM, EXCHANGE, EXECUTOR, REPORT, IO, COMMAND_LINE, SUPPORT},
    RUNTIME_DRIVER: {
        RUN_COMMAND_LINE, CONVERT, INSPECT, COMM, DIFFERENCE, EXCHANGE, LOAD, SYNTH, TRACE, MANIFEST, ELEMENTS,
        EXECUTOR, GPU, FORMATS, IO,
        COMMAND_LINE, PHASES, PLANNER, PLAN, LAYOUT, SUPPORT,
    },
    PYTHON: {INSPECT, LOAD, OBJECTS, PYTORCH, COMM, GPU, IO, PHASES, SUPPORT},
    LIBRARY_HEADERS: set(),
    LIBRARY: {LIBRARY_HEADERS, INSPECT, LOAD, COMM, PHASES, SUPPORT},
}

# The file that lists the formats knows them all, and that of DeepSpeed its two sides.
ALLOWED_TO_FILE: dict[str, set[str]] = {
    "runtime/formats/format.cpp": {DEEPSPEED, SAFETENSORS, UNIVERSAL},
    "runtime/formats/deepspeed/deepspeed.cpp": {DEEPSPEED_READ, DEEPSPEED_WRITE},
}

# Where headers of third-party libraries may be included: the beginning of the header's path, and the folders.
THIRD_PARTY: dict[str, set[str]] = {
    "antlr4": {PARSE},
    "UcpLexer": {PARSE},
    "UcpParser": {PARSE},
    "flatbuffers/": {PLAN},
    "plan_generated": {PLAN},
    "re2/": {INFER, DEEPSPEED, DEEPSPEED_READ, UNIVERSAL},
    "libdeflate": {SUPPORT},
    "xxhash": {SUPPORT},
    "hwy/": {DIGEST, ELEMENTS},
    "zlib": {SUPPORT},
    "mpi.h": {COMM, LIBRARY_HEADERS},
    "nccl.h": {COMM},
    "cuda": {COMM, GPU},
    "nanobind/": {PYTHON},
    "CLI/": {COMMAND_LINE, COMPILER_DRIVER, RUN_COMMAND_LINE, RUNTIME_DRIVER},
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


def problems(root: Path) -> Iterator[str]:
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
