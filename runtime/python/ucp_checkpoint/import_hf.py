"""`python -m ucp_checkpoint.import_hf MODEL_TYPE|DIR`: a spec of a model of the installed transformers, with its
layout in memory and the one of the hub.

The class is built small, on no device, at three sets of sizes; transformers itself converts numbered elements, and the
spec is what all three have in common. Then the spec converts others, and every element is compared.
docs/import.md says what is found and what is refused.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from ucp_checkpoint._drop_in import Options, absolute, sync
from ucp_checkpoint._failure import failure, printable
from ucp_checkpoint._import_check import checked
from ucp_checkpoint._import_model import Imported
from ucp_checkpoint._import_models import reason_of
from ucp_checkpoint._ucp import Error


def import_model(given: str) -> str:
    """The text of the spec, after its check."""
    return checked(Imported(given))


def _exists(out: Path) -> Error:
    return failure("usage", f"`{out}` exists; remove it, or name another file with -o")


def _expect_place(out: Path) -> None:
    """Before the work, which takes minutes."""
    if os.path.lexists(out):
        raise _exists(out)
    if not out.parent.is_dir():
        raise failure("usage", f"`{out}` cannot be written, since `{out.parent}` is not a folder; make it first")


def _put(text: str, out: Path) -> None:
    """Writes the whole file or none, and not over another."""
    try:
        with tempfile.TemporaryDirectory(prefix=f".{out.name}.ucp-", dir=out.parent) as place:
            made = Path(place) / out.name
            made.write_text(text)
            sync(made)
            os.link(made, out)
        sync(out.parent)
    except FileExistsError as error:
        raise _exists(out) from error
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise failure("io", f"`{out}` cannot be written: {reason}; name another file with -o") from error


def _show(text: str) -> None:
    """On standard output."""
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # For the rest, which Python writes at its end.
        reason = (error.strerror or str(error)).lower()
        raise failure("io", f"standard output cannot be written: {reason}; direct it elsewhere") from error


def options_of() -> Options:
    """A model, and where its spec goes."""
    parser = Options(
        prog="import_hf", description="Write a spec of a model of the installed transformers, in memory and on the hub."
    )
    parser.add_argument("model", metavar="MODEL_TYPE|DIR", help="a type, or a folder with a config.json")
    parser.add_argument("-o", dest="out", metavar="SPEC.ucp", help="the file to write (default: standard output)")
    return parser


def main(words: Sequence[str] | None = None) -> int:
    """The exit code of a command line."""
    parser = options_of()
    given = parser.parse_args(words)

    def work() -> None:
        out = absolute("-o", given.out) if given.out is not None else None
        if out is not None:
            _expect_place(out)
        try:
            text = import_model(given.model)
        except Error:
            raise
        except MemoryError as error:
            raise failure("memory", f"the model does not fit in memory: {reason_of(error)}; free memory") from error
        except Exception as error:  # A structure that the importer does not foresee.
            name = printable(given.model)
            raise failure(
                "unsupported", f"`{name}` is not understood: {reason_of(error)}; write a spec by hand"
            ) from error
        if out is None:
            _show(text)
            return
        _put(text, out)
        _show(f"wrote {out}\n")

    return parser.run(work)


if __name__ == "__main__":
    sys.exit(main())
