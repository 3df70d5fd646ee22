"""Imports the types of models that the installed transformers converts when it saves them, all of them or a random
sample, and prints a table of how many import and why the others do not.

    PYTHONPATH=build/release/python python tests/bench/import_all.py [COUNT]
"""

from __future__ import annotations

import collections
import importlib
import multiprocessing
import os
import random
import re
import sys
from typing import Any

os.environ["HF_HUB_OFFLINE"] = "1"  # transformers reads it when it is imported.

from transformers import conversion_mapping
from transformers.models.auto import configuration_auto, modeling_auto

from ucp_checkpoint import Error
from ucp_checkpoint.import_hf import import_model

SEED = 2  # The sample of a count is always the same.
DEADLINE = 600  # Seconds of one type.


def classes_of(model_type: str, config: Any) -> set[str]:
    """The names of the classes that transformers lists for a type, and of those of its module that take its
    configuration."""
    found: set[str] = set()
    for key, mapping in vars(modeling_auto).items():
        entry = mapping.get(model_type, ()) if key.endswith("_NAMES") else ()
        found |= {entry} if isinstance(entry, str) else set(entry or ())
    try:
        module = importlib.import_module(config.__module__.replace(".configuration_", ".modeling_"))
    except ImportError:  # An optional package is missing, or the type has no module of this name.
        return found
    return found | {name for name, one in vars(module).items() if getattr(one, "config_class", None) is config}


def has_mapping(model_type: str) -> bool:
    """Whether transformers has a conversion for the type, one of its classes, or a type of a configuration inside."""
    config = configuration_auto.CONFIG_MAPPING[model_type]
    inner = {one.model_type for one in getattr(config, "sub_configs", {}).values() if hasattr(one, "model_type")}
    names = {model_type, *inner, *classes_of(model_type, config)}
    return any(name and conversion_mapping.get_checkpoint_conversion_mapping(name) is not None for name in names)


def outcome_of(model_type: str, outcomes: Any) -> None:
    """Puts one sentence into a queue."""
    try:
        text = import_model(model_type)
        outcomes.put("imported, memory and hub" if "layout hub of" in text else "imported, one layout")
    except Error as error:
        print(error, file=sys.stderr)
        outcomes.put("refused: " + re.sub(r"`[^`]*`", "…", str(error).splitlines()[0])[:160])
    except Exception as error:
        outcomes.put(f"FAILED: {type(error).__name__}: {error}")


def bounded(model_type: str) -> str:
    """The outcome in a process of its own, which ends at a deadline."""
    context = multiprocessing.get_context("spawn")
    outcomes = context.Queue()
    process = context.Process(target=outcome_of, args=(model_type, outcomes))
    process.start()
    process.join(DEADLINE)
    if process.is_alive():
        process.kill()
        process.join()
        return f"stopped after {DEADLINE} seconds"
    return str(outcomes.get()) if process.exitcode == 0 else f"FAILED: exit code {process.exitcode}"


def main() -> None:
    every = [one for one in sorted(configuration_auto.CONFIG_MAPPING_NAMES) if has_mapping(one)]
    types = random.Random(SEED).sample(every, int(sys.argv[1])) if len(sys.argv) > 1 else every
    outcomes: dict[str, list[str]] = collections.defaultdict(list)
    for model_type in types:
        outcome = bounded(model_type)
        outcomes[outcome].append(model_type)
        print(f"{model_type}: {outcome}", file=sys.stderr, flush=True)
    print(f"{len(types)} of {len(every)} types\n\n| types | outcome | which |\n|---|---|---|")
    for outcome, several in sorted(outcomes.items(), key=lambda item: -len(item[1])):
        print(f"| {len(several)} | {outcome} | {', '.join(f'`{one}`' for one in several)} |")


if __name__ == "__main__":
    main()
