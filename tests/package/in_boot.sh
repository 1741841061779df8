#!/usr/bin/env bash
# Runs in the system that boot.sh boots.
set -euo pipefail
export DEBIAN_FRONTEND=noninteractive
packages=(dataloadd dataloadctl libdataload0 libdataload-dev python3-dataload)

fail() {
    echo "FAILED: $*"
    systemctl --no-pager status dataloadd.service dataloadd.socket || true
    journalctl --no-pager -n 12 -u dataloadd || true
    exit 1
}

# as USER COMMAND...
as() {
    local user=$1
    shift
    setpriv --reuid "$user" --regid "$user" --init-groups env HOME="/home/$user" "$@"
}

# until_true SECONDS COMMAND...
until_true() {
    local tries=$(($1 * 10))
    shift
    for _ in $(seq $tries); do
        "$@" >/dev/null 2>&1 && return
        sleep 0.1
    done
    fail "after $((tries / 10)) s still not: $*"
}

pid() {
    systemctl show --value -p MainPID dataloadd
}

# hung: what is seen of a daemon that does not answer.
hung() {
    kill -STOP "$(pid)"
    as alice dataloadctl status >/tmp/hung 2>&1 || true
    kill -CONT "$(pid)"
    grep -q 'does not answer' /tmp/hung || { cat /tmp/hung; fail "a daemon that hangs is not called so"; }
    grep -q sample /tmp/hung || { cat /tmp/hung; fail "no client is seen of a daemon that hangs"; }
    echo "hung: $(head -n 1 /tmp/hung)"
}

# goes_on WHAT: the trainer has taken more batches than before.
goes_on() {
    local before
    before=$(cat /tmp/steps)
    until_true 20 bash -c "[ \$(cat /tmp/steps) -gt $((before + 5)) ]"
    echo "$1: the trainer goes on after step $before"
}

# field NAME FILE: its value in an entry printed as JSON.
field() {
    python3 -c 'import json, sys; print(json.loads(open(sys.argv[2]).readline())[sys.argv[1]])' "$@"
}

# What an operator sees of alice's trainer: fields, kinds of events and their explanation, the status line.
logs() {
    local attached=bc9de6bbb4564f7daf9515c0129b9621 detached=1b174043a63e4669b524927c2402dad0
    until_true 10 bash -c "journalctl -u dataloadd -o json MESSAGE_ID=$attached DATALOADD_JOB=boot >/tmp/entry; [ -s /tmp/entry ]"
    [ "$(field DATALOADD_USER /tmp/entry) $(field DATALOADD_FEED /tmp/entry) $(field DATALOADD_RANK /tmp/entry)" = "alice sample 0" ] ||
        fail "the entry of alice's attach: $(cat /tmp/entry)"
    [ "$(field DATALOADD_UID /tmp/entry)" = "$(id -u alice)" ] || fail "the entry of alice's attach: $(cat /tmp/entry)"
    [ "$(field _COMM /tmp/entry) $(field _SYSTEMD_UNIT /tmp/entry)" = "dataloadd dataloadd.service" ] || fail "journald does not know whose entry it is"
    journalctl --no-pager -x -u dataloadd MESSAGE_ID=$attached | grep -q "A trainer is being served" || fail "the catalog is not installed"
    as alice python3 -c '
import dataload
loader = dataload.Loader("sample", batch_size=8, as_="numpy", job="slurm-12.0")
for batch, _ in zip(loader, range(3)): pass
loader.close()'
    until_true 10 bash -c "journalctl -u dataloadd -o json MESSAGE_ID=$detached DATALOADD_SLURM_JOB=12 >/tmp/entry; [ -s /tmp/entry ]"
    [ "$(field DATALOADD_USER /tmp/entry)" = alice ] || fail "the account: $(cat /tmp/entry)"
    echo "account: $(field DATALOADD_SAMPLES /tmp/entry) samples, $(field DATALOADD_CPU_SECONDS /tmp/entry) s of CPU time"
    until_true 10 bash -c "systemctl show --value -p StatusText dataloadd | grep -q '^1 client, '"
    echo "status line: $(systemctl show --value -p StatusText dataloadd)"
}

dpkg -i /debs/*.deb >/tmp/install.log 2>&1 || { tail /tmp/install.log; fail "dpkg -i"; }
systemctl is-active --quiet dataloadd.socket || fail "the socket is not active after the installation"
until_true 10 systemctl is-active --quiet dataloadd.service
echo "installed and running"
stat -c '%n %U:%G %a' /run/dataloadd/control.sock /etc/dataloadd/dataloadd.yaml /var/lib/dataloadd /var/cache/dataloadd

for user in alice mallory; do # a root that was kept has them
    id -u $user >/dev/null 2>&1 || useradd $user
done
usermod -aG dataload alice
dataload-pack sample /var/lib/dataloadd/sample >/dev/null 2>&1
chmod -R a+rX /var/lib/dataloadd
dataloadd --check-config >/dev/null || fail "the configuration of the package"
[ -z "$(find /var/cache/dataloadd -user root)" ] || fail "what root checks, he leaves in the cache of the service"
as alice dataloadctl status >/tmp/said || fail "alice, of the group, gets no status"
grep -q ' /run/dataloadd/control.sock' /tmp/said || { cat /tmp/said; fail "status does not name the socket"; }
code=0
as mallory dataloadctl status 2>/tmp/said || code=$?
[ $code = 77 ] || fail "mallory, not of the group: exit code $code instead of 77"
echo "refused: $(cat /tmp/said)"

cat >/tmp/train.py <<'PYTHON'
import dataload, os
loader = dataload.Loader("sample", batch_size=8, as_="numpy", job="boot")
taken = 0
while True:
    for batch in loader:
        taken += 1
        with open("/tmp/steps.new", "w") as file:
            file.write(str(taken))
        os.rename("/tmp/steps.new", "/tmp/steps")
PYTHON
echo 0 >/tmp/steps
chmod 777 /tmp
as alice python3 /tmp/train.py >/tmp/trainer.log 2>&1 &
until_true 20 test -s /tmp/steps
goes_on "serving"
logs
hung
systemctl restart dataloadd || fail "restart"
goes_on "restarted"
former=$(pid)
kill -9 "$former"
until_true 10 bash -c "pid=\$(systemctl show --value -p MainPID dataloadd); [ \$pid != 0 ] && [ \$pid != $former ]"
goes_on "killed"
former=$(pid)
dpkg -i /debs/*.deb >/tmp/upgrade.log 2>&1 || fail "upgrade"
[ "$(pid)" != "$former" ] || fail "the upgrade has not restarted the service"
goes_on "upgraded"
pkill -f train.py
wait || true
grep -v Terminated /tmp/trainer.log && { cat /tmp/trainer.log; fail "the trainer has complained"; }
python3 -B /debs/restarts.py alice 20 || fail "restarts under four trainers"

# A service that opens its socket itself.
cat >/etc/systemd/system/own.service <<'UNIT'
[Service]
Type=notify
ExecStart=/usr/bin/dataloadd --config /etc/dataloadd/dataloadd.yaml --socket /run/own/control.sock
FileDescriptorStoreMax=4
RuntimeDirectory=own
RuntimeDirectoryPreserve=restart
UNIT
systemctl start own
until_true 5 bash -c "systemctl show -p NFileDescriptorStore own | grep -qx NFileDescriptorStore=3"
connects() {
    python3 -c '
import socket, sys, time
end = time.monotonic() + 4
while time.monotonic() < end:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as peer:
        peer.connect("/run/own/control.sock")
    time.sleep(0.002)'
}
connects &
for _ in 1 2 3; do
    systemctl restart own || fail "restart of a service with its own socket"
    sleep 0.5
done
wait $! || fail "a connection was refused while a service with its own socket was restarted"
[ "$(systemctl show --value -p NFileDescriptorStore own)" = 2 ] || fail "what is kept: $(systemctl show -p NFileDescriptorStore own)"
systemctl stop own
[ ! -e /run/own/control.sock ] || fail "the socket is there after the service was stopped"
echo "a socket of its own is kept over restarts, and goes with a stop"

cp /etc/dataloadd/dataloadd.yaml /tmp/good.yaml
echo "feedz: []" >>/etc/dataloadd/dataloadd.yaml
systemctl restart dataloadd && fail "a wrong configuration starts"
for _ in $(seq 20); do # trainers that want to reconnect
    as alice dataloadctl ping >/dev/null 2>&1 || true
    sleep 0.1
done
starts=$(journalctl -u dataloadd -o cat | grep -c feedz)
echo "$starts starts with a wrong configuration under 20 connections"
[ "$starts" -lt 10 ] || fail "a wrong configuration is tried again and again"
echo "wrong configuration: exit status $(systemctl show --value -p ExecMainStatus dataloadd)," \
    "$(systemctl show --value -p NRestarts dataloadd) more tries"
[ "$(systemctl show --value -p ExecMainStatus dataloadd)" = 78 ] || fail "exit status of a wrong configuration"
[ "$(systemctl show --value -p NRestarts dataloadd)" = 0 ] || fail "a wrong configuration loops"
journalctl --no-pager -u dataloadd -o cat | grep feedz | tail -n 1
cp /tmp/good.yaml /etc/dataloadd/dataloadd.yaml
systemctl restart dataloadd || fail "restart with the configuration mended"
until_true 10 as alice dataloadctl ping
systemd-analyze --no-pager security dataloadd.service | tail -n 1
grep -Eq '^Max core file size +0 +0' "/proc/$(pid)/limits" || fail "it may leave a core dump"

begun=$(date +%s%N)
systemctl stop dataloadd.service
echo "stopped in $((($(date +%s%N) - begun) / 1000000)) ms"
systemctl start dataloadd.service
dpkg --remove "${packages[@]}" >/tmp/remove.log 2>&1 || { tail /tmp/remove.log; fail "remove"; }
systemctl is-active --quiet dataloadd.service && fail "the service runs after its removal"
[ -e /etc/dataloadd/dataloadd.yaml ] || fail "the configuration went with a removal"
rm -rf /var/lib/dataloadd/sample
dpkg --purge "${packages[@]}" >/tmp/purge.log 2>&1 || { tail /tmp/purge.log; fail "purge"; }
left=$(find / -xdev \( -path /proc -o -path /tmp -o -path /sys \) -prune -o -iname '*dataload*' -not -path '/debs/*' -print)
[ -z "$left" ] || fail "left after purging: $left"
echo "all is as it should be"
