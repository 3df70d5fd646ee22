#!/usr/bin/env bash
# Installs what is missing, builds, converts a bundled checkpoint of a real 8-rank training run, and shows the result.
# --no-install skips the packages.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/announce.sh

install=true
for argument in "$@"; do
  case "$argument" in
    --no-install) install=false ;;
    *) stop "unknown argument $argument; usage: $0 [--no-install]" ;;
  esac
done

if $install; then
  step "Packages"
  scripts/install-packages.sh
fi

step "Build (build/release; minutes at first, then seconds)"
quiet=()
[[ -t 1 ]] || quiet=(--quiet)
cmake --preset release -DUCP_BUILD_TESTS=OFF --log-level=WARNING >/dev/null
cmake --build --preset release --target ucpc ucprun -- "${quiet[@]}"

export PATH="$PWD/build/release/bin:$PATH"
spec=specs/megatron_deepspeed_gpt.ucp
checkpoint=tests/fixtures/gpt_pp2_tp2_dp2/checkpoint # of a Megatron-style GPT: PP 2 x TP 2 x DP 2, ZeRO stage 1
out=build/quickstart/universal

run() {
  printf '$ %s\n' "$*"
  "$@"
}

step "Is the spec right? (no checkpoint needed)"
run ucpc check "$spec"

step "Who holds what of one tensor?"
run ucpc explain "$spec" --from "$checkpoint" --tensor '3.self_attention.query_key_value.weight'

step "Convert: 8 ranks' files into one folder for any number of ranks"
rm -rf build/quickstart
mkdir -p build/quickstart
run ucprun convert "$checkpoint" "$out" --to universal --spec "$spec"

step "What is in it?"
run ucprun inspect "$out" --tensor '3.self_attention.*'

step "Your own checkpoint"
cat <<END
export PATH="$PWD/build/release/bin:\$PATH"
ucprun inspect CHECKPOINT
ucprun convert CHECKPOINT OUT --to universal                        # no tensor parallelism: no spec
ucprun convert CHECKPOINT OUT --to universal --spec SPEC            # with it: a file, or a name from specs/
mpirun -n 8 ucprun convert CHECKPOINT OUT --to universal            # by 8 processes, on one machine or several
Then train on from OUT, on any number of GPUs, with DeepSpeed's {"checkpoint": {"load_universal": true}}.
END
