#!/usr/bin/env bash
# Runs a command in a system of its own: its processes, mounts and /run end with it. Needs root.
#   tests/support/enter_root.sh ROOT COMMAND
# The mount namespace has ROOT as a mount, so that tests in there can make mount namespaces of their own.
set -euo pipefail
# shellcheck disable=SC2016
exec unshare --mount --pid --fork bash -c '
    root=$1 command=$2
    mount --bind "$root" "$root" && mount --make-rprivate "$root"
    mount -t proc proc "$root/proc"
    mount --rbind /dev "$root/dev"
    mount -t tmpfs tmpfs "$root/run"
    exec chroot "$root" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root TERM=dumb LANG=C.UTF-8 \
        bash -c "$command"' sh "$1" "$2"
