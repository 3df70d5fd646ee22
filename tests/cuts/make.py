"""Makes the files of `truth/` again: all, or those whose names begin with an argument.

From tests/: `python -m cuts.make [PREFIX…]`. `megatron_core.*` needs the package of requirements-alone.txt beside those
of requirements.txt; the others need no more than these.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial

from .held import Truth

AUTOTP = {
    "llama": (2, 3), "llama.tied": (2,), "mistral": (2,), "qwen2": (3, 8), "qwen3": (2,), "falcon.grouped": (2, 3),
    "falcon.rw": (2, 3), "gpt_neox": (2, 3), "phi3.mini": (2,), "mixtral": (2,), "gemma2": (2,), "opt": (2,),
    "bloom": (2, 3), "deepseek_v2": (2,), "gpt_oss": (2,),
}  # fmt: skip
PLANS = {
    "llama": ("tp2",), "mixtral": ("tp2", "ep2"), "qwen3_moe": ("tp2", "ep4"), "deepseek_v2": ("tp2", "ep2"),
    "deepseek_v3": ("tp2", "ep2"), "phimoe": ("tp2", "ep2"), "gpt_oss": ("ep2",), "nemotron_h": ("tp2", "ep2"),
    "gpt_neox": ("tp2",), "gemma2": ("tp2",),
}  # fmt: skip
MEGATRON_CORE = ("gpt", "llama", "gated_biased")


def _autotp(key: str, degree: int) -> Truth:
    from . import autotp

    return autotp.shards(key, degree)


def _plan(key: str, axis: str, degree: int) -> Truth:
    from . import transformers_plan

    return transformers_plan.shards(key, axis, degree)


def _megatron_core(key: str, degree: int) -> Truth:
    from . import megatron_core

    return megatron_core.shards(key, degree)


MAKERS: dict[str, Callable[[], Truth]] = {
    **{f"autotp.{key}.tp{n}": partial(_autotp, key, n) for key, degrees in AUTOTP.items() for n in degrees},
    **{f"plan.{key}.{cut}": partial(_plan, key, cut[:2], int(cut[2:])) for key, cuts in PLANS.items() for cut in cuts},
    **{f"megatron_core.{key}.tp{n}": partial(_megatron_core, key, n) for key in MEGATRON_CORE for n in (1, 2, 4)},
}


def main() -> None:
    """The command line."""
    for name, make in MAKERS.items():
        if not sys.argv[1:] or name.startswith(tuple(sys.argv[1:])):
            make().save()
            print(name, flush=True)


if __name__ == "__main__":
    main()
