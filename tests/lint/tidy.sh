#!/usr/bin/env bash
# clang-tidy with .clang-tidy over the product code.
#   tidy.sh BUILD_FOLDER [FILE...]
build=$(cd "${1:?usage: tidy.sh BUILD_FOLDER [FILE...]}" && pwd) || exit 1
shift
. "$(dirname "$0")/common.sh"
if ! command -v clang-tidy >/dev/null; then
    echo "skipped: clang-tidy is not installed"
    exit 0
fi
[ $# -gt 0 ] || mapfile -t found < <(find proto client daemon -name '*.c' | LC_ALL=C sort)
[ $# -gt 0 ] && found=("$@")
printf '%s\0' "${found[@]}" |
    xargs -0 -n 4 -P "$(nproc)" clang-tidy --quiet -p "$build" 2> >(grep -vE 'warnings? generated|^Suppressed|^Use -header' >&2)
