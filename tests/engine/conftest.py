"""The binaries, the converted folders and the engine, each made once for all tests."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
sys.path.insert(0, str(TESTS))

from acceptance_table import AcceptanceTable, cells_of  # noqa: E402
from fixtures.cases import CASES  # noqa: E402
from fixtures.serve import Conversion, EngineError, Engines  # noqa: E402

FIXTURES = TESTS / "fixtures"
SPECS = TESTS.parent / "specs"
SPEC_OF = {kind: SPECS / f"megatron_deepspeed_{kind}.ucp" for kind in ("gpt", "llama", "gpt_no_pipeline")}
# Of a model that is nobody's but the fixtures' own.
OWN_SPEC_OF = {model: FIXTURES / f"{model}.ucp" for model in ("mixture_tensor", "mixture_whole")}
# A native target of a Hugging Face model is cut by a spec; the fixtures have no `config.json` beside them.
LLAMA_SIZES = ["layers=2", "heads=8", "kv_heads=4", "ffn=26"]
LLAMA = ["--spec", SPECS / "llama.ucp", *(word for size in LLAMA_SIZES for word in ("--set", size))]

Convert = Callable[..., Path]
Run = Callable[..., str]
Ways = tuple[str, ...]  # The targets of conversions, one after the other.
Made = Callable[[str, Ways], Path]


TABLE = AcceptanceTable()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    """Of every test whose parameter says what resumes from what, the report says it too. It is made in the process that
    ran the test."""
    report = yield
    parameters = item.callspec.params.values() if hasattr(item, "callspec") else ()
    plan = next((value for value in parameters if hasattr(value, "form")), None)
    if plan is not None and (call.when == "call" or report.failed):
        report.user_properties.append(("cells", cells_of(plan)))
    return report


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Puts it into the acceptance table, in the process that gathers the reports of all."""
    said = dict(report.user_properties)
    if "cells" in said:
        TABLE.record(said["cells"], said.get("fault", "ok") if report.passed else "FAILED")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Prints the acceptance table, and writes it to the file that UCP_ACCEPTANCE_PAGE names."""
    if TABLE.runs:
        terminalreporter.section("which checkpoints the real engine resumes from as what")
        for line in TABLE.text():
            terminalreporter.write_line(line)
    if page := os.environ.get("UCP_ACCEPTANCE_PAGE"):
        TABLE.write(Path(page))


@pytest.fixture(scope="session")
def ucprun() -> Path:
    """The program under test; UCP_BIN names its folder."""
    folder = os.environ.get("UCP_BIN")
    if folder is None:
        pytest.fail("UCP_BIN is not set: the folder with ucpc and ucprun")
    return Path(folder) / "ucprun"


@pytest.fixture(scope="session")
def run(ucprun: Path) -> Run:
    """Runs `ucprun` with these arguments, which must succeed; returns what it prints."""

    def succeed(*arguments: str | Path) -> str:
        command = [str(ucprun), *map(str, arguments)]
        result = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert result.returncode == 0, f"{' '.join(command)}\n{result.stdout}{result.stderr}"
        return result.stdout

    return succeed


@pytest.fixture(scope="session")
def engines() -> Iterator[Engines]:
    """A process with DeepSpeed imported."""
    engines = Engines()
    yield engines
    engines.close()


@pytest.fixture(scope="session")
def convert(run: Run, tmp_path_factory: pytest.TempPathFactory) -> Convert:
    """Converts a fixture once per strategy and returns the output folder. Only tensor parallelism needs a spec."""
    done: dict[tuple[str, str], Path] = {}

    def converted(name: str, to: str = "universal", source: Path | None = None, further: Sequence[str] = ()) -> Path:
        if source is not None or further or (name, to) not in done:
            output = tmp_path_factory.mktemp("ours") / name
            spec = (SPEC_OF | OWN_SPEC_OF).get(CASES[name].model)
            arguments = ["--to", to, *(["--spec", spec] if spec else []), *further]
            if CASES[name].model == "autotp" and to.startswith("deepspeed"):
                arguments += LLAMA
            run("convert", source or FIXTURES / name / "checkpoint", output, *arguments)
            if source is not None or further:
                return output
            done[name, to] = output
        return done[name, to]

    return converted


@pytest.fixture(scope="module")
def made(run: Run, tmp_path_factory: pytest.TempPathFactory) -> Made:
    """The folder that conversions make of a fixture of Megatron Core, each made once."""
    done: dict[tuple[str, Ways], Path] = {}

    def folder_of(name: str, ways: Ways) -> Path:
        if (name, ways) not in done:
            source = folder_of(name, ways[:-1]) if len(ways) > 1 else FIXTURES / "megatron_core" / name / "checkpoint"
            output = tmp_path_factory.mktemp("ours") / name
            run("convert", source, output, "--to", ways[-1])
            done[name, ways] = output
        return done[name, ways]

    return folder_of


@pytest.fixture(scope="session")
def convert_with_deepspeed(engines: Engines, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path | str]:
    """DeepSpeed's own conversion of a fixture: the output folder, or the last line of its failure."""
    done: dict[str, Path | str] = {}

    def run(name: str) -> Path | str:
        if name not in done:
            root = tmp_path_factory.mktemp("theirs")
            checkpoint = FIXTURES / name / "checkpoint"
            tag = (checkpoint / "latest").read_text()
            inject = CASES[name].model not in SPEC_OF
            try:
                engines.ask(Conversion(checkpoint / tag, root / f"{tag}_universal", inject))
                done[name] = root
            except EngineError as failure:
                done[name] = str(failure).strip().splitlines()[-1]
                shutil.rmtree(root, ignore_errors=True)
        return done[name]

    return run
