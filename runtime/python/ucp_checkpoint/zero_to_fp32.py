"""`python -m ucp_checkpoint.zero_to_fp32`: the command line of DeepSpeed's script of this name, by `ucp.load`.

The fp32 masters, frozen parameters and buffers of a checkpoint become `pytorch_model.bin` or `model.safetensors`, in
several files with an index if they are larger than `max_shard_size`. The tensors of one file are in memory at a time.
docs/recipes.md says which option does what.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from ucp_checkpoint import _arguments
from ucp_checkpoint._arrays import need_torch
from ucp_checkpoint._drop_in import Options, absolute, put_in_place, refuse_existing, work_folder
from ucp_checkpoint._failure import failure
from ucp_checkpoint._fp32_weights import Weights, names_of
from ucp_checkpoint._source import Settings
from ucp_checkpoint._work import byte_count


def convert_zero_checkpoint_to_fp32_state_dict(
    checkpoint_dir: str | os.PathLike[str],
    output_dir: str | os.PathLike[str],
    max_shard_size: int | str | None = "5GB",
    safe_serialization: bool = False,
    tag: str | None = None,
    exclude_frozen_parameters: bool = False,
    *,
    spec: str | None = None,
    sets: Settings = (),
) -> list[str]:
    """The function of DeepSpeed's script. Files of these names must not be in `output_dir`; returns their names."""
    need_torch("zero_to_fp32 writes tensors of PyTorch")
    if safe_serialization and importlib.util.find_spec("safetensors") is None:
        raise failure("usage", "safe_serialization writes by the module `safetensors`, which this Python does not have")
    limit = byte_count(max_shard_size, "max_shard_size") if max_shard_size is not None else sys.maxsize
    path = Path(os.fsdecode(_arguments.path("checkpoint_dir", checkpoint_dir)))
    weights = Weights(path / tag if tag else path, exclude_frozen_parameters, spec, sets)
    out = absolute("output_dir", output_dir)
    refuse_existing(out, *names_of(safe_serialization))
    with work_folder(out, is_inside=True) as place:
        (place / "made").mkdir(mode=0o777)
        written = weights.write(place / "made", limit, safe_serialization)
        put_in_place(place / "made", out, written)
    return written


def main(words: Sequence[str] | None = None) -> int:
    """The exit code of a command line."""
    parser = Options(prog="zero_to_fp32", description="Write the fp32 weights of a DeepSpeed checkpoint.")
    add = parser.add_argument
    add("checkpoint_dir", help="the folder that training saved to, or the folder of a tag")
    add("output_dir", help="the folder for the files; it may exist, and must have none of these files")
    add("--max_shard_size", default="5GB", metavar="SIZE", help="of a file; default: %(default)s. It is also memory")
    add("--safe_serialization", action="store_true", help="write safetensors, and not pickles of PyTorch")
    add("-t", "--tag", help="the tag of the checkpoint; default: the one that `latest` names")
    add("--exclude_frozen_parameters", action="store_true", help="leave frozen parameters out")
    add("-d", "--debug", action="store_true", help="no effect: `ucprun inspect` shows the contents of a checkpoint")
    parser.add_model()
    given = vars(parser.parse_args(words))

    def work() -> None:
        if given.pop("debug"):
            parser.note("--debug has no effect: `ucprun inspect` shows the contents of a checkpoint")
        for name in convert_zero_checkpoint_to_fp32_state_dict(**given):
            print(f"wrote {Path(given['output_dir']) / name}")

    return parser.run(work)


if __name__ == "__main__":
    sys.exit(main())
