#!/usr/bin/env bash
# Manual pages have each function of the header, and each option and verb that --help names.
. "$(dirname "$0")/common.sh"
build=$1

# has PAGE TEXT: literally, in the page's source without its macros' escapes.
has() {
    grep -qF -- "$2" <<<"$(sed 's/\\-/-/g; s/Fl -/Fl --/g; s/\\&//g' "docs/$1")"
}

for function in $(grep -oE '\bdataload_[a-z_]+\(' client/dataload.h | tr -d '(' | sort -u); do
    has libdataload.3 "Fn $function " || complain "docs/libdataload.3: lacks $function"
done

# options PROGRAM PAGE: each long option of --help.
options() {
    [ -x "$build/$1" ] || { echo "skipped: $1 is not built"; exit 77; }
    local option
    for option in $("$build/$1" --help | grep -oE -- '--[a-z][a-z-]+' | sort -u); do
        case $option in --help | --usage | --version) continue ;; esac
        has "$2" "Fl $option" || complain "docs/$2: lacks $option of $1 --help"
    done
}
options daemon/dataloadd dataloadd.8
options client/dataloadctl dataloadctl.1
options daemon/dataload-pack dataload-pack.1
exit $wrong
