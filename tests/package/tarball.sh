#!/usr/bin/env bash
# The tarball for people without root: built twice with the same bytes, then unpacked, moved and used by a user of a fresh
# Debian 11, whose glibc is the oldest that it is for. Needs root and a mirror; several minutes.
#   tests/package/tarball.sh [KEPT_ROOT]      default: a fresh root by debootstrap each time
set -euo pipefail
cd "$(dirname "$0")/../.."
[ "$(id -u)" = 0 ] || { echo "skipped: needs root, for debootstrap and chroot"; exit 77; }
command -v debootstrap >/dev/null || { echo "skipped: debootstrap is not installed"; exit 77; }
[ "$(uname -m)" = x86_64 ] || { echo "skipped: it is made on x86-64 only"; exit 77; }
work=$(mktemp -d /var/tmp/dataloadd-tarball-XXXXXX)
trap 'rm -rf --one-file-system "$work"' EXIT
root=${1:-$work/root}

fail() {
    echo "FAILED: $*"
    exit 1
}

cmake/tarball/build.sh "$work/first"
cmake/tarball/build.sh "$work/second" >/dev/null
tarball=$(basename "$work"/first/*.tar.gz)
cmp "$work/first/$tarball" "$work/second/$tarball" || fail "$tarball differs between two builds"
echo "$tarball: the same bytes from two builds"
[ -e "$root/etc/debian_version" ] ||
    debootstrap --variant=minbase --include=python3-numpy,procps,util-linux bullseye "$root" >"$work/log" 2>&1 ||
    { tail "$work/log"; fail "debootstrap"; }
cp "$work/first/$tarball" tests/package/in_old_root.sh "$root/root/"
tests/support/enter_root.sh "$root" "bash /root/in_old_root.sh"
