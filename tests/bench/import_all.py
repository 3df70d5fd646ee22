"""Imports types of models of the installed transformers, all of them or a random sample, and prints a table of how many
import and why the others are refused.

    PYTHONPATH=build/release/python python tests/bench/import_all.py [COUNT]
"""

from __future__ import annotations

import collections
import os
import random
import re
import sys

os.environ["HF_HUB_OFFLINE"] = "1"  # transformers reads it when it is imported.

from transformers.models.auto.configuration_auto import CONFIG_MAPPING_NAMES

from ucp_checkpoint import Error
from ucp_checkpoint.import_hf import import_model

SEED = 1  # The sample of a count is always the same.


def main() -> None:
    every = sorted(CONFIG_MAPPING_NAMES)
    types = random.Random(SEED).sample(every, int(sys.argv[1])) if len(sys.argv) > 1 else every
    outcomes: dict[str, list[str]] = collections.defaultdict(list)
    for model_type in types:
        try:
            text = import_model(model_type)
            outcome = "imported, memory and hub" if "layout hub of" in text else "imported, one layout"
        except Error as error:
            print(error, file=sys.stderr)
            outcome = "refused: " + re.sub(r"`[^`]*`", "…", str(error).splitlines()[0])[:160]
        except Exception as error:
            outcome = f"FAILED: {type(error).__name__}: {error}"
        outcomes[outcome].append(model_type)
        print(f"{model_type}: {outcome}", file=sys.stderr, flush=True)
    print(f"{len(types)} of {len(every)} types\n\n| types | outcome | which |\n|---|---|---|")
    for outcome, several in sorted(outcomes.items(), key=lambda item: -len(item[1])):
        print(f"| {len(several)} | {outcome} | {', '.join(f'`{one}`' for one in several)} |")


if __name__ == "__main__":
    main()
