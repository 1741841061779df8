#!/usr/bin/env bash
# The Debian packages: built twice with the same bytes, without an error of lintian, installed in a fresh Debian 12,
# used there by two users, removed and purged; and the service in one that is booted (boot.sh). Needs root and a mirror;
# several minutes.
#   tests/package/packages.sh [KEPT_ROOT]      default: a fresh root by debootstrap each time
set -euo pipefail
cd "$(dirname "$0")/../.."
[ "$(id -u)" = 0 ] || { echo "skipped: needs root, for debootstrap and chroot"; exit 77; }
for program in debootstrap lintian cpack; do
    command -v $program >/dev/null || { echo "skipped: $program is not installed"; exit 77; }
done
work=$(mktemp -d /var/tmp/dataloadd-packages-XXXXXX)
trap 'rm -rf --one-file-system "$work"' EXIT
root=${1:-$work/root}
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct 2>/dev/null || stat -c %Y CHANGELOG.md)
export SOURCE_DATE_EPOCH

fail() {
    echo "FAILED: $*"
    exit 1
}

# build NAME: the packages of this tree, in a build folder of its own.
build() {
    {
        cmake --preset package -B "$work/$1" && ninja -C "$work/$1" &&
            (cd "$work/$1" && cpack -G DEB)
    } >"$work/log" 2>&1 || { tail -n 40 "$work/log"; fail "building the packages"; }
}

build first
build second
for deb in "$work"/first/*.deb; do
    name=$(basename "$deb")
    cmp "$deb" "$work/second/$name" || fail "$name differs between two builds"
    # The contact is for whoever publishes the packages to set.
    lintian --allow-root --fail-on error --suppress-tags bogus-mail-host,bogus-mail-host-in-debian-changelog "$deb" ||
        fail "lintian: $name"
    echo "$name: the same bytes from two builds, $(stat -c %s "$deb") bytes"
done

[ -e "$root/etc/debian_version" ] || debootstrap --variant=minbase bookworm "$root" >"$work/log" 2>&1 ||
    { tail "$work/log"; fail "debootstrap"; }
tests/package/boot.sh "$work/first" "$root" || [ $? = 77 ] || fail "the booted service"
cp /etc/resolv.conf "$root/etc/"
cp -n /etc/apt/apt.conf.d/* "$root/etc/apt/apt.conf.d/" 2>/dev/null || true
rm -rf "$root/debs"
mkdir "$root/debs"
cp "$work"/first/*.deb tests/package/in_root.sh "$root/debs/"
tests/support/enter_root.sh "$root" "bash /debs/in_root.sh"
