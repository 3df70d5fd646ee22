#!/usr/bin/env bash
# Formats all C++ sources. With --check it changes nothing and fails if some file would change.
set -euo pipefail
cd "$(dirname "$0")/.."

mode=(-i)
[[ "${1:-}" == --check ]] && mode=(--dry-run --Werror)
find compiler examples runtime tests \( -name '*.h' -o -name '*.cpp' -o -name '*.cu' \) -print0 |
  xargs -0 -P "$(nproc)" -n 16 clang-format-19 "${mode[@]}"
