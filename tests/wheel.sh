#!/usr/bin/env bash
# Builds a source distribution from a clean clone of what is committed, and from that a wheel, as docs/python.md says,
# and tries it in an environment that has nothing else. Takes as long as compiling everything, or a minute or two where
# the compiler cache has it from the build tree: it knows compilers by their names, and Python would call this one
# otherwise than CMake does.
set -euo pipefail
cd "$(dirname "$0")/.."

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
git clone --quiet . "$folder/clone"
python3 -m venv "$folder/building"
export CC=cc CXX=c++
pip=("$folder/building/bin/pip" --quiet --disable-pip-version-check)
"${pip[@]}" install build==1.6.1
"$folder/building/bin/python" -m build --sdist --outdir "$folder" "$folder/clone" >/dev/null
rm -rf "$folder/clone"
"${pip[@]}" wheel --no-deps --wheel-dir "$folder" "$folder"/ucp_checkpoint-*.tar.gz
python3 -m venv "$folder/using"
"$folder/using/bin/pip" install --quiet --disable-pip-version-check --no-deps "$folder"/ucp_checkpoint-*.whl

fixture=$PWD/tests/fixtures/gpt_pp2_tp2_dp2/checkpoint
cd "$folder"
using/bin/ucprun --version
using/bin/python -m ucp_checkpoint inspect "$fixture" --spec megatron_deepspeed_gpt >/dev/null
using/bin/python -m ucp_checkpoint.ds_to_universal --input_folder "$fixture" --output_folder universal \
  --spec megatron_deepspeed_gpt
using/bin/python -m ucp_checkpoint.zero_to_fp32 --help >/dev/null
using/bin/python - "$fixture" <<'PYTHON'
import sys

import ucp_checkpoint as ucp

assert ucp.inspect(sys.argv[1], spec="megatron_deepspeed_gpt")["format"] == "deepspeed"
try:
    ucp.load(sys.argv[1], to="universal", framework="numpy")
except ucp.Error as error:
    assert "has no numpy" in str(error), error
else:
    raise AssertionError("numpy came from somewhere")
PYTHON
ls -l "$folder"/ucp_checkpoint-*
