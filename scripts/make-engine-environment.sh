#!/usr/bin/env bash
# Makes the Python environment of the tests with the real engine, build/engine-venv, from the pinned versions in
# tests/requirements.txt and tests/requirements-alone.txt, and an older engine for the same environment in
# build/engine-older. Does nothing for what is up to date. Their size is gigabytes, and nothing outside them changes.
set -euo pipefail
cd "$(dirname "$0")/.."

environment=build/engine-venv
wanted=tests/requirements.txt
done_mark=$environment/made-from-requirements.txt # Written last, so an interrupted run is not taken for a finished one.
alone=tests/requirements-alone.txt # Without what they need, most of which no test imports.
alone_mark=$environment/made-from-requirements-alone.txt
older=build/engine-older
older_wanted=tests/requirements-older.txt
older_mark=$older/made-from-requirements.txt

install_alone() {
  "$environment/bin/pip" install --quiet --disable-pip-version-check --no-deps -r "$alone"
  cp "$alone" "$alone_mark"
}

make_older() {
  rm -rf "$older"
  "$environment/bin/pip" install --quiet --disable-pip-version-check --no-deps --no-build-isolation --target "$older" \
    -r "$older_wanted"
  cp "$older_wanted" "$older_mark"
}

if cmp --silent "$wanted" "$done_mark"; then
  cmp --silent "$alone" "$alone_mark" || install_alone
  cmp --silent "$older_wanted" "$older_mark" || make_older
  echo "$environment is up to date."
  exit 0
fi

echo "Installing $(grep -c '==' "$wanted") pinned packages and what they need into $environment"
python3 -m venv "$environment"
# The engine's build looks for torch, so torch goes first.
"$environment/bin/pip" install --quiet --disable-pip-version-check "$(grep '^torch==' "$wanted")"
"$environment/bin/pip" install --quiet --disable-pip-version-check -r "$wanted"
cp "$wanted" "$done_mark"
install_alone
make_older
