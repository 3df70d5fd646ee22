#!/usr/bin/env bash
# Makes the Python environment of the tests with the real engine, build/engine-venv, from the pinned versions in
# tests/requirements.txt. Does nothing if it is up to date. Its size is gigabytes, and nothing outside it changes.
set -euo pipefail
cd "$(dirname "$0")/.."

environment=build/engine-venv
wanted=tests/requirements.txt
done_mark=$environment/made-from-requirements.txt # Written last, so an interrupted run is not taken for a finished one.

if cmp --silent "$wanted" "$done_mark"; then
  echo "$environment is up to date."
  exit 0
fi

echo "Installing $(grep -c '==' "$wanted") pinned packages and what they need into $environment"
python3 -m venv "$environment"
# The engine's build looks for torch, so torch goes first.
"$environment/bin/pip" install --quiet --disable-pip-version-check "$(grep '^torch==' "$wanted")"
"$environment/bin/pip" install --quiet --disable-pip-version-check -r "$wanted"
cp "$wanted" "$done_mark"
