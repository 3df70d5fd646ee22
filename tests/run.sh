#!/usr/bin/env bash
# Installs what the tests need, builds, and runs every test; the last lines are those of the test runners.
#
#   --no-install  no packages and no engine environment; the tests with the real engine run if it is there already
#   --full        also what is longer: clang-tidy of all sources, a wheel from a clean clone, the archive and the Debian
#                 package in other releases of Debian, every test under every sanitizer, random tests for a minute each,
#                 an hour of failing calls and kills (tests/kill.sh), and every cell of the acceptance matrix, which is
#                 then written to docs/acceptance.md
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

if $full; then export UCP_TEST_SECONDS=60 UCP_EVERY_CELL=1 UCP_ACCEPTANCE_PAGE=docs/acceptance.md; fi
quiet=()
[[ -t 1 ]] || quiet=(--quiet)
jobs=$(nproc)

part_began=0
part() { # TITLE: a step; says how long the one before took. The last ones are test runners, which say it themselves.
  [[ $current_step == starting ]] || printf '(%d s)\n' $((SECONDS - part_began))
  part_began=$SECONDS
  step "$1"
}

build() { # PRESET [TARGET…]: configures and builds
  local preset=$1
  shift
  local targets=()
  (($# == 0)) || targets=(--target "$@")
  cmake --preset "$preset" -DUCP_BUILD_TESTS=ON --log-level=WARNING >/dev/null
  cmake --build --preset "$preset" "${targets[@]}" -- "${quiet[@]}"
}

if $install; then
  part "Packages"
  scripts/install-packages.sh --tests

  part "The real engine, in an environment of its own (goes on in the background)"
  mkdir -p build
  scripts/make-engine-environment.sh >build/engine-environment.log 2>&1 &
  making_environment=$!
  trap 'kill "$making_environment" 2>/dev/null || true' EXIT
fi

if $install; then
  part "What the Python package is built with (build/python-build)"
  scripts/make-python-build-environment.sh
fi

part "Build (build/release)"
build release

part "How the sources are written: clang-format, shellcheck"
scripts/format.sh --check
shellcheck -x scripts/*.sh tests/*.sh tests/*/*.sh examples/*.sh .ci/run

# The programs whose CMakeLists.txt has the label; with --full all of them.
test_under_sanitizer() { # PRESET LABEL
  if $full; then
    build "$1"
    ctest --preset "$1" -j "$jobs" --progress
    return
  fi
  cmake --preset "$1" -DUCP_BUILD_TESTS=ON --log-level=WARNING >/dev/null
  local programs
  mapfile -t programs <"build/$1/tests/with_$2.txt"
  ((${#programs[@]} > 0)) || stop "no test has the label $2"
  build "$1" "${programs[@]}"
  local program
  for program in "${programs[@]}"; do
    printf '%s: ' "$program"
    "build/$1/bin/$program" --gtest_brief=1
  done
}

part "AddressSanitizer and UndefinedBehaviorSanitizer (build/asan)"
test_under_sanitizer asan reads_bytes

part "Damaged input, bounded (tests/fuzz)"
tests/fuzz/run.sh --bounded 1000

part "ThreadSanitizer (build/tsan)"
test_under_sanitizer tsan has_threads

part "clang-tidy, each source by itself (build/debug)"
if $full; then scripts/tidy.sh; else scripts/tidy.sh --changed; fi

if $full; then
  part "A wheel from a clean clone"
  tests/wheel.sh

  part "The archive and the Debian package, in other releases of Debian"
  tests/archive.sh
fi

if $install; then
  part "The real engine, in an environment of its own"
  wait "$making_environment" || echo "error: the environment could not be made:"
  tail -n 5 build/engine-environment.log
fi
engine_python=build/engine-venv/bin/python
engine=false
if [[ -f build/engine-venv/made-from-requirements.txt ]]; then
  engine=true
  part "How the Python is written: ruff"
  "$engine_python" -m ruff check tests
  "$engine_python" -m ruff check --config tests/ruff.toml runtime/python
fi

# Prints again what the tests that failed printed: ctest ends with a list of all skipped ones.
show_failed_tests() { # PRESET
  local logs=build/$1/Testing/Temporary
  awk 'NR == FNR { sub(/^[0-9]+:/, ""); failed[$0]; next }
       / Test: / { name = $0; sub(/.* Test: /, "", name); is_shown = name in failed }
       is_shown' "$logs/LastTestsFailed.log" "$logs/LastTest.log" | tail -n 200
}

part "Unit, golden and style tests (build/release)"
if ! ctest --preset release -j "$jobs" --progress; then
  show_failed_tests release
  stop "tests of build/release failed; what they printed stands above"
fi

if $full; then
  part "Failing calls and kills, an hour of them"
  tests/kill.sh
fi

part "Tests with the real engine"
if $engine; then
  export UCP_BIN="$PWD/build/release/bin"
  "$engine_python" -m pytest tests/engine --quiet -n "$jobs"
  part "The catalogue against the real model classes, and its cuts against real shards"
  "$engine_python" -m pytest tests/catalogue --quiet -n "$jobs"
  "$engine_python" -m pytest tests/cuts --quiet -n "$jobs"
  part "The Python package"
  if compgen -G 'build/release/python/ucp_checkpoint/_ucp.*.so' >/dev/null; then
    "$engine_python" -m pytest tests/python --quiet
  else
    echo "NOT RUN: the tests of the Python package, which was not built; it needs build/python-build."
    [[ "${UCP_REQUIRE_ENGINE:-0}" != 1 ]] || stop "UCP_REQUIRE_ENGINE=1 asks for the tests of the Python package"
  fi
else
  echo "NOT RUN: the tests with the real engine; they need build/engine-venv, which could not be made."
  [[ "${UCP_REQUIRE_ENGINE:-0}" != 1 ]] || stop "UCP_REQUIRE_ENGINE=1 asks for the tests with the real engine"
fi
