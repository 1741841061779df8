# shellcheck shell=bash
# Sourced by the checks of this folder. They print what is wrong, one line each, and end with 0, 1, or 77
# (skipped) after a line with the reason.

cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
# shellcheck disable=SC2034 # the scripts end with it
wrong=0

# complain LINE: prints it; the check will end with 1.
complain() {
    printf '%s\n' "$1"
    # shellcheck disable=SC2034
    wrong=1
}

# need PROGRAM: skips the check where it is not installed.
need() {
    command -v "$1" >/dev/null && return
    echo "skipped: $1 is not installed"
    exit 77
}

# sources FOLDER...: our .c and .h files below them.
sources() {
    find "$@" -name '*.[ch]' | LC_ALL=C sort
}
