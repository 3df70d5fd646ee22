"""The check of an imported spec: at configurations that it was not lifted from, `ucp.convert` and transformers write
the same elements.

One has other sizes everywhere, and is converted in both directions. The others differ from it in one value alone, since
two rules that are equal at a few sizes by chance differ there.
"""

from __future__ import annotations

import json
import math
import re
import tempfile
from pathlib import Path
from typing import Any

import numpy

from ucp_checkpoint._failure import failure
from ucp_checkpoint._import_further import Change, changes
from ucp_checkpoint._import_model import SEEN, Imported
from ucp_checkpoint._import_models import Build, reason_of
from ucp_checkpoint._jobs import convert
from ucp_checkpoint._ucp import Error

OWN = ("io", "memory", "cancelled")  # Codes of failures that say nothing of a model.
MEMORY = "16GiB"  # A bound above what torch and transformers take in this process.

Tensors = dict[str, numpy.ndarray]


def checked(imported: Imported) -> str:
    """The text of the spec. Raises with the first tensor that differs."""
    from safetensors import SafetensorError

    try:
        return _compared(imported)
    except (OSError, SafetensorError) as error:
        place = tempfile.gettempdir()
        raise failure("io", f"the check cannot write to `{place}`: {reason_of(error)}; set TMPDIR") from error


def _compared(imported: Imported) -> str:
    with tempfile.TemporaryDirectory(prefix="ucp-import-") as place:
        check = _Check(imported, Path(place))
        for tied in (False, True) if imported.tied is not None else (False,):
            build = imported.build(SEEN, tied=tied)
            check.compare(build, build.config.to_dict(), "memory", "hub")
            check.compare(build, build.config.to_dict(), "hub", "memory")
        several = list(changes(imported))
        free = check.without_effect([change for change in several if not change.is_followed])
        fixed = [change.text() for change in several if change not in free and not check.follows(change)]
    return imported.text(fixed)


class _Different(Exception):
    """A conversion that gave something else than transformers."""


class _Check:
    """Conversions by the spec, each in a folder that is removed."""

    def __init__(self, imported: Imported, place: Path) -> None:
        self.imported = imported
        self.place = place
        self.spec = place / "imported.ucp"
        self.spec.write_text(imported.text([]))
        self.seen = imported.build(SEEN)

    def compare(self, build: Build, config: dict[str, Any], source: str, target: str) -> None:
        """Converts the numbered elements, and refuses the spec if they differ."""
        try:
            self._convert(build, config, source, target)
        except _Different as error:
            raise failure(
                "unsupported",
                f"the tensor `{error}` of `{self.imported.model.name}` is not as transformers converts it from "
                f"`{source}` to `{target}`, at sizes that no rule was taken from; write a spec by hand",
            ) from error
        except Error as error:
            if error.code in OWN:
                raise
            raise self._unfit("", error) from error

    def without_effect(self, several: list[Change]) -> list[Change]:
        """Those of the numbers that change nothing, neither with the first other value nor with the last one. Switches
        are left out, since one may hide the effect of another."""
        numbers = [change for change in several if not isinstance(change.value, bool)]
        last = self._without_effect(numbers, -1)
        return [change for change in self._without_effect(numbers, 0) if change in last]

    def _without_effect(self, several: list[Change], place: int) -> list[Change]:
        """Found in halves, since most of them are such."""
        values = {change.path: change.others[place] for change in several}
        try:
            if not several or _is_same(self.imported.built(self.imported.family.config(SEEN, values)), self.seen):
                return several
        except MemoryError:
            raise
        except Exception:  # Whatever transformers raises for values that do not go together.
            pass
        half = len(several) // 2
        halves = (several[:half], several[half:]) if half else ()
        return [change for part in halves for change in self._without_effect(part, place)]

    def follows(self, change: Change) -> bool:
        """Whether the spec holds where this value is another one. A spec that is silently wrong there is refused, and
        so is one that is to follow the value."""
        is_divided = False
        refused: Error | None = None
        for config, value in change.configs():
            try:
                build = self.imported.built(config)
            except MemoryError:
                raise
            except Exception:  # Whatever transformers raises for a value that goes with no other.
                continue
            if not change.is_followed and _is_same(build, self.seen):
                continue
            try:
                self._convert(build, change.written(config, value), "memory", "hub")
                return True
            except _Different as error:
                raise failure(
                    "unsupported",
                    f"the tensor `{error}` of `{self.imported.model.name}` is not as transformers converts it where "
                    f"`config.{change.name}` alone is {change.shown(value)}; write a spec by hand",
                ) from error
            except Error as error:
                if error.code in OWN:
                    raise
                if "[inexact-division]" in str(error):
                    is_divided = True
                    continue
                if change.is_linked:  # The spec is to refuse it alone, and has to hold where all are changed.
                    refused = error
                    continue
                if change.is_followed:
                    raise self._unfit(f" where `config.{change.name}` alone is {change.shown(value)}", error) from error
                return False
        return self._is_kept(change, refused, is_divided=is_divided)

    def _is_kept(self, change: Change, refused: Error | None, *, is_divided: bool) -> bool:
        """Where no conversion was compared."""
        if refused is not None and change.others != [None]:
            if change.is_followed:
                raise self._unfit(f" where `config.{change.name}` and its equals are others", refused) from refused
            return False
        if change.is_followed and refused is None:
            reason = "the spec does not divide its sizes evenly in any" if is_divided else "none can be built"
            raise failure(
                "unsupported",
                f"no small `{self.imported.model.name}` in which `config.{change.name}` alone is another can check its "
                f"rule, since {reason}; write a spec by hand",
            )
        return not is_divided

    def _unfit(self, where: str, error: Error) -> Error:
        reason = next((line for line in str(error).splitlines() if ": error: " in line), str(error).splitlines()[0])
        reason = re.sub(r"^.*?: error: | \[[\w-]+\]$", "", reason)
        return failure(
            "unsupported",
            f"`{self.imported.model.name}` does not fit the rules that were found of it{where}: "
            f"{reason}; write a spec by hand",
        )

    def _convert(self, build: Build, config: dict[str, Any], source: str, target: str) -> None:
        from safetensors.numpy import load_file, save_file

        sides = {"memory": build.memory, "hub": build.memory if self.imported.is_alike else build.hub}
        tensors = {name: numpy.array(codes, order="C") for name, codes in sides[source].items()}
        layouts = {"memory": "memory", "hub": "memory" if self.imported.is_alike else "hub"}
        to, sets = f"safetensors:layout={layouts[target]}", {"layout": layouts[source]}
        with tempfile.TemporaryDirectory(dir=self.place) as folder:
            given, out = Path(folder) / "given", Path(folder) / "out"
            given.mkdir()
            save_file(tensors, given / "model.safetensors")
            (given / "config.json").write_text(json.dumps(_finite(config), default=str, allow_nan=False))
            convert(given, out, to=to, spec=self.spec, sets=sets, memory=MEMORY)
            found = load_file(out / "model.safetensors")
        expected = build.hub if target == "hub" else build.memory
        for tensor in dict.fromkeys((*expected, *found)):
            if tensor not in found or tensor not in expected or not numpy.array_equal(found[tensor], expected[tensor]):
                raise _Different(tensor)


def _finite(value: Any) -> Any:
    """As JSON can have it. No size is infinite."""
    if isinstance(value, dict):
        return {key: _finite(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _is_same(one: Build, other: Build) -> bool:
    """Whether nothing of the tensors differs."""
    return (
        (one.shapes, one.ties, one.buffers) == (other.shapes, other.ties, other.buffers)
        and one.hub.keys() == other.hub.keys()
        and all(numpy.array_equal(codes, other.hub[name]) for name, codes in one.hub.items())
    )
