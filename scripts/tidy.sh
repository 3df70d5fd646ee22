#!/usr/bin/env bash
# Runs clang-tidy over all sources, or over those whose path fits the regular expressions given. It takes the commands of
# the debug preset, which compiles each source by itself.
set -euo pipefail
cd "$(dirname "$0")/.."

cmake --preset debug --log-level=WARNING >/dev/null
cmake --build --preset debug --target ucp_grammar ucp_plan # The headers that are generated.
paths=("$@")
((${#paths[@]} > 0)) || paths=("$PWD/(compiler|runtime)/.*\.cpp$")
run-clang-tidy-19 -quiet -j "$(nproc)" -p build/debug -warnings-as-errors='*' "${paths[@]}" 2>/dev/null
