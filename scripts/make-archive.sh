#!/usr/bin/env bash
# Makes an archive and a Debian package of ucpc and ucprun, with the specs and the documents, in build/archive. The
# programs hold every library that they need, the C library among them, so that they run on any x86-64 Linux. They open
# no plugins: no MPI, no GPUs.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/announce.sh

export CC=cc CXX=c++ # The compiler cache hashes the name, and CMake calls them so.
scripts/make-portable-libraries.sh
step "Static build (build/static)"
cmake --preset release -B build/static --log-level=WARNING -DUCP_PORTABLE=ON -DUCP_STATIC=ON -DUCP_BUILD_TESTS=OFF \
  -DUCP_MPI=OFF -DUCP_CUDA=OFF
cmake --build build/static --target ucpc ucprun -- --quiet
step "Archive and Debian package (build/archive)"
rm -rf build/archive
cpack --config build/static/CPackConfig.cmake -B build/archive >build/static/cpack.log 2>&1 ||
  stop "cpack failed; build/static/cpack.log says why"
rm -rf build/archive/_CPack_Packages
ls -l build/archive
