#!/usr/bin/env bash
# Proves the wheel in a minimal Debian 12 with Python and nothing else: no compiler, none of our packages, no root, no network.
#   tests/python/wheel.sh [WHEEL]     default: made by client/python/make_wheel.sh
# Takes minutes and a mirror: only with DATALOADD_LONG=1.
set -euo pipefail
cd "$(dirname "$0")/../.."
[ "${DATALOADD_LONG:-0}" = 1 ] || { echo "skipped: takes minutes; DATALOADD_LONG=1 runs it"; exit 77; }
[ "$(id -u)" = 0 ] || { echo "skipped: needs root, for debootstrap and chroot"; exit 77; }
command -v debootstrap >/dev/null || { echo "skipped: needs the package debootstrap"; exit 77; }

root=$(mktemp -d /var/tmp/wheel-XXXXXX)
trap 'rm -rf --one-file-system "$root"' EXIT
wheel=${1:-$(client/python/make_wheel.sh "$root/dist")}
case $wheel in
*-cp39-abi3-manylinux_2_*) ;;
*) echo "the tag of $wheel is not that of one wheel for all"; exit 1 ;;
esac
debootstrap --variant=minbase --include=python3,python3-venv bookworm "$root/debian" >"$root/log" 2>&1 || { tail -n 20 "$root/log"; exit 1; }
cp "$wheel" tests/python/wheel_user.py "$root/debian/srv/"
# shellcheck disable=SC2016
unshare --mount --pid --net --fork bash -c '
    root=$1
    mount --make-rprivate / && mount -t proc proc "$root/proc" && mount -t tmpfs tmpfs "$root/dev"
    mknod -m 666 "$root/dev/null" c 1 3 && mknod -m 666 "$root/dev/urandom" c 1 9
    exec chroot --userspec=1000:1000 "$root" /usr/bin/env -i PATH=/usr/bin:/bin HOME=/tmp/home LANG=C.UTF-8 bash -euc "
        if command -v cc gcc clang; then exit 1; fi
        mkdir /tmp/home && cd /tmp/home && python3 -m venv venv
        venv/bin/pip --quiet install --no-index /srv/*.whl
        venv/bin/dataloadd --version && venv/bin/dataloadctl --version && venv/bin/dataload-pack --version
        venv/bin/dataload-pack sample --images=60 sample
        venv/bin/python -I -B /srv/wheel_user.py sample
        true"' bash "$root/debian"
echo "$wheel"
