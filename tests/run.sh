#!/usr/bin/env bash
# Installs what the tests need, builds, and runs every test; the last lines are those of the test runners.
#
#   --no-install  no packages and no engine environment; the tests with the real engine run if it is there already
#   --full        also what is longer: clang-tidy, every test under every sanitizer
#
# Tests with the real engine that cannot run say so. With UCP_REQUIRE_ENGINE=1 that is a failure.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/announce.sh

install=true
full=false
for argument in "$@"; do
  case "$argument" in
    --no-install) install=false ;;
    --full) full=true ;;
    *) stop "unknown argument $argument; usage: $0 [--no-install] [--full]" ;;
  esac
done

quiet=()
[[ -t 1 ]] || quiet=(--quiet)
jobs=$(nproc)

build() { # PRESET [TARGET…]: configures and builds
  local preset=$1
  shift
  local targets=()
  (($# == 0)) || targets=(--target "$@")
  cmake --preset "$preset" -DUCP_BUILD_TESTS=ON --log-level=WARNING >/dev/null
  cmake --build --preset "$preset" "${targets[@]}" -- "${quiet[@]}"
}

if $install; then
  step "Packages"
  scripts/install-packages.sh --tests
fi

step "Build (build/release)"
build release

step "How the sources are written: clang-format, shellcheck"
scripts/format.sh --check
shellcheck -x scripts/*.sh tests/*.sh tests/*/*.sh examples/*.sh .ci/run

engine_python=build/engine-venv/bin/python
if $install; then
  step "The real engine, in an environment of its own"
  scripts/make-engine-environment.sh || echo "The environment could not be made; pip's reason stands above."
fi
engine=false
if [[ -f build/engine-venv/made-from-requirements.txt ]]; then
  engine=true
  step "How the Python is written: ruff"
  "$engine_python" -m ruff check tests
fi

# Everything once under AddressSanitizer and UndefinedBehaviorSanitizer; what has threads also under ThreadSanitizer.
step "Build and test with AddressSanitizer and UndefinedBehaviorSanitizer (build/asan)"
build asan
ctest --preset asan -j "$jobs" --progress

step "Build and test with ThreadSanitizer (build/tsan)"
if $full; then
  build tsan
  ctest --preset tsan -j "$jobs" --progress
else
  build tsan runtime_io_test runtime_executor_test
  for program in runtime_io_test runtime_executor_test; do
    "build/tsan/bin/$program" --gtest_brief=1
  done
fi

if $full; then
  step "clang-tidy"
  scripts/tidy.sh
fi

step "Unit, golden and style tests (build/release)"
ctest --preset release -j "$jobs" --progress

step "Tests with the real engine"
if $engine; then
  UCP_BIN="$PWD/build/release/bin" "$engine_python" -m pytest tests/engine --quiet
else
  echo "NOT RUN: the tests with the real engine; they need build/engine-venv, which could not be made."
  [[ "${UCP_REQUIRE_ENGINE:-0}" != 1 ]] || stop "UCP_REQUIRE_ENGINE=1 asks for the tests with the real engine"
fi
