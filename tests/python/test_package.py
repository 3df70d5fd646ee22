"""The package as a whole: what importing it costs, its stubs, its programs, and the wheel's description of it."""

from __future__ import annotations

import ast
import os
import re
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import ucp_checkpoint as ucp
import ucp_checkpoint._ucp

SOURCE = Path(__file__).parents[2]


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Another interpreter with the package."""
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True, timeout=60, check=False)


def test_importing_it_imports_no_framework_and_is_quick() -> None:
    """Below 100 ms of processor time beyond the interpreter's own start, the best of several."""
    best = {"pass": 9.0, "import ucp_checkpoint as ucp": 9.0}
    for _ in range(3):
        for statement in best:
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            run("-c", statement)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
            best[statement] = min(best[statement], spent)
    assert best["import ucp_checkpoint as ucp"] - best["pass"] < 0.1
    drop_ins = "ucp_checkpoint.ds_to_universal, ucp_checkpoint.transformers, ucp_checkpoint.accelerate"
    frameworks = "{'torch', 'numpy', 'transformers', 'accelerate'}"
    modules = run("-c", f"import sys, {drop_ins}; print(sorted({frameworks} & set(sys.modules)))")
    assert modules.stdout == "[]\n"


def test_a_module_called_ucp_is_another_one(tmp_path: Path) -> None:
    """RAPIDS' bindings of UCX have that name."""
    (tmp_path / "ucp").mkdir()
    (tmp_path / "ucp" / "__init__.py").write_text("whose = 'UCX'\n")
    statements = "import ucp, ucp_checkpoint as ours; print(ucp.whose, ours.inspect.__module__)"
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])}
    result = subprocess.run([sys.executable, "-c", statements], env=environment, capture_output=True, text=True,
                            timeout=60, check=False)  # fmt: skip
    assert result.stdout == "UCX ucp_checkpoint._inspect\n", result.stderr


def test_every_public_name_is_there() -> None:
    """Also those that are imported when they are asked for."""
    for name in ucp.__all__:
        assert getattr(ucp, name) is not None
        assert name in dir(ucp)
    for name in ("accelerate", "ds_to_universal", "lightning", "transformers", "zero_to_fp32"):
        assert getattr(ucp, name).__name__ == f"ucp_checkpoint.{name}"
    with pytest.raises(AttributeError, match="`ucp` has no `lode`"):
        _ = ucp.lode


def test_the_stubs_say_what_the_module_has() -> None:
    """Every public name of the extension module, and no other; so do the members of its classes."""
    stubs = ast.parse((SOURCE / "runtime" / "python" / "ucp_checkpoint" / "_ucp.pyi").read_text())
    named: dict[str, set[str]] = {}
    for statement in stubs.body:
        if isinstance(statement, ast.AnnAssign):
            if ast.unparse(statement.annotation) != "TypeAlias":
                named[statement.target.id] = set()
        elif isinstance(statement, ast.FunctionDef):
            named[statement.name] = set()
        elif isinstance(statement, ast.ClassDef):
            members = [part.target.id for part in statement.body if isinstance(part, ast.AnnAssign)]
            members += [part.name for part in statement.body if isinstance(part, ast.FunctionDef)]
            named[statement.name] = {member for member in members if not member.startswith("_")}
    there = {name for name in vars(ucp._ucp) if not name.startswith("_")}
    assert set(named) == there
    for name, members in named.items():
        value = getattr(ucp._ucp, name)
        if isinstance(value, type):
            assert members == {member for member in vars(value) if not member.startswith("_")}, name


def plain(annotation: str) -> str:
    """A type without its module; what is a list in the stubs is any sequence on the way in, and any callable one."""
    annotation = re.sub(r"\b(ucp_checkpoint\._ucp|collections\.abc)\.", "", annotation).replace("list[", "Sequence[")
    return re.sub(r"\b(dict|Callable)\[.*\]", r"\1", annotation)


def types_of(function: ast.FunctionDef) -> list[str]:
    """Of its arguments but `self`, and of what it returns."""
    arguments = [*function.args.posonlyargs, *function.args.args]
    annotations = [argument.annotation for argument in arguments if argument.arg != "self"]
    return [plain(ast.unparse(annotation)) for annotation in [*annotations, function.returns] if annotation]


def types_in_the_module(function: Any) -> list[str]:
    """As nanobind knows them; a property has no name there, and default values are numbered."""
    ((signature, *_),) = function.__nb_signature__
    signature = re.sub(r"= \\\d+", "= ...", signature.replace("def (", "def f("))
    (statement,) = ast.parse(signature + ": ...").body
    assert isinstance(statement, ast.FunctionDef)
    return types_of(statement)


def test_the_stubs_have_the_modules_types() -> None:
    """Of every function, method and property, and of its setter."""
    text = (SOURCE / "runtime" / "python" / "ucp_checkpoint" / "_ucp.pyi").read_text()
    aliases = {
        statement.target.id: ast.unparse(statement.value)
        for statement in ast.parse(text).body
        if isinstance(statement, ast.AnnAssign) and ast.unparse(statement.annotation) == "TypeAlias"
    }
    assert aliases
    for alias, meant in aliases.items():
        text = re.sub(rf"\b{alias}\b(?!: TypeAlias)", meant, text)
    compared = 0

    def compare(stub: ast.FunctionDef, owner: Any) -> None:
        nonlocal compared
        decorators = [ast.unparse(decorator) for decorator in stub.decorator_list]
        value = vars(owner)[stub.name]
        if decorators and decorators != ["staticmethod"]:
            value = value.fset if decorators[0].endswith(".setter") else value.fget
        known = types_in_the_module(value)
        # A tuple that the module puts together by itself has no types of entries there.
        both = zip(types_of(stub), known, strict=True)
        said = [word.split("[")[0] if other == "tuple" else word for word, other in both]
        assert said == known, (owner, stub.name)
        compared += 1

    for statement in ast.parse(text).body:
        if isinstance(statement, ast.FunctionDef):
            compare(statement, ucp._ucp)
        elif isinstance(statement, ast.ClassDef):
            for part in statement.body:
                if isinstance(part, ast.FunctionDef):
                    compare(part, getattr(ucp._ucp, statement.name))
    assert compared > 30


def test_the_module_is_the_program(ucprun: Path, tmp_path: Path) -> None:
    """`python -m ucp_checkpoint` has the output and the exit code of `ucprun`."""
    for arguments in (["--version"], ["inspect", str(tmp_path / "missing")], ["inspekt"]):
        ours = run("-m", "ucp_checkpoint", *arguments)
        theirs = subprocess.run([ucprun, *arguments], capture_output=True, text=True, timeout=60, check=False)
        assert (ours.returncode, ours.stdout, ours.stderr) == (theirs.returncode, theirs.stdout, theirs.stderr)


def test_versions_agree() -> None:
    """Those of the package, of its description and of the build; and the build's tools are pinned alike twice."""
    description = (SOURCE / "pyproject.toml").read_text()
    assert f'version = "{ucp.__version__}"' in description
    assert f"project(ucp VERSION {ucp.__version__} " in (SOURCE / "CMakeLists.txt").read_text()
    (nanobind,) = re.findall(r"^nanobind==.*$", (SOURCE / "runtime/python/requirements.txt").read_text(), re.MULTILINE)
    assert f'"{nanobind}"' in description


def test_all_sources_are_in_the_build_tree() -> None:
    """A file that the build does not link there would be in a wheel, and untested."""
    package = Path(ucp.__file__).parent
    for path in (SOURCE / "runtime" / "python" / "ucp_checkpoint").rglob("*"):
        if path.suffix in (".py", ".pyi", ".typed"):
            assert os.path.samefile(path, package / path.relative_to(SOURCE / "runtime" / "python" / "ucp_checkpoint"))
