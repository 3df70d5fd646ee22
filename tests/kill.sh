#!/usr/bin/env bash
# The long form of the tests that let a conversion go wrong: system calls of it fail in every way, it is killed before
# calls that change a file, and at random moments; then the same of several ranks under mpirun, which see the whole
# source or a part each, and take most of the time: a second or two for each call.
#
#   tests/kill.sh [KILLS [CALLS]]
#
#   KILLS  how many random kills of each kind (default 300)
#   CALLS  how many calls go wrong in each way, or `all` (the default)
#
# It takes the build in build/release, and tells every ten seconds how far it is.
set -euo pipefail
cd "$(dirname "$0")/.."

export UCP_KILLS=${1:-300} UCP_CALLS=${2:-all} UCP_PROGRESS=1 UCP_BIN="$PWD/build/release/bin" UCP_SOURCE_DIR="$PWD"
cd tests/programs
time python3 -B -m unittest -v test_failing_calls test_resume test_killed test_ranks_failing test_ranks_killed
