#!/usr/bin/env bash
# The service's units as systemd reads them, and how much their sandbox leaves open.
. "$(dirname "$0")/common.sh"
need systemd-analyze
set -euo pipefail
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
units=$root/etc/systemd/system
mkdir -p "$units" "$root/usr/bin" "$root/bin"
cp systemd/*.service systemd/*.socket "$units"
install -m 755 /dev/stdin "$root/usr/bin/dataloadd" </dev/null
install -m 755 /dev/stdin "$root/usr/bin/nvidia-modprobe" </dev/null
install -m 755 /dev/stdin "$root/bin/kill" </dev/null

# What systemd itself brings is not in this root.
complaints=$(systemd-analyze verify --man=no --root="$root" dataloadd.service dataloadd.socket dataloadd-gpu.service 2>&1 |
    grep -E '(^|/)dataloadd' | grep -v 'not found' || true)
[ -z "$complaints" ] || { echo "$complaints"; exit 1; }

# exposure MOST NAME [DROP-IN]: the score is at most so many tenths.
exposure() {
    rm -rf "$units/dataloadd.service.d"
    if [ $# = 3 ]; then
        mkdir "$units/dataloadd.service.d"
        cp "systemd/dataloadd.service.d/$3" "$units/dataloadd.service.d/"
    fi
    local said
    if said=$(systemd-analyze security --no-pager --offline=true --threshold="$1" --root="$root" dataloadd.service); then
        echo "$2: $(tail -n 1 <<<"$said")"
    else
        echo "$2: more than $1 tenths of exposure"
        echo "$said"
        exit 1
    fi
}
exposure 16 "as installed"
exposure 25 "with GPUs" gpu.conf
exposure 16 "local data only" local-only.conf
