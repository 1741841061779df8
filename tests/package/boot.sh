#!/usr/bin/env bash
# The service as it is used: a Debian 12 of its own is booted (systemd-nspawn), and in there the package is installed,
# serves whoever is in its group, is restarted, killed and upgraded under running trainers, removed and purged.
# Needs root, a mirror for debootstrap, and packages built before (BUILD/*.deb, see packages.sh).
#   tests/package/boot.sh DEB_FOLDER [BASE]      BASE: a minimal system, made where it is not there, and left as it is
set -euo pipefail
cd "$(dirname "$0")/../.."
[ "$(id -u)" = 0 ] || { echo "skipped: needs root, to boot a system"; exit 77; }
for program in debootstrap systemd-nspawn; do
    command -v $program >/dev/null || { echo "skipped: $program is not installed"; exit 77; }
done
debs=$(realpath "$1")
work=$(mktemp -d /var/tmp/dataloadd-boot-XXXXXX)
trap 'rm -rf --one-file-system "$work"' EXIT
base=${2:-$work/base}
root=$work/root

[ -e "$base/etc/debian_version" ] || debootstrap --variant=minbase bookworm "$base" >"$work/log" 2>&1
cp -a "$base" "$root"
cp /etc/resolv.conf "$root/etc/"
cp -n /etc/apt/apt.conf.d/* "$root/etc/apt/apt.conf.d/" 2>/dev/null || true
rm -rf "$root/debs"
mkdir "$root/debs"
cp "$debs"/*.deb tests/package/in_boot.sh tests/package/restarts.py "$root/debs/"
# What the packages depend on comes before the boot, so that the booted system needs no network.
# shellcheck disable=SC2016
chroot "$root" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root DEBIAN_FRONTEND=noninteractive bash -c '
    apt-get update -q && apt-get install -y -q --no-install-recommends systemd systemd-sysv util-linux procps \
        python3-numpy adduser $(for deb in /debs/*.deb; do dpkg-deb -f "$deb" Depends; done | tr , "\n" |
            sed "s/(.*//; s/|.*//" | grep -v dataload | sort -u)' >"$work/log" 2>&1 || { tail "$work/log"; exit 1; }
cat >"$root/etc/systemd/system/in-boot.service" <<'UNIT'
[Unit]
After=multi-user.target
[Service]
Type=oneshot
ExecStart=/bin/bash /debs/in_boot.sh
StandardOutput=append:/debs/said
StandardError=inherit
ExecStopPost=/bin/systemctl --no-block poweroff
UNIT
mkdir -p "$root/etc/systemd/system/multi-user.target.wants"
ln -sf ../in-boot.service "$root/etc/systemd/system/multi-user.target.wants/in-boot.service"
timeout -k 10 400 systemd-nspawn --quiet --directory="$root" --register=no --keep-unit --private-network --boot \
    </dev/null >"$work/console" 2>&1 || { tail -n 30 "$work/console"; }
cat "$root/debs/said"
grep -q '^all is as it should be$' "$root/debs/said"
