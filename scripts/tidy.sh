#!/usr/bin/env bash
# Runs clang-tidy, which also compiles each source by itself: the commands are those of the debug preset, which does not
# compile the sources of a folder together.
#
#   scripts/tidy.sh                      all sources
#   scripts/tidy.sh REGEX…               those whose path fits
#   scripts/tidy.sh --changed [COMMITS]  those that the last COMMITS (5) commits changed, or that are not committed; of
#                                        more than 24, so many from all over
set -euo pipefail
cd "$(dirname "$0")/.."

most_changed=24
if [[ "${1:-}" == --changed ]]; then
  if ! git rev-parse --verify --quiet HEAD >/dev/null; then
    echo "Not a git checkout, so nothing says what has changed."
    exit 0
  fi
  base=$(git rev-parse --verify --quiet "HEAD~${2:-5}" || git rev-list --max-parents=0 HEAD | tail -n 1)
  mapfile -t changed < <(git diff --name-only --diff-filter=d "$base" -- 'compiler/*.cpp' 'runtime/*.cpp' | LC_ALL=C sort)
  if ((${#changed[@]} == 0)); then
    echo "No source has changed since $(git log -1 --format=%h "$base")."
    exit 0
  fi
  step=$(((${#changed[@]} + most_changed - 1) / most_changed))
  paths=()
  for ((i = 0; i < ${#changed[@]}; i += step)); do paths+=("$PWD/${changed[i]//./\\.}$"); done
  echo "${#paths[@]} of the ${#changed[@]} sources that changed since $(git log -1 --format=%h "$base")"
else
  paths=("$@")
  ((${#paths[@]} > 0)) || paths=("$PWD/(compiler|runtime)/.*\.cpp$")
fi

cmake --preset debug --log-level=WARNING >/dev/null
cmake --build --preset debug --target ucp_grammar ucp_plan # The headers that are generated.
run-clang-tidy-19 -quiet -j "$(nproc)" -p build/debug -warnings-as-errors='*' "${paths[@]}" 2>/dev/null
