#!/usr/bin/env bash
# Runs clang-tidy over all sources, or over those whose path fits the regular expressions given. It takes the commands of
# the release build, so build that first.
set -euo pipefail
cd "$(dirname "$0")/.."

if [[ ! -f build/release/compile_commands.json ]]; then
  echo "error: build/release has no compile_commands.json; run: cmake --preset release && cmake --build --preset release" >&2
  exit 1
fi
paths=("$@")
((${#paths[@]} > 0)) || paths=("$PWD/(compiler|runtime)/.*\.cpp$")
run-clang-tidy-19 -quiet -j "$(nproc)" -p build/release -warnings-as-errors='*' "${paths[@]}" 2>/dev/null
