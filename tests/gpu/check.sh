#!/usr/bin/env bash
# The hardware check: the one command for a machine with an NVIDIA GPU. It compares its driver with the stand-in rule by rule,
# and measures; nothing of the GPU's settings is changed. It is done within 8 minutes and ends with a table.
#
#   tests/gpu/check.sh --pack      where the tree builds: makes build/gpu (7 MB), all that has to be carried along
#   tests/gpu/check.sh             on the machine: uses build/gpu where it is and runs there, else builds by CMake
#   tests/gpu/check.sh STEP...     these steps only: facts programs rules limits throughput handoff kills suite kernels pictures python pytorch
#   tests/gpu/check.sh --dry       the same on the stand-in: shows that the check itself works
#
# The machine needs the NVIDIA driver, bash and Python 3, no network; the steps python and pytorch are left out where there
# is no NumPy or no PyTorch. Carry the tree and build/gpu (which git ignores). What is written goes to $OUT (else
# build/gpu-check): rows.tsv, rules.tsv, check.log. Without a GPU: exit 77.
# The steps are called by their names, and the launcher is text for another shell.
# shellcheck disable=SC2317,SC2016,SC2086
set -uo pipefail
cd "$(dirname "$0")/../.." || exit
tree=$PWD
out=${OUT:-$tree/build/gpu-check}
all="facts programs rules limits throughput handoff kills suite kernels pictures python pytorch"
targets="dataloadd dataload-pack dataloadctl testclient cuda_standin gpu_probe gpu_limits"

needed_libraries() {
    ldd "$@" | awk '$2 == "=>" && $3 ~ /^\// { print $3 }' | grep -vE '/lib(c|m|dl|rt|pthread)\.so|libdataload' | sort -u
}

# For PROGRAM, which finds the libraries beside it; Python, which starts it, keeps its own.
launcher() {
    local up=${1//[^\/]/}
    up=${up//\//..\/}
    printf '#!/bin/sh\ntop=${0%%/*}/%s\nLD_LIBRARY_PATH=${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$top/lib exec "$top/bin/%s" "$@"\n' \
        "${up%/}" "${1##*/}"
}

pack() {
    local build=$tree/build/release to=$tree/build/gpu program
    cmake --preset release >/dev/null &&
        ninja -C "$build" $targets python_extension || exit
    rm -rf "$to"
    mkdir -p "$to"/{bin,lib,pictures,daemon,client/python/{lib,dataload},tests/e2e,tests/gpu}
    for program in daemon/dataloadd daemon/dataload-pack client/dataloadctl tests/e2e/testclient tests/gpu/gpu_probe tests/gpu/gpu_limits; do
        install -s "$build/$program" "$to/bin"
        launcher "$program" >"$to/$program"
        chmod +x "$to/$program"
    done
    cp -P "$build"/client/libdataload.so* "$to/lib/"
    cp -RP "$build/cuda_standin" "$to/"
    cp -L "$build"/client/python/dataload/* "$to/client/python/dataload/"
    needed_libraries "$to"/client/python/dataload/*.so | xargs cp -Lt "$to/client/python/lib"
    needed_libraries "$build/daemon/dataloadd" "$build/tests/e2e/testclient" | xargs cp -Lt "$to/lib"
    PYTHONPATH=$tree/tests/e2e /usr/bin/python3 -B - "$to/pictures" <<'PYTHON' || exit
import pathlib, sys
from harness import jpeg
for width, height in ((64, 48), (500, 375)):
    for seed in range(16):
        (pathlib.Path(sys.argv[1]) / f"{width}x{height}-{seed}-85-RGB.jpg").write_bytes(jpeg(width, height, seed))
PYTHON
    du -sh "$to"
}

# The programs that are carried run where the C library is new enough; else they are built.
find_build() {
    build=$tree/build/gpu
    [ -x "$build/daemon/dataloadd" ] && "$build/daemon/dataloadd" --version >>"$out/check.log" 2>&1 && return
    echo "the programs of build/gpu do not run here: building" | tee -a "$out/check.log"
    build=$tree/build/release
    cmake --preset release >>"$out/check.log" 2>&1 &&
        ninja -C "$build" $targets >>"$out/check.log" 2>&1 || return
    ninja -C "$build" python_extension >>"$out/check.log" 2>&1 || true # needs headers of Python
}

# with_driver COMMAND...: with the machine's driver, or in a dry run the stand-in.
with_driver() {
    LD_LIBRARY_PATH=${driver:-${LD_LIBRARY_PATH:-}} "$@"
}

with_standin() {
    STANDIN_STRICT=0 STANDIN_REPORT=/dev/null LD_LIBRARY_PATH=$build/cuda_standin "$@"
}

row() {
    printf '%s\t%s\t%s\t%s\n' "$step" "$1" "$2" "${3:-}" >>"$out/rows.tsv"
}

# Rows from standard input: name, figure, unit.
rows() {
    local name figure unit
    while IFS=$'\t' read -r name figure unit; do row "$name" "$figure" "$unit"; done
}

figure() { awk -F'\t' -v step="$1" -v name="$2" '$1 == step && $2 == name { found = $3 } END { print found }' "$out/rows.tsv"; }

# A script of tests that prints rows.
script() {
    local rc=0
    with_driver python3 -B "$@" 2>"$out/script.said" | rows || rc=$?
    cat "$out/script.said" >>"$out/check.log"
    [ "$rc" = 0 ] || tail -n 25 "$out/script.said"
    rm -f "$out/script.said"
    return "$rc"
}

step_facts() {
    row kernel "$(uname -r)"
    row "C library" "$(getconf GNU_LIBC_VERSION)"
    row processors "$(nproc)"
    row memlock "$(ulimit -l)" KiB
    row "ptrace scope" "$(cat /proc/sys/kernel/yama/ptrace_scope 2>/dev/null || echo none)"
    row user "$(id -un)"
    row devices "$(stat -c '%A %U %n' /dev/nvidia* 2>/dev/null | tr '\n' ';')"
    nvidia-smi -q >>"$out/check.log" 2>&1 || { row "nvidia-smi" none; return 0; }
    local what
    for what in name driver_version pcie.link.gen.max pcie.link.width.max compute_mode mig.mode.current memory.used; do
        row "$what" "$(nvidia-smi --query-gpu="$what" --format=csv,noheader -i 0)"
    done
}

step_programs() {
    row build "${build#"$tree"/}"
    row daemon "$(with_driver "$build/daemon/dataloadd" --version)"
    local library=$build/lib/libdataload.so.0
    [ -e "$library" ] || library=$build/client/libdataload.so.0
    row "kernels built in" "$(cuobjdump --list-elf "$library" 2>/dev/null | grep -o 'sm_[0-9a-z]*' | tr '\n' ' ')"
}

step_rules() {
    with_driver "$build/tests/gpu/gpu_probe" >"$out/rules.here" 2>>"$out/check.log"
    with_standin "$build/tests/gpu/gpu_probe" >"$out/rules.standin" 2>>"$out/check.log"
    paste "$out/rules.here" "$out/rules.standin" |
        awk -F'\t' '{ print ($1 ~ /^#/ ? "figure" : $2 == $4 ? "same" : "differs") "\t" $1 "\t" $2 "\t" $4 }' >"$out/rules.tsv"
    row "rules alike" "$(grep -c '^same' "$out/rules.tsv")"
    row "rules that differ" "$(grep -c '^differs' "$out/rules.tsv")"
    grep '^differs' "$out/rules.tsv" | while IFS=$'\t' read -r _ name here standin; do row "$name" "$here" "stand-in: $standin"; done
    grep '^figure' "$out/rules.tsv" | while IFS=$'\t' read -r _ name here _; do row "$name" "$here"; done
    [ "$(wc -l <"$out/rules.here")" = "$(wc -l <"$out/rules.standin")" ]
}

step_limits() {
    with_driver "$build/tests/gpu/gpu_limits" 2>>"$out/check.log" | rows
}

step_throughput() {
    local limit
    limit=$(figure limits pinned_32_mib)
    script tests/gpu/load.py "${limit:-0}" Load.test_throughput
}
step_handoff() { script tests/gpu/load.py 0 Load.test_handing_on; }
step_pictures() { script tests/gpu/load.py 0 Load.test_pictures; }
# with_extension COMMAND...: with its own library, which the machine may lack.
with_extension() {
    driver=${driver:+$driver:}$build/client/python/lib "$@"
}
step_python() {
    with_extension script tests/e2e/test_python_gpu.py OnGpu.test_values OnGpu.test_convert OnGpu.test_closed_with_tensors_alive
}
step_pytorch() { DATALOADD_TEST_DEVICE='' with_extension script tests/gpu/torch_batches.py; }
step_kernels() { script tests/e2e/test_gpu_convert.py Convert.test_values; }

used() { nvidia-smi --query-gpu=memory.used --format=csv,noheader,nounits -i 0 2>/dev/null || echo 0; }

step_kills() {
    local before
    before=$(used)
    script tests/gpu/load.py 0 Load.test_kills || return
    row "memory of the GPU that is left taken" $(($(used) - before)) MiB
}

step_suite() {
    local failed=0 name
    for name in vmm.S02_client_kill ipc.S02_client_kill vmm.S29_slot_reuse vmm.mirror vmm.S03_daemon_restart; do
        if DATALOADD_TEST_HANDOFF=${name%%.*} script "tests/e2e/test_${name#*.}.py"; then
            row "${name#*.}, ${name%%.*}" passed
        else
            row "${name#*.}, ${name%%.*}" FAILED
            failed=1
        fi
    done
    return "$failed"
}

# run STEP SECONDS
run() {
    local begin=$SECONDS rc=0 verdict=PASS
    step=$1
    export -f row rows figure script with_driver with_standin with_extension used "step_$1"
    export step out build driver tree
    printf '== %s\n' "$step" >>"$out/check.log"
    timeout -k 5 "$2" bash -c "set -o pipefail; step_$step" || rc=$?
    case $rc in
    0) ;;
    77) verdict=SKIP ;;
    124 | 137) verdict="FAIL (longer than $2 s)" ;;
    *) verdict=FAIL ;;
    esac
    [ "${verdict%% *}" = FAIL ] && failed=1
    printf 'STEP %s %s %d s\n' "$step" "$verdict" $((SECONDS - begin))
    printf '%s\t%s\t%s\t%s\n' "$step" STEP "$verdict" "$((SECONDS - begin)) s" >>"$out/rows.tsv"
}

limit_of() {
    case $1 in
    facts | programs) echo 20 ;;
    rules | limits | handoff | kernels) echo 45 ;;
    *) echo 100 ;;
    esac
}

dry=0
case ${1:-} in
--pack) pack; exit ;;
--dry) dry=1; shift ;;
-*) echo "usage: tests/gpu/check.sh [--pack | --dry] [STEP...]" >&2; exit 64 ;;
esac
mkdir -p "$out"
: >"$out/check.log"
: >"$out/rows.tsv"
find_build || { echo "FAIL: there are no programs that run here, and they cannot be built: see $out/check.log"; exit 1; }
driver=
if [ $dry = 1 ]; then
    driver=$build/cuda_standin
    export STANDIN_DOMAIN=check$$ STANDIN_MEMORY_MB=8192 STANDIN_PEER_DEATH=keep
fi
if ! with_driver "$build/tests/gpu/gpu_probe" "no context" >"$out/probe" 2>"$out/why" || ! grep -q 201 "$out/probe"; then
    echo "skipped: no usable NVIDIA GPU here: $(cat "$out/why")"
    exit 77
fi
rm -f "$out/probe" "$out/why"
export DATALOADD_BUILD=$build DATALOADD_SOURCE=$tree DATALOADD_TEST_DEVICE=cuda DATALOADD_TEST_DRIVER=any \
    DATALOADD_TEST_PICTURES=$tree/build/gpu/pictures PYTHONUNBUFFERED=1
failed=0
read -ra steps <<<"${*:-$all}"
for name in "${steps[@]}"; do
    [[ " $all " == *" $name "* ]] || { echo "there is no step $name: $all" >&2; exit 64; }
    run "$name" "$(limit_of "$name")"
done

printf '\n| step | what | figure | unit |\n|---|---|---|---|\n'
awk -F'\t' '{ print "| " $1 " | " $2 " | " $3 " | " $4 " |" }' "$out/rows.tsv"
exit "$failed"
