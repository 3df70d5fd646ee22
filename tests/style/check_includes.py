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
INFER = "compiler/infer"
PLAN = "compiler/plan"
PLANNER = "compiler/planner"
TRIAL = "compiler/trial"
COMPILER_DRIVER = "compiler/driver"
IO = "runtime/io"
PYTORCH = "runtime/formats/pytorch"
FORMATS = "runtime/formats"
DEEPSPEED = "runtime/formats/deepspeed"
DEEPSPEED_READ = "runtime/formats/deepspeed/read"
DEEPSPEED_WRITE = "runtime/formats/deepspeed/write"
SAFETENSORS = "runtime/formats/safetensors"
UNIVERSAL = "runtime/formats/universal"
COMM = "runtime/comm"
DIGEST = "runtime/digest"
EXECUTOR = "runtime/executor"
GPU = "runtime/gpu"
LOAD = "runtime/load"
EXCHANGE = "runtime/exchange"
MANIFEST = "runtime/manifest"
REPORT = "runtime/report"
DIFFERENCE = "runtime/difference"
TRACE = "runtime/trace"
SYNTH = "runtime/synth"
RUNTIME_DRIVER = "runtime/driver"
PYTHON = "runtime/python"
LIBRARY = "runtime/library"
LIBRARY_HEADERS = "runtime/library/include/ucp"

# In the order of the data. A row names what the folder looks at, besides itself.
ALLOWED: dict[str, set[str]] = {
    SUPPORT: set(),
    SOURCE: {SUPPORT},
    DIAGNOSTICS: {SOURCE, SUPPORT},
    AST: {SOURCE, SUPPORT},
    PARSE: {AST, DIAGNOSTICS, SOURCE, SUPPORT},
    PRETTY: {AST, SOURCE, SUPPORT},
    LAYOUT: {SUPPORT},
    CHECK: {AST, LAYOUT, DIAGNOSTICS, SOURCE, SUPPORT},
    INFER: {LAYOUT, SUPPORT},
    PLAN: {LAYOUT, SUPPORT},
    PLANNER: {PLAN, LAYOUT, DIAGNOSTICS, SUPPORT},
    TRIAL: {CHECK, PLANNER, PLAN, LAYOUT, DIAGNOSTICS, SUPPORT},
    COMPILER_DRIVER: {
        TRIAL, CHECK, INFER, PARSE, PRETTY, AST, LAYOUT, PLAN, PLANNER, DIAGNOSTICS, SOURCE, SUPPORT, FORMATS, IO,
    },
    IO: {SUPPORT},
    PYTORCH: {IO, LAYOUT, SUPPORT},
    FORMATS: {PYTORCH, IO, LAYOUT, SUPPORT},
    # Formats do not look at each other.
    DEEPSPEED: {FORMATS, PYTORCH, IO, LAYOUT, SUPPORT},
    DEEPSPEED_READ: {DEEPSPEED, FORMATS, PYTORCH, IO, LAYOUT, SUPPORT},
    DEEPSPEED_WRITE: {DEEPSPEED, FORMATS, PYTORCH, IO, LAYOUT, SUPPORT},
    SAFETENSORS: {FORMATS, PYTORCH, IO, LAYOUT, SUPPORT},
    UNIVERSAL: {FORMATS, PYTORCH, IO, LAYOUT, SUPPORT},
    COMM: {SUPPORT},
    DIGEST: {PLAN, LAYOUT, SUPPORT},
    EXECUTOR: {COMM, DIGEST, IO, PLAN, LAYOUT, SUPPORT},
    GPU: {COMM, SUPPORT},
    MANIFEST: {DIGEST, EXECUTOR, IO, PLAN, LAYOUT, SUPPORT},
    LOAD: {
        COMM, EXECUTOR, GPU, MANIFEST, FORMATS, PYTORCH, SAFETENSORS, IO,
        COMPILER_DRIVER, PLANNER, PLAN, LAYOUT, SUPPORT,
    },
    EXCHANGE: {COMM, EXECUTOR, IO, LAYOUT, SUPPORT},
    REPORT: {IO, SUPPORT},
    DIFFERENCE: {EXECUTOR, IO, PLAN, LAYOUT, SUPPORT},
    SYNTH: {EXECUTOR, IO, PLAN, LAYOUT, SUPPORT},
    TRACE: {EXECUTOR, IO, PLAN, LAYOUT, SUPPORT},
    RUNTIME_DRIVER: {
        COMM, DIFFERENCE, EXCHANGE, LOAD, REPORT, SYNTH, TRACE, MANIFEST, EXECUTOR, FORMATS, GPU, IO,
        COMPILER_DRIVER, PLANNER, PLAN, LAYOUT, SUPPORT,
    },
    PYTHON: {RUNTIME_DRIVER, LOAD, COMM, GPU, IO, COMPILER_DRIVER, PLAN, LAYOUT, SUPPORT},
    LIBRARY_HEADERS: set(),
    LIBRARY: {LIBRARY_HEADERS, RUNTIME_DRIVER, LOAD, COMM, IO, COMPILER_DRIVER, PLAN, LAYOUT, SUPPORT},
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
    "hwy/": {DIGEST, EXECUTOR},
    "zlib": {SUPPORT},
    "mpi.h": {COMM, LIBRARY_HEADERS},
    "nccl.h": {COMM},
    "cuda": {COMM, GPU},
    "nanobind/": {PYTHON},
    "CLI/": {COMPILER_DRIVER, RUNTIME_DRIVER},
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
