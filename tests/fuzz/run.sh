#!/usr/bin/env bash
# Fuzzes what is read from outside (README.md).
#
#   tests/fuzz/run.sh [SECONDS] [TARGET…]   with libFuzzer, each target for SECONDS (60)
#   tests/fuzz/run.sh --bounded [RUNS]      without it: RUNS (2000) damaged inputs for each target, always the same; ends at
#                                           the first that is handled wrongly
# Both begin with files that the programs in build/release make.
set -euo pipefail
cd "$(dirname "$0")/../.."
source scripts/announce.sh

targets=(archive dcp_metadata manifest pickle plan plan_run safetensors_header spec strategy wire folder)
folder=build/fuzz
bounded=false
if [[ ${1:-} == --bounded ]]; then
  bounded=true
  shift
fi
amount=${1:-$($bounded && echo 2000 || echo 60)}
(($# == 0)) || shift
(($# == 0)) || targets=("$@")

step "Seeds"
mkdir -p "$folder"
python3 tests/fuzz/make_seeds.py build/release/bin "$folder/seeds"

preset=fuzz
if $bounded; then preset=asan; else scripts/install-packages.sh --fuzz; fi
step "Build (build/$preset)"
cmake --preset "$preset" -DUCP_BUILD_TESTS=ON --log-level=WARNING >/dev/null
cmake --build --preset "$preset" --target "${targets[@]/#/fuzz_}" -- --quiet

fuzz() { # TARGET SEEDS
  local program="build/$preset/bin/fuzz_$1" seeds="$folder/seeds/$2"
  if $bounded; then
    printf '%s: ' "$2"
    "$program" "$amount" "$seeds"
    return
  fi
  mkdir -p "$folder/corpus/$2" "$folder/found"
  "$program" -max_total_time="$amount" -max_len=65536 -rss_limit_mb=2048 -timeout=20 -print_final_stats=1 \
    -artifact_prefix="$folder/found/$2-" "$folder/corpus/$2" "$seeds" 2>&1 |
    grep -E 'number_of_executed|new_units_added|ERROR|SUMMARY|Test unit' | sed "s/^/$2: /"
}

for target in "${targets[@]}"; do
  step "$target"
  if [[ $target != folder ]]; then
    fuzz "$target" "$target"
    continue
  fi
  for format in deepspeed universal safetensors dcp megatron; do
    UCP_FUZZ_FOLDER=$(readlink -f "$folder/seeds/folders/$format") fuzz folder "folder-$format"
  done
done
