#!/usr/bin/env bash
# Installs what is missing, builds everything, runs every test. The summary of ctest comes last.
#   ./test.sh           short lengths (under 20 minutes on 2 cores)
#   ./test.sh --long    full lengths
set -uo pipefail
cd "$(dirname "$0")" || exit
. cmake/packages.sh

long=0
for argument in "$@"; do
    case $argument in
    --long) long=1 ;;
    --no-install) export no_install=1 ;;
    *) echo "usage: ./test.sh [--long] [--no-install]" >&2; exit 64 ;;
    esac
done
fuzz_seconds=6
lengths=
if [ $long = 1 ]; then
    export DATALOADD_LONG=1
    packages_test="$packages_test $packages_long"
    fuzz_seconds=600
    lengths="-C long"
fi

# shellcheck disable=SC2086
install_packages $packages_test || exit 69

failures=()
jobs=$(($(nproc) + 1)) # tests wait more than they compute

# stage NAME COMMAND...: runs, times, remembers failure.
stage() {
    local name=$1 start=$SECONDS
    shift
    printf '\n== %s\n' "$name"
    "$@" || failures+=("$name")
    printf '== %s: %d s\n' "$name" $((SECONDS - start))
}

# build PRESET TARGET [OPTION...]
build() {
    local preset=$1 target=$2
    shift 2
    cmake --preset "$preset" "$@" >"build/$preset.log" 2>&1 || { cat "build/$preset.log"; return 1; }
    ninja -C "build/$preset" -k 0 "$target" >"build/$preset.log" 2>&1 || { grep -vE '^\[' "build/$preset.log" | head -n 60; return 1; }
}

# One after the other, beside the tests; at low priority, so that these notice little.
builds() {
    background asan build asan all
    background tsan build tsan all
    background fuzz build fuzz fuzzers -DFUZZ_SECONDS=$fuzz_seconds
    background release build release all
    background tidy tests/lint/tidy.sh build/release
}

# background NAME COMMAND...: leaves its output in build/NAME.stage, then status and seconds in build/NAME.done.
background() {
    local name=$1 start=$SECONDS rc=0
    shift
    "$@" >"build/$name.stage" 2>&1 || rc=$?
    echo "$rc $((SECONDS - start))" >"build/$name.new"
    mv "build/$name.new" "build/$name.done"
}

# finished NAME: waits for it and shows what it said.
finished() {
    local rc=1 seconds
    while [ ! -e "build/$1.done" ] && kill -0 "$builder" 2>/dev/null; do sleep 0.1; done
    cat "build/$1.stage"
    read -r rc seconds <"build/$1.done" && echo "(took $seconds s beside the stages before)"
    return "$rc"
}

run_tests() {
    local preset=$1
    shift
    # shellcheck disable=SC2086
    ctest --test-dir "build/$preset" $lengths --output-on-failure -j "$jobs" "$@" || second_chance "$preset"
}

# second_chance PRESET: what failed is run once more, alone, for a machine that was too busy. What it said is shown at
# the end all the same. None for full lengths, for fuzzing, and for what a sanitizer has found.
second_chance() {
    local preset=$1 results=build/$1/Testing/Temporary
    [ -s "$results/LastTestsFailed.log" ] || return 1
    cp "$results/LastTestsFailed.log" "build/$preset.failed"
    cp "$results/LastTest.log" "build/$preset.said"
    [ $long = 1 ] || [ "$preset" = fuzz ] && return 1
    grep -qE '(Address|Leak|Thread|UndefinedBehavior)Sanitizer|runtime error:' "build/$preset.said" && return 1
    ctest --test-dir "build/$preset" --rerun-failed --output-on-failure
}

# The same with its output kept in build/: only failures and the summary are shown.
run_tests_briefly() {
    local log=build/$1-tests.log rc=0
    run_tests "$@" >"$log" 2>&1 || rc=$?
    grep -vE '^ *Start +[0-9]|   Passed  |^(Internal ctest|Test project)' "$log"
    return $rc
}

# Which tests failed, if only once, and what each said: for a reader who sees only the end of a long log.
tell_failures() {
    local preset name
    for preset in asan tsan fuzz release; do
        [ -e "build/$preset.failed" ] || continue
        while IFS=: read -r _ name; do
            printf '\n== failed at first: %s (%s)\n' "$name" "$preset"
            sed -n "/^[0-9]*\/[0-9]* Testing: ${name//./\\.}\$/,/^Test time/p" "build/$preset.said" | tail -n 40
        done <"build/$preset.failed"
    done
}

mkdir -p build
rm -f build/{asan,tsan,fuzz,release,tidy}.{stage,done,failed,said}
set -m # a process group of its own, so that an interrupt ends all of it
(renice -n 10 $BASHPID >/dev/null && builds) &
builder=$!
set +m
trap 'kill -- -$builder 2>/dev/null' EXIT

stage "build: address and undefined-behaviour sanitizers" finished asan
stage "tests with them" run_tests_briefly asan -LE 'lint|bench|nosan'
stage "build: thread sanitizer" finished tsan
stage "tests with it" run_tests_briefly tsan -LE 'lint|bench|nosan|notsan'
stage "build: fuzz targets" finished fuzz
stage "fuzzing" run_tests_briefly fuzz -L fuzz
stage "build: release" finished release
stage "clang-tidy" finished tidy
printf '\n== all tests\n' # the summary of ctest is the last that is printed
jobs=$((jobs + 1)) # nothing is built beside them
run_tests release || failures+=("all tests")

tell_failures >&2
if [ ${#failures[@]} -gt 0 ]; then
    printf 'FAILED: %s\n' "${failures[@]}" >&2
    exit 1
fi
