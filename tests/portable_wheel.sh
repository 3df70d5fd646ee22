#!/usr/bin/env bash
# Makes the wheels that scripts/make-wheel.sh makes, and looks at each from outside: what it needs from a system, what it
# exports, whose licences it has. Then installs it where nothing else is, and takes a model that transformers saved
# through README.md's commands. Takes several minutes for each interpreter.
#
#   tests/portable_wheel.sh [--made] [PYTHON…]   --made: takes the wheels of build/wheels as they are
#
# The model is of build/engine-venv, where transformers and PyTorch are.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/announce.sh

made=false
if [[ "${1:-}" == --made ]]; then
  made=true
  shift
fi
pythons=("${@:-python3}")
engine=$PWD/build/engine-venv/bin/python
[[ -x $engine ]] || stop "there is no $engine; scripts/make-engine-environment.sh makes it"
$made || scripts/make-wheel.sh "${pythons[@]}"

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
step "A model, as save_pretrained leaves it"
"$engine" - "$folder" <<'PYTHON'
import sys

import torch
from transformers import LlamaConfig, LlamaForCausalLM

torch.manual_seed(7)
config = LlamaConfig(vocab_size=64, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
                     num_key_value_heads=2, tie_word_embeddings=False)  # fmt: skip
model = LlamaForCausalLM(config).eval()
model.save_pretrained(f"{sys.argv[1]}/hub")
with torch.no_grad():
    torch.save(model(torch.arange(24).reshape(2, 12)).logits, f"{sys.argv[1]}/logits.pt")
PYTHON

look_at() { # WHEEL: takes it apart into $folder/apart
  step "$1"
  local apart=$folder/apart needed file bytes licence
  rm -rf "$apart"
  python3 -m zipfile -e "$1" "$apart"
  [[ $1 == *-manylinux_2_3[0-4]_x86_64.whl ]] || stop "it needs a C library newer than 2.34"
  bytes=$(stat -c %s "$1")
  ((bytes <= 15000000)) || stop "it has $bytes bytes"
  for file in "$apart"/ucp_checkpoint/bin/{ucpc,ucprun} "$apart"/ucp_checkpoint/_ucp.*.so; do
    needed=$(readelf -dW "$file" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p')
    ! grep -vE '^(libc|libm|libgcc_s)\.so\.[0-9]+$|^ld-linux-x86-64\.so\.2$' <<<"$needed" ||
      stop "$file needs more than the C library and libgcc"
  done
  # A module that exported LLVM, fmt, RE2 or libstdc++ could give them to a framework, or take that one's.
  ! nm -D --defined-only "$apart"/ucp_checkpoint/_ucp.*.so | grep -v ' PyInit__ucp$' || stop "the module exports these"
  for licence in antlr4-cpp-runtime fmtlib highway mimalloc re2 llvm-19-dev libdeflate-dev zlib1g-dev libzstd-dev \
    libxxhash-dev libcli11-dev libflatbuffers-dev libstdc++-12-dev nanobind; do
    [[ -s $apart/ucp_checkpoint/licences/$licence ]] || stop "it lacks the licence of $licence"
  done
}

use() { # PYTHON WHEEL: README.md's commands in an environment that has nothing else
  local environment=$folder/environment
  rm -rf "$environment" "$folder"/{ranks,back}
  "$1" -m venv "$environment"
  "$environment/bin/pip" install --quiet --disable-pip-version-check --no-index "$2"
  "$environment/bin/ucprun" --version
  (
    cd "$folder"
    # No locale, no PATH: nothing of the machine that made it.
    env -i "$environment/bin/ucprun" inspect hub >/dev/null
    env -i "$environment/bin/ucprun" convert hub ranks --to deepspeed:tp=2,dp=2,zero=1
    env -i "$environment/bin/ucprun" verify ranks --same hub
    env -i "$environment/bin/ucprun" convert ranks back --to safetensors:dtype=fp32
    env -i "$environment/bin/ucpc" --help >/dev/null
    env -i "$environment/bin/python" -c '
import sys
import ucp_checkpoint as ucp
assert ucp.inspect("hub")["format"] == "safetensors"
assert not {"numpy", "torch"} & set(sys.modules)'
    "$engine" - <<'PYTHON'
import torch
from transformers import LlamaForCausalLM

model = LlamaForCausalLM.from_pretrained("back").eval()
with torch.no_grad():
    assert torch.equal(model(torch.arange(24).reshape(2, 12)).logits, torch.load("logits.pt"))
PYTHON
  )
}

# Work of the module in a process whose symbols come first from other LLVMs, fmt, RE2 and protobuf, as far as this machine
# has them, and from PyTorch where the wheel is for the interpreter that has it.
beside_others() { # PYTHON
  rm -rf "$folder/beside"
  (cd "$folder" && PYTHONPATH="$folder/apart" "$1" - <<'PYTHON'
import ctypes
import glob
import importlib.util

others = [path for name in ("libLLVM*.so*", "libfmt.so*", "libre2.so*", "libprotobuf.so*")
          for path in glob.glob(f"/usr/lib/x86_64-linux-gnu/{name}")]  # fmt: skip
for path in others:
    ctypes.CDLL(path, mode=ctypes.RTLD_GLOBAL)
if importlib.util.find_spec("torch"):
    import torch  # noqa: F401

    others.append("torch")
import ucp_checkpoint as ucp

ucp.convert("hub", "beside", to="deepspeed:tp=2,dp=2,zero=1")
assert ucp.verify("beside", same="hub")["differences"] == []
print(f"works beside {len(others)} others")
PYTHON
  )
}

for python in "${pythons[@]}"; do
  tag=$("$python" -c 'import sys; print(min(sys.version_info[:2], (3, 12)))' | tr -d '(), ')
  wheel=$(ls build/wheels/ucp_checkpoint-*-cp"$tag"-*.whl)
  look_at "$PWD/$wheel"
  use "$python" "$PWD/$wheel"
  beside_others "$folder/environment/bin/python"
  if [[ $tag == "$("$engine" -c 'import sys; print(f"{sys.version_info[0]}{sys.version_info[1]}")')" ]]; then
    beside_others "$engine"
  fi
done
