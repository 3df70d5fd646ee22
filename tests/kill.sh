#!/usr/bin/env bash
# The long form of the tests that let a conversion go wrong: every system call of it fails in every way, it is killed
# before every call that changes a file, and at random moments. Takes a quarter of an hour or so.
#
#   KILLS  how many random kills (default 300)
#
# It takes the build in build/release.
set -euo pipefail
cd "$(dirname "$0")/.."

export UCP_EVERY_CALL=1 UCP_KILLS=${1:-300} UCP_BIN="$PWD/build/release/bin" UCP_SOURCE_DIR="$PWD"
cd tests/programs
time python3 -B -m unittest test_failing_calls test_resume test_killed test_ranks_failing test_ranks_killed
