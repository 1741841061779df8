#!/usr/bin/env bash
# In a fresh Debian 12 without systemd running: installs the packages of /debs, uses them, purges them.
set -euo pipefail
export DEBIAN_FRONTEND=noninteractive
packages=(dataloadd dataloadctl libdataload0 libdataload-dev python3-dataload)

fail() {
    echo "FAILED: $*"
    exit 1
}

apt-get update -q >/dev/null
apt-get install -y -q --no-install-recommends util-linux python3-numpy /debs/*.deb >/tmp/install.log 2>&1 ||
    { tail -n 30 /tmp/install.log; fail "apt-get install"; }
id dataload
for program in dataloadd dataloadctl dataload-pack; do
    $program --version
done

# as USER COMMAND...
as() {
    local user=$1
    shift
    setpriv --reuid "$user" --regid "$user" --init-groups env HOME="/home/$user" "$@"
}

# As the service would: its user, its group's socket, the installed configuration.
install -d -o dataload -g dataload -m 0750 /var/lib/dataloadd /var/cache/dataloadd
install -d -o root -g dataload -m 2775 /run/dataloadd
rm -rf /var/lib/dataloadd/sample
dataload-pack sample /var/lib/dataloadd/sample >/dev/null
chown -R dataload:dataload /var/lib/dataloadd
as dataload dataloadd --config /etc/dataloadd/dataloadd.yaml >/tmp/daemon.log 2>&1 &
serving=$!
id -u alice >/dev/null 2>&1 || useradd alice -G dataload
id -u mallory >/dev/null 2>&1 || useradd mallory
for _ in $(seq 100); do
    as alice dataloadctl ping >/dev/null 2>&1 && break
    sleep 0.1
done
as alice dataloadctl bench sample --seconds 2 | sed -n 1,4p
as alice python3 -c '
import dataload
batch = next(iter(dataload.Loader("sample", batch_size=8, as_="numpy")))
print({name: value.shape for name, value in batch.items() if hasattr(value, "shape")})'
code=0
as mallory dataloadctl status || code=$?
[ $code = 77 ] || fail "whoever is not in the group: exit code $code instead of 77"
kill "$(pidof dataloadd)"
wait "$serving" || fail "the daemon ended with $?"

apt-get remove -y -q "${packages[@]}" >/tmp/remove.log 2>&1 || { tail /tmp/remove.log; fail "apt-get remove"; }
[ -e /etc/dataloadd/dataloadd.yaml ] || fail "the configuration went with a removal"
rm -rf /var/lib/dataloadd/sample
dpkg --purge "${packages[@]}" >/tmp/purge.log 2>&1 || { tail /tmp/purge.log; fail "dpkg --purge"; }
left=$(find / -xdev -path /proc -prune -o -iname '*dataload*' -not -path '/debs/*' -not -path '/var/lib/apt/*' -print)
[ -z "$left" ] || fail "left after purging: $left"
echo "installed, used, removed and purged"
