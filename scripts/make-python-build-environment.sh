#!/usr/bin/env bash
# Makes the environment that CMake builds the Python package with, build/python-build: an interpreter that has nanobind.
# Does nothing if it is up to date. `pip install .` makes one of its own.
set -euo pipefail
cd "$(dirname "$0")/.."

environment=build/python-build
wanted=runtime/python/requirements.txt
done_mark=$environment/made-from-requirements.txt

if cmp --silent "$wanted" "$done_mark"; then
  echo "$environment is up to date."
  exit 0
fi
python3 -m venv "$environment"
"$environment/bin/pip" install --quiet --disable-pip-version-check -r "$wanted"
cp "$wanted" "$done_mark"
