#!/usr/bin/env bash
# The long form of the tests that let a run go wrong: system calls and allocations of it fail in every way, it is killed
# before calls that change a file, and at random moments; then the same of several ranks under mpirun, which see the
# whole source or a part each, or get a part each of the destination, and take most of the time: a second or two for each
# call. At the end allocations of the C++ library fail, and of the Python package where its environment is there.
#
#   tests/kill.sh [KILLS [CALLS [SECONDS]]]
#
#   KILLS    how many random kills of each kind (default 300)
#   CALLS    how many calls go wrong in each way, or `all` (the default)
#   SECONDS  how long the calls of one way, or the kills of one kind, may take (default 60, an hour in all): then what is
#            left of them is left out, and a line says how many came; `inf`: as long as they take, about a day
#
# Which calls come is decided by UCP_CALLS_SEED, and when it kills by UCP_KILLS_SEED: other numbers try others.
# It takes the build in build/release, and tells every ten seconds how far it is.
set -euo pipefail
cd "$(dirname "$0")/.."

export UCP_KILLS=${1:-300} UCP_CALLS=${2:-all} UCP_SECONDS_EACH=${3:-60} UCP_PROGRESS=1
export UCP_BIN="$PWD/build/release/bin" UCP_SOURCE_DIR="$PWD"
cd tests/programs
time python3 -B -m unittest -v test_failing_calls test_failing_allocations test_resume test_killed test_ranks_failing \
  test_ranks_killed test_parts_failing
cd ../..
time "$UCP_BIN/library_memory_test" --gtest_brief=1
engine_python=build/engine-venv/bin/python
if [[ -x $engine_python ]]; then
  time UCP_CALLS=$([[ $UCP_CALLS == all ]] && echo 1000 || echo "$UCP_CALLS") \
    "$engine_python" -m pytest tests/python/test_failing_allocations.py --quiet
fi
