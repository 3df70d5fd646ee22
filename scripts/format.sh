#!/usr/bin/env bash
# Formats all C++ sources, and wraps wide lines of Markdown. With --check it changes nothing and fails if some file
# would change.
set -euo pipefail
cd "$(dirname "$0")/.."

mode=(-i)
[[ "${1:-}" == --check ]] && mode=(--dry-run --Werror)
find compiler examples runtime tests \( -name '*.h' -o -name '*.cpp' -o -name '*.cu' \) -print0 |
  xargs -0 -P "$(nproc)" -n 16 clang-format-19 "${mode[@]}"
if [[ "${1:-}" == --check ]]; then
  python3 tests/style/check_markdown.py .
else
  python3 tests/style/check_markdown.py . --wrap
fi
