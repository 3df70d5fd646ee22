"""`python -m ucp_checkpoint.ds_to_universal`: the command line of DeepSpeed's script of this name, by `ucp.convert`.

The folder of one tag becomes a universal folder under the name that is given, and `latest_universal` beside it names
that folder. docs/recipes.md says which option does what.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Any

from ucp_checkpoint import _arguments
from ucp_checkpoint._drop_in import Options, absolute, sync, work_folder
from ucp_checkpoint._failure import failure
from ucp_checkpoint._jobs import convert as convert_checkpoint

LATEST = "latest_universal"


def convert(
    input_folder: str | os.PathLike[str], output_folder: str | os.PathLike[str], **options: Any
) -> dict[str, Any]:
    """Converts a checkpoint into the universal folder `output_folder`, which appears complete, or not at all.

    `options` are those of `ucp.convert`. An existing folder must be empty. Returns what `ucprun convert --json` prints.
    """
    out = absolute("output_folder", output_folder)
    latest = out.parent / LATEST
    if os.path.lexists(out) and (not out.is_dir() or any(out.iterdir())):
        raise failure("usage", f"`{out}` exists; remove it, or name another folder as output_folder")
    if latest.is_dir():
        raise failure("usage", f"`{latest}` is a folder, and has to be a file, which names the universal folder")
    with work_folder(out) as place:
        report = convert_checkpoint(input_folder, place / "made", to="universal", **options)
        (made,) = (folder for folder in (place / "made").iterdir() if folder.is_dir())
        (place / LATEST).write_text(out.name)
        sync(place / LATEST)
        out.parent.mkdir(parents=True, exist_ok=True)
        os.rename(made, out)
        os.replace(place / LATEST, latest)
        sync(out.parent)
    return report


def options_of() -> Options:
    """Those of DeepSpeed's script, and how tensors are cut."""
    parser = Options(prog="ds_to_universal", description="Convert a DeepSpeed checkpoint into a universal folder.")
    parser.add_argument("--input_folder", required=True, help="the folder of a tag, or the one that training saved to")
    parser.add_argument("--output_folder", required=True, help="the universal folder to make; it may be empty")
    for option in ("--num_extract_workers", "--num_merge_workers"):
        parser.add_argument(
            option, type=int, metavar="N", help="the number of threads; of the two the larger counts (default: all)"
        )
    parser.add_argument("--keep_temp_folder", action="store_true", help="no effect: there are no intermediate files")
    parser.add_argument("--no_strict", action="store_true", help="no effect: every check stays on")
    parser.add_argument("--inject_missing_state", action="store_true", help="no effect: none has to be injected")
    parser.add_model()
    return parser


WITHOUT_EFFECT = {
    "keep_temp_folder": "there are no intermediate files to keep",
    "no_strict": "copies, checksums and the order of elements are checked all the same",
    "inject_missing_state": "a checkpoint without `universal_checkpoint_info` is read as it is",
}


def main(words: Sequence[str] | None = None) -> int:
    """The exit code of a command line."""
    parser = options_of()
    given = parser.parse_args(words)

    def work() -> None:
        for name, why in WITHOUT_EFFECT.items():
            if getattr(given, name):
                parser.note(f"--{name} has no effect: {why}")
        workers = [
            _arguments.whole(f"--{name}", getattr(given, name), 1, 256)
            for name in ("num_extract_workers", "num_merge_workers")
            if getattr(given, name) is not None
        ]
        model = {"spec": given.spec, "sets": given.sets}
        report = convert(given.input_folder, given.output_folder, threads=max(workers, default=None), **model)
        for remark in report["remarks"]:
            parser.note(remark)
        print(f"wrote {given.output_folder}: {report['tensors']} tensors")

    return parser.run(work)


if __name__ == "__main__":
    sys.exit(main())
