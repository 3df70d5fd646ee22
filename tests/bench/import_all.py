"""Imports the types of models that the installed transformers converts when it saves them, in a random order that is
always the same, and prints a table of how many import and why the others do not.

    PYTHONPATH=build/release/python python tests/bench/import_all.py RESULTS.jsonl [--count N] [--seconds S] [TYPE ...]

Each type has a process and a line in RESULTS.jsonl of its own. A type that has a line is not imported again, so that a
run that was ended continues where it was.
"""

from __future__ import annotations

import argparse
import collections
import importlib
import json
import multiprocessing
import os
import random
import re
import time
from pathlib import Path
from typing import Any

os.environ["HF_HUB_OFFLINE"] = "1"  # transformers reads it when it is imported.

from transformers import conversion_mapping
from transformers.models.auto import configuration_auto, modeling_auto

from ucp_checkpoint import Error
from ucp_checkpoint.import_hf import import_model

SEED = 2  # The first N types are a random sample.


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
    """Puts an outcome and a message into a queue."""
    try:
        text = import_model(model_type)
        outcomes.put(("imported, memory and hub" if "layout hub of" in text else "imported, one layout", ""))
    except Error as error:
        message = str(error).splitlines()[0]
        outcomes.put(("refused: " + re.sub(r"`[^`]*`", "…", message)[:160], message))
    except Exception as error:
        outcomes.put((f"FAILED: {type(error).__name__}", str(error)))


def bounded(model_type: str, seconds: float) -> tuple[str, str]:
    """The outcome and a message, from a process that ends at a deadline."""
    context = multiprocessing.get_context("fork")  # transformers is imported once.
    receiver, sender = context.Pipe(duplex=False)
    queue = argparse.Namespace(put=sender.send)
    process = context.Process(target=outcome_of, args=(model_type, queue))
    process.start()
    sender.close()
    try:
        if not receiver.poll(seconds):
            return f"stopped after {seconds:g} seconds", ""
        found: tuple[str, str] = receiver.recv()
        return found
    except EOFError:
        process.join()
        return f"FAILED: exit code {process.exitcode}", ""
    finally:
        process.kill()
        process.join()


def lines_of(results: Path) -> dict[str, str]:
    """The outcome of each type that has a line. A line that was cut off does not count."""
    found = {}
    for line in results.read_text().splitlines() if results.exists() else ():
        try:
            one = json.loads(line)
        except ValueError:
            continue
        found[one["type"]] = one["outcome"]
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=Path)
    parser.add_argument("types", nargs="*", help="these types alone")
    parser.add_argument("--count", type=int, help="so many of all types")
    parser.add_argument("--seconds", type=float, default=600, help="the deadline of one type")
    given = parser.parse_intermixed_args()
    every = [one for one in sorted(configuration_auto.CONFIG_MAPPING_NAMES) if has_mapping(one)]
    types = given.types or random.Random(SEED).sample(every, given.count or len(every))
    done = lines_of(given.results)
    for model_type in types:
        if model_type in done:
            continue
        start = time.monotonic()
        outcome, message = bounded(model_type, given.seconds)
        took = round(time.monotonic() - start, 1)
        line = {"type": model_type, "outcome": outcome, "seconds": took, "message": message}
        with given.results.open("a") as file:
            file.write(json.dumps(line) + "\n")
        done[model_type] = outcome
    outcomes: dict[str, list[str]] = collections.defaultdict(list)
    for model_type in types:
        outcomes[done[model_type]].append(model_type)
    print(f"{len(types)} of {len(every)} types\n\n| types | outcome | which |\n|---|---|---|")
    for outcome, several in sorted(outcomes.items(), key=lambda item: -len(item[1])):
        print(f"| {len(several)} | {outcome} | {', '.join(f'`{one}`' for one in sorted(several))} |")


if __name__ == "__main__":
    main()
