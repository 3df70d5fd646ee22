#!/usr/bin/env bash
# Converts a checkpoint of more than 2 GB with --memory 256MiB, and shows peak memory and bytes moved, by the program's own
# count and by the operating system's. Needs the release build, the engine environment and 5 GB of disk.
set -euo pipefail
cd "$(dirname "$0")/../.."

folder=build/bench
rm -rf "$folder/universal"
if [[ ! -f $folder/checkpoint/latest ]]; then
  rm -rf "$folder/checkpoint"
  build/engine-venv/bin/python tests/bench/make_checkpoint.py "$folder/checkpoint"
fi
du --bytes --summarize "$folder/checkpoint"
for threads in 1 2 8; do
  rm -rf "$folder/universal"
  echo "--threads $threads --memory 256MiB"
  python3 tests/bench/measure.py build/release/bin/ucprun convert "$folder/checkpoint" "$folder/universal" \
    --to universal --memory 256MiB --threads "$threads" --json
done
rm -rf "$folder/universal"
