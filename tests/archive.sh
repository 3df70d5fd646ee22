#!/usr/bin/env bash
# Makes what scripts/make-archive.sh makes, and uses it where nothing else is: the archive in a root folder that is empty,
# both in Debian's releases before and after the one that made them, as debootstrap installs them. There a fixture is
# converted into the same bytes as by the programs of build/release. As root, and with a mirror of Debian.
#
#   tests/archive.sh [--made]   --made: takes those of build/archive as they are
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/announce.sh

((EUID == 0)) || stop "only root can change the root folder of a process"
[[ ${1:-} == --made ]] || scripts/make-archive.sh
releases=(bullseye trixie)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
archive=$(ls "$PWD"/build/archive/ucp-*-linux-*.tar.gz)
package=$(ls "$PWD"/build/archive/ucp_*.deb)
mirror=$(sed -n 's/^URIs: *\([^ ]*\).*/\1/p' /etc/apt/sources.list.d/debian.sources | head -n 1)

inside() { # ROOT PROGRAM ARGUMENT…: runs it there, without any variable
  # shellcheck disable=SC2016 # The inner shell expands them.
  env -i PATH="$PATH" unshare --mount sh -ec 'mount --bind /proc "$0/proc"; exec env -i /usr/sbin/chroot "$0" "$@"' "$@"
}

convert=(--to universal --spec megatron_deepspeed_gpt)
cp -r tests/fixtures/gpt_pp2_tp2_dp2/checkpoint "$folder/checkpoint"
build/release/bin/ucprun convert "$folder/checkpoint" "$folder/expected" "${convert[@]}" >/dev/null

use() { # ROOT FOLDER: the programs of a folder inside
  inside "$1" "$2/ucprun" --version
  inside "$1" "$2/ucpc" check megatron_deepspeed_gpt
  inside "$1" "$2/ucprun" convert /tmp/checkpoint /tmp/out "${convert[@]}"
  inside "$1" "$2/ucprun" verify /tmp/out --same /tmp/checkpoint --spec megatron_deepspeed_gpt
  diff -r -x ucp_manifest.json "$folder/expected" "$1/tmp/out" || stop "the programs of build/release write other bytes"
  rm -rf "$1/tmp/out"
}

step "${archive##*/}: what it needs, and whose licences it has"
empty=$folder/empty
mkdir -p "$empty"/{proc,tmp,opt}
tar -xzf "$archive" -C "$empty/opt"
apart=$(echo "$empty"/opt/ucp-*)
for program in ucpc ucprun; do
  ! readelf -lW "$apart/bin/$program" | grep -E 'INTERP|\(NEEDED\)' || stop "$program needs a library of the system"
done
version=$(cut -d - -f 2 <<<"${archive##*/}")
grep -qx "ARG VERSION=$version" scripts/Containerfile || stop "scripts/Containerfile is for another version than $version"
for licence in antlr4-cpp-runtime fmtlib highway mimalloc re2 llvm-19-dev libdeflate-dev zlib1g-dev libzstd-dev \
  libxxhash-dev libcli11-dev libflatbuffers-dev libstdc++-12-dev libc6-dev; do
  [[ -s $apart/share/doc/ucp/licences/$licence ]] || stop "it lacks the licence of $licence"
done

step "The archive in an empty root"
cp -r "$folder/checkpoint" "$empty/tmp"
use "$empty" "${apart#"$empty"}/bin"
# A plugin would bring another C library into the process.
echo "not a plugin" >"$apart/bin/ucp_mpi.so"
! OMPI_COMM_WORLD_SIZE=2 "$apart/bin/ucprun" convert "$folder/checkpoint" "$folder/out" "${convert[@]}" \
  2>"$folder/message" || stop "it converted as a rank of two without MPI"
grep "this ucprun was built without MPI" "$folder/message"
rm "$apart/bin/ucp_mpi.so"

# Files of a root, without what dpkg notes down.
files() { find "$1" -path "$1/var/lib/dpkg" -prune -o -path "$1/var/log" -prune -o -path "$1/tmp" -prune -o -print; }

for release in "${releases[@]}"; do
  step "Debian's $release"
  root=$folder/$release
  debootstrap --variant=minbase "$release" "$root" "$mirror" >"$folder/log" 2>&1 || {
    tail -n 5 "$folder/log" >&2
    stop "debootstrap could not install it from $mirror; its last words stand above"
  }
  cp -r "$folder/checkpoint" "$root/tmp"
  files "$root" >"$folder/before"
  cp -r "$apart" "$root/opt/ucp"
  use "$root" /opt/ucp/bin
  # Names come from /etc/hosts and DNS alone: `compat` and the like are libraries for the release's own C library.
  cp "$root/etc/nsswitch.conf" "$folder/nsswitch.conf"
  printf 'hosts: compat db files dns\nservices: db files\n' >"$root/etc/nsswitch.conf"
  ! inside "$root" /opt/ucp/bin/ucprun cluster status --endpoint no-such-host.invalid:1 2>"$folder/message" ||
    stop "a coordinator was found at a name of no machine"
  grep '^ucprun: error: the coordinator at no-such-host.invalid:1: ' "$folder/message"
  cp "$folder/nsswitch.conf" "$root/etc/nsswitch.conf"
  rm -r "$root/opt/ucp"

  cp "$package" "$root/tmp/ucp.deb"
  inside "$root" /usr/bin/env PATH="$PATH" dpkg --install /tmp/ucp.deb
  use "$root" /usr/bin
  inside "$root" /usr/bin/env PATH="$PATH" dpkg --purge ucp
  files "$root" | diff "$folder/before" - || stop "the package leaves other files than were there before it"
  rm -rf "$root"
done
