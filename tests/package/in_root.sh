#!/usr/bin/env bash
# In a fresh Debian 12 without systemd running: installs the packages of /debs, uses them, purges them.
set -euo pipefail
export DEBIAN_FRONTEND=noninteractive
packages="dataloadd dataloadctl libdataload0 libdataload-dev python3-dataload"

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

# As the service would: its user, its group's socket, the installed configuration.
install -d -o dataload -g dataload -m 0750 /var/lib/dataloadd /var/cache/dataloadd
install -d -o root -g dataload -m 2775 /run/dataloadd
dataload-pack sample /var/lib/dataloadd/sample >/dev/null
chown -R dataload:dataload /var/lib/dataloadd
setpriv --reuid dataload --regid dataload --clear-groups dataloadd --config /etc/dataloadd/dataloadd.yaml >/tmp/daemon.log 2>&1 &
daemon=$!
useradd alice -G dataload
useradd mallory
for _ in $(seq 100); do
    setpriv --reuid alice --regid alice --init-groups dataloadctl ping >/dev/null 2>&1 && break
    sleep 0.1
done
setpriv --reuid alice --regid alice --init-groups dataloadctl bench sample --seconds 2 | head -n 4
setpriv --reuid alice --regid alice --init-groups python3 -c '
import dataload
batch = next(iter(dataload.Loader("sample", batch_size=8, convert="numpy")))
print({name: value.shape for name, value in batch.items() if hasattr(value, "shape")})'
code=0
setpriv --reuid mallory --regid mallory --init-groups dataloadctl status || code=$?
[ $code = 77 ] || fail "whoever is not in the group: exit code $code instead of 77"
kill "$daemon"
wait "$daemon" || fail "the daemon ended with $?"

apt-get remove -y -q $packages >/tmp/remove.log 2>&1 || { tail /tmp/remove.log; fail "apt-get remove"; }
[ -e /etc/dataloadd/dataloadd.yaml ] || fail "the configuration went with a removal"
rm -rf /var/lib/dataloadd/sample
apt-get purge -y -q $packages >/tmp/purge.log 2>&1 || { tail /tmp/purge.log; fail "apt-get purge"; }
left=$(find / -xdev -path /proc -prune -o -iname '*dataload*' -not -path '/debs/*' -not -path '/var/lib/apt/*' -print)
[ -z "$left" ] || fail "left after purging: $left"
echo "installed, used, removed and purged"
