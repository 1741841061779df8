#!/usr/bin/env bash
# From a fresh clone to real batches in two trainers, with one command.
#   ./quickstart.sh                    makes its own sample set
#   ./quickstart.sh DIR                one image folder: DIR/class/picture.jpg
#   ./quickstart.sh A.tar B.tar ...    WebDataset shards
# --no-install: do not install packages, name what is missing.
set -euo pipefail
top=$(cd "$(dirname "$0")" && pwd)
. "$top/cmake/packages.sh"

usage() {
    sed -n '2,6s/^# \{0,1\}//p' "$top/quickstart.sh"
    exit "$1"
}

wrong() {
    echo "quickstart: $*" >&2
    exit 64
}

no_install=0
sources=()
for argument in "$@"; do
    case $argument in
    --no-install) no_install=1 ;;
    -h | --help) usage 0 ;;
    -*) echo "quickstart: unknown option $argument" >&2; usage 64 >&2 ;;
    *) [ -e "$argument" ] || wrong "'$argument' does not exist; name an image folder, or tar shards"
       sources+=("$(realpath "$argument")") ;;
    esac
done
for source in "${sources[@]}"; do
    [ -d "$source" ] || continue
    [ ${#sources[@]} -eq 1 ] || wrong "$source is a directory: give one image folder alone, or only tar shards"
    [ -n "$(find -L "$source" -mindepth 2 -maxdepth 2 -print -quit)" ] || [ -n "$(compgen -G "$source/*.tar")" ] ||
        wrong "$source has no folder of a class in it: pictures are wanted as $source/CLASS/NAME.jpg"
    [ -z "$(compgen -G "$source/*.tar")" ] || wrong "$source holds tar shards: give them as '$source'/*.tar"
done
cd "$top"

step() { printf '\n== %s\n' "$*"; }

step "packages"
# shellcheck disable=SC2086
install_packages $packages_build || exit 69
echo "all there"

step "build (build/quickstart)"
mkdir -p build
exec 9>build/quickstart.lock
flock -n 9 || { echo "another quickstart is building here: waiting for it"; flock 9; }
cmake -S . -B build/quickstart -G Ninja -DDATALOADD_TESTS=OFF >build/quickstart.log ||
    { cat build/quickstart.log; exit 69; }
ninja -C build/quickstart
bin=$top/build/quickstart
ctl=$bin/client/dataloadctl

if [ ${#sources[@]} -eq 0 ]; then
    sample=$top/build/sample
    if [ ! -e "$sample/done" ]; then
        step "sample set: 2000 photo-like pictures in 8 classes (build/sample)"
        rm -rf "$sample"
        "$bin/daemon/dataload-pack" sample "$sample" --images 2000 --classes 8 >/dev/null
        touch "$sample/done"
    fi
    sources=("$sample"/*.tar)
fi
exec 9>&-

run=$(mktemp -d)
daemon=
patient=
trainers=()
stop() {
    # Once more after a second: what has only just been forked overlooks it.
    for process in "${trainers[@]}" $daemon $patient; do
        while kill "$process" 2>/dev/null; do
            for _ in {1..20}; do kill -0 "$process" 2>/dev/null && sleep 0.05; done
        done
    done
    wait
    rm -rf "$run"
}
trap stop EXIT
trap 'exit 130' INT TERM
# Of a Ctrl-C that comes just as a command ends by itself bash takes no notice, unless it waits like this.
patiently() {
    "$@" &
    patient=$!
    wait $patient
}

quoted() { printf "'%s'" "${1//\'/\'\'}"; } # for YAML
{
    echo "cache: { path: $(quoted "$top/build/cache") }"
    echo "feeds:"
    echo "  - name: quickstart"
    if [ -d "${sources[0]}" ]; then
        echo "    folder: $(quoted "${sources[0]}")"
    else
        echo "    source:"
        for source in "${sources[@]}"; do
            echo "      - $(quoted "$source")"
        done
    fi
    echo "    transform: train"
    echo "    batch: 32"
} >"$run/dataloadd.yaml"

step "the data, and what two trainers take: dataloadd --check-config --world 2"
"$bin/daemon/dataloadd" --user --check-config --world 2 --config "$run/dataloadd.yaml" || exit 69

step "the daemon, for you alone: dataloadd --user"
export DATALOADD_SOCKET=$run/control.sock
"$bin/daemon/dataloadd" --user --socket "$DATALOADD_SOCKET" --config "$run/dataloadd.yaml" 2>"$run/daemon.log" &
daemon=$!
for _ in {1..100}; do
    patiently "$ctl" ping >/dev/null 2>&1 && break
    kill -0 "$daemon" 2>/dev/null || { cat "$run/daemon.log" >&2; exit 69; }
    patiently sleep 0.1
done
patiently "$ctl" ping
"$ctl" status | sed -n '2s/^memory [^;]*; //p' # what it says of the device

step "two trainers of one job, one epoch (client/examples/trainer.c); Ctrl-C stops everything"
for rank in 0 1; do
    "$bin/client/example-trainer" quickstart 32 "$rank" 2 >"$run/trainer$rank.log" 2>&1 &
    trainers+=($!)
done
working() { kill -0 "${trainers[@]}" 2>/dev/null; }
# The last picture of the daemon with both at work, best one with 2 seconds of figures behind it.
shown=
for _ in {1..60}; do
    patiently "$ctl" status >"$run/status"
    now=$(<"$run/status")
    case $now in *closing*) ;; *" 0/2 "*" 1/2 "* | *" 1/2 "*" 0/2 "*) shown=$now ;; esac # both are attached
    case $now in *measuring*) ;; *" limits: "*) break ;; esac
    working || break
    patiently sleep 0.1
done
step "while they run: dataloadctl status"
printf '%s\n' "${shown:-too little data: they have ended already}"
while working; do
    "$ctl" status --no-headers | awk '$4 == "0/2" { print "step " $7 ", " $8 " samples/s a trainer" }'
    patiently sleep 2
done
failed=0
for trainer in "${trainers[@]}"; do
    wait "$trainer" || failed=1
done
trainers=()
step "what the trainers said"
for rank in 0 1; do
    sed "s/^/rank $rank: /" "$run/trainer$rank.log" | tail -n 4
done
[ $failed -eq 0 ] || { echo "a trainer failed; the daemon said:" >&2; cat "$run/daemon.log" >&2; exit 1; }

step "the first batch as a picture"
"$ctl" show quickstart --out "$top/build/quickstart-sheet.png"
echo "contact sheet: build/quickstart-sheet.png"

step "done; everything is stopped. With your own data:"
cat <<TXT
  $bin/daemon/dataload-pack folder PICTURES SHARDS   # once: an image folder into shards; prints the feed for the configuration
  $bin/daemon/dataloadd --user --config FILE.yaml    # systemd/dataloadd.yaml is a commented sample
  $bin/client/example-trainer FEED                   # a trainer of under 100 lines to start from
TXT
