#!/usr/bin/env bash
# Installs the Debian packages that this project is built with, with --tests those that its tests need as well, and
# with --fuzz those that tests/fuzz/run.sh needs.
# Does nothing if they are there. As root, or with sudo.
set -euo pipefail

packages=(
  g++ cmake ninja-build pkg-config ccache                          # building
  antlr4 libantlr4-runtime-dev uuid-dev                            # the parser of specs, and what its runtime links
  llvm-19-dev libfmt-dev libcli11-dev libre2-dev                   # containers and errors, text, command line, patterns
  libflatbuffers-dev flatbuffers-compiler                          # plan files
  libdeflate-dev zlib1g-dev libxxhash-dev libhwy-dev               # checksums, and vectors for them
  libopenmpi-dev openmpi-bin                                       # runs of several ranks
  libmimalloc-dev                                                  # a faster malloc()
  libzstd-dev libtinfo-dev                                         # what LLVM links; items that PyTorch packed
  libssl-dev                                                       # TLS between a coordinator and its agents
  dpkg-dev                                                         # sources of what a portable build links
  python3 python3-dev python3-venv                                 # the Python package
)
test_packages=(
  libgtest-dev libgmock-dev clang-format-19 clang-tidy-19 shellcheck strace zsh fish
  chromium    # the page of `ucpc explain`, looked at
  iproute2    # machines as namespaces of the network
  debootstrap # other releases of Debian, for the archive
  etcd-server # the registry of coordinators
  openssl     # certificates
)

fuzz_packages=(clang-19 libclang-rt-19-dev)

case "${1:-}" in
  --tests) packages+=("${test_packages[@]}") ;;
  --fuzz) packages+=("${fuzz_packages[@]}") ;;
  "") ;;
  *)
    echo "usage: $0 [--tests | --fuzz]" >&2
    exit 1
    ;;
esac

if ! command -v dpkg-query >/dev/null; then
  echo "error: this is no Debian; install what docs/building.md lists, and run again with --no-install" >&2
  exit 1
fi

installed=$(dpkg-query -W -f '${Package} ${db:Status-Status}\n' "${packages[@]}" 2>/dev/null || true)
missing=()
for package in "${packages[@]}"; do
  grep -qx "$package installed" <<<"$installed" || missing+=("$package")
done
if ((${#missing[@]} == 0)); then
  echo "All ${#packages[@]} packages are there."
  exit 0
fi

as_root=()
if ((EUID != 0)); then
  if ! command -v sudo >/dev/null; then
    echo "error: installing packages needs root or sudo; ask for these, and run again with --no-install: ${missing[*]}" >&2
    exit 1
  fi
  as_root=(sudo)
fi

echo "Installing ${missing[*]}"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
if ! "${as_root[@]}" apt-get update -q >"$log" 2>&1 ||
  ! "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
    apt-get install -y -q --no-install-recommends "${missing[@]}" >>"$log" 2>&1; then
  tail -n 20 "$log" >&2
  echo "error: the packages could not be installed; what apt-get said stands above" >&2
  exit 1
fi
echo "Installed ${#missing[@]} packages."
