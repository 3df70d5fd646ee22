#!/usr/bin/env bash
# Makes the archives that a portable build links and Debian does not have, or not for shared libraries, from the sources
# of Debian's own packages: build/portable-libraries. Does nothing if they are there.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/announce.sh

folder=$PWD/build/portable-libraries
packages=(antlr4-cpp-runtime fmtlib highway mimalloc re2)
[[ -e $folder/complete && $(<"$folder/complete") == "${packages[*]}" ]] && exit 0

step "Sources of ${packages[*]}, from Debian"
rm -rf "$folder"
mkdir -p "$folder/lists/partial" "$folder/source" "$folder/licences"
# The sources are where this machine has its packages from.
mkdir "$folder/from"
if [[ -e /etc/apt/sources.list.d/debian.sources ]]; then
  sed 's/^Types:.*/Types: deb-src/' /etc/apt/sources.list.d/debian.sources >"$folder/from/debian.sources"
elif [[ -e /etc/apt/sources.list ]]; then
  sed -n 's/^deb /deb-src /p' /etc/apt/sources.list >"$folder/from/debian.list"
else
  stop "this machine names no packages of Debian in /etc/apt; build portable programs where it does"
fi
apt=(apt-get -q -o Dir::Etc::sourcelist=- -o "Dir::Etc::sourceparts=$folder/from" -o "Dir::State::lists=$folder/lists"
  -o APT::Sandbox::User=root)
"${apt[@]}" update >"$folder/log" 2>&1 || stop "the list of sources could not be read; $folder/log has what apt-get said"
(cd "$folder/source" && "${apt[@]}" source "${packages[@]}") >>"$folder/log" 2>&1 ||
  stop "the sources could not be had; $folder/log has what apt-get said"

compile() { # PACKAGE FOLDER-IN-IT ARCHIVE TARGET OPTION…: leaves the archive and the licence
  local package=$1 inside=$2 archive=$3 target=$4
  shift 4
  local source
  source=$(echo "$folder/source/$package"-*/)
  cmake -S "$source/$inside" -B "$folder/build-$package" -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_CXX_STANDARD=17 \
    -DCMAKE_POSITION_INDEPENDENT_CODE=ON -DBUILD_SHARED_LIBS=OFF -DCMAKE_C_FLAGS="-ffunction-sections -fdata-sections" \
    -DCMAKE_CXX_FLAGS="-ffunction-sections -fdata-sections" "$@" >>"$folder/log" 2>&1 ||
    stop "$package could not be configured; $folder/log says why"
  cmake --build "$folder/build-$package" --target "$target" >>"$folder/log" 2>&1 ||
    stop "$package could not be compiled; $folder/log says why"
  cp "$(find "$folder/build-$package" "$source" -name "$archive" -type f | head -n 1)" "$folder/$archive"
  cp "$source/debian/copyright" "$folder/licences/$package"
}

step "Archives"
compile antlr4-cpp-runtime . libantlr4-runtime.a antlr4_static
compile fmtlib . libfmt.a fmt -DFMT_TEST=OFF -DFMT_DOC=OFF
compile highway . libhwy.a hwy -DBUILD_TESTING=OFF -DHWY_ENABLE_TESTS=OFF -DHWY_ENABLE_EXAMPLES=OFF
compile mimalloc . libmimalloc.a mimalloc-static -DMI_BUILD_TESTS=OFF -DMI_OVERRIDE=ON
# The programs have operators new of their own (compiler/command_line/throwing_new.cpp).
objcopy --wildcard --weaken-symbol='_Zn*' --weaken-symbol='_Zd*' "$folder/libmimalloc.a"

# Debian's archive of RE2 is for programs alone. Its tables are data, which a shared library takes; what generates them
# wants the Unicode Consortium's files.
re2=$(echo "$folder"/source/re2-*/)
mkdir "$folder/build-re2"
(
  cd "$folder/build-re2"
  ar x "$(c++ -print-file-name=libre2.a)" perl_groups.o unicode_casefold.o unicode_groups.o
  for source in "$re2"/re2/*.cc "$re2"/util/{rune,strutil}.cc; do
    c++ -std=c++17 -O2 -DNDEBUG -fPIC -pthread -ffunction-sections -fdata-sections -I "$re2" -c "$source"
  done
  ar rcs "$folder/libre2.a" ./*.o
) >>"$folder/log" 2>&1 || stop "re2 could not be compiled; $folder/log says why"
cp "$re2/debian/copyright" "$folder/licences/re2"

# The rest that is linked or compiled in: its archives and headers are those of the installed packages.
for package in llvm-19-dev libdeflate-dev zlib1g-dev libzstd-dev libxxhash-dev libcli11-dev libflatbuffers-dev \
  libstdc++-12-dev; do
  [[ ! -e /usr/share/doc/$package/copyright ]] || cp "/usr/share/doc/$package/copyright" "$folder/licences/$package"
done
rm -rf "$folder/lists" "$folder/from" "$folder"/build-* "$folder/source"
echo "${packages[*]}" >"$folder/complete"
