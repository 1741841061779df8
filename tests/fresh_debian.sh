#!/usr/bin/env bash
# Proves the set-up on a fresh Debian 12: a minimal system by debootstrap, this tree as committed, and
# in there ./quickstart.sh and ./test.sh, which must install what they need. Needs root and a mirror.
#   tests/fresh_debian.sh [DIR] [COMMAND...]     default: a temporary folder; both commands
set -euo pipefail
cd "$(dirname "$0")/.."
[ "$(id -u)" = 0 ] || { echo "needs root, for debootstrap and chroot" >&2; exit 77; }
command -v debootstrap >/dev/null || { echo "needs the package debootstrap" >&2; exit 77; }

if [ $# -gt 0 ]; then
    root=$1
    shift
    mkdir -p "$root"
else
    root=$(mktemp -d /var/tmp/fresh-debian-XXXXXX)
    trap 'rm -rf --one-file-system "$root"' EXIT
fi
[ -e "$root/etc/debian_version" ] || debootstrap --variant=minbase bookworm "$root"
cp /etc/resolv.conf "$root/etc/"
cp -n /etc/apt/apt.conf.d/* "$root/etc/apt/apt.conf.d/" 2>/dev/null || true
rm -rf "$root/src"
mkdir "$root/src"
git archive HEAD | tar -x -C "$root/src"
if [ -d ../shared ]; then # handed cases, where they are
    rm -rf "$root/shared"
    cp -r ../shared "$root/shared"
fi
[ $# -gt 0 ] || set -- "./quickstart.sh && ./test.sh"
tests/support/enter_root.sh "$root" "cd /src && $*"
