#!/usr/bin/env bash
# Manual pages say what there is, no less and no more: functions of the header, options and verbs of --help, keys of
# the configuration, other pages. And each is one that mandoc has nothing to say about.
. "$(dirname "$0")/common.sh"
build=$1
config=docs/dataloadd.conf.5

# words FILE...: their text, one word a line, without the macros' escapes.
words() {
    sed 's/\\-/-/g; s/\\&//g' "$@" | tr -s ' ' '\n' | LC_ALL=C sort -u
}

# same WHAT PAGE THERE IN_PAGE: two sorted lists of lines.
same() {
    local line
    while read -r line; do complain "$2: lacks $1 $line"; done < <(LC_ALL=C comm -23 <(echo "$3") <(echo "$4"))
    while read -r line; do complain "$2: has $1 $line, which is not there"; done < <(LC_ALL=C comm -13 <(echo "$3") <(echo "$4"))
}

# options_of PROGRAM [VERB]: the long ones.
options_of() {
    "$build/$1" "${@:2}" --help | grep -oE -- '--[a-z][a-z-]+' | grep -vE -- '--(help|usage|version)$'
}

# verbs_of PROGRAM: those of --help.
verbs_of() {
    "$build/$1" --help | sed -n '/^Verbs:/,/^$/p' | sed -nE 's/^  (([a-z]+, )*[a-z]+) .*/\1/p' | tr -s ', ' '\n' | LC_ALL=C sort -u
}

options_in() {
    grep -oE '\bFl -[a-z][a-z-]+' "docs/$1" | sed 's/Fl /-/' | grep -vE -- '--(help|usage|version)$' | LC_ALL=C sort -u
}

verbs_in() {
    sed -n '/^\.Sh SYNOPSIS/,/^\.Sh DESCRIPTION/p' "docs/$1" | sed -nE 's/^\.(Op )?Cm ([a-z |]+)$/\2/p' | tr -s '| ' '\n' | LC_ALL=C sort -u
}

for program in daemon/dataloadd client/dataloadctl daemon/dataload-pack; do
    [ -x "$build/$program" ] || { echo "skipped: $program is not built"; exit 77; }
done
same option docs/dataloadd.8 "$(options_of daemon/dataloadd | LC_ALL=C sort -u)" "$(options_in dataloadd.8)"
same option docs/dataloadctl.1 "$(options_of client/dataloadctl | LC_ALL=C sort -u)" "$(options_in dataloadctl.1)"
same option docs/dataload-pack.1 "$(for verb in $(verbs_of daemon/dataload-pack); do options_of daemon/dataload-pack "$verb"; done | LC_ALL=C sort -u)" \
    "$(options_in dataload-pack.1)"
same verb docs/dataloadctl.1 "$(verbs_of client/dataloadctl)" "$(verbs_in dataloadctl.1)"
same verb docs/dataload-pack.1 "$(verbs_of daemon/dataload-pack)" "$(verbs_in dataload-pack.1)"

# Tables of keys: {"name", parser, ...}; of a transform's operations: {"name", {.kind ...}.
keys=$(cat daemon/config*.c | tr '\n' ' ' | grep -oE '\{"[a-z_]+", *([a-z][a-z0-9_]*,|\{\.kind)' | cut -d '"' -f 2 | LC_ALL=C sort -u)
in_page=$(sed -nE 's/^\.(It )?(Ic|Cm) //p' "$config" | tr -s '{}[]|,:() ' '\n' | LC_ALL=C sort -u)
for key in $keys; do
    grep -qxF -- "$key" <<<"$in_page" || complain "$config: lacks the key $key"
done
for key in $(sed -nE 's/^\.It Ic //p' "$config" | tr -s '|, ' '\n'); do
    grep -qxF -- "$key" <<<"$keys" || complain "$config: has the key $key, which is not there"
done

functions=$(grep -oE '\bdataload_[a-z_]+\(' client/dataload.h | tr -d '(' | LC_ALL=C sort -u)
same function docs/libdataload.3 "$functions" "$(sed -nE 's/^\.Fn (dataload_[a-z_]+).*/\1/p' docs/libdataload.3 | LC_ALL=C sort -u)"
while read -r name; do
    words docs/libdataload.3 | grep -qxF -- "$name" || complain "docs/libdataload.3: lacks $name"
done < <(grep -ohE '\bDATALOAD_[A-Z0-9_]+\b' client/dataload.h | grep -vE '_(H|API)$' | LC_ALL=C sort -u)

for page in docs/*.[1358]; do
    while read -r name section; do
        [ -e "docs/$name.$section" ] || complain "$page: there is no $name($section)"
    done < <(sed -nE 's/^\.Xr ([a-z.-]+) ([0-9]).*/\1 \2/p' "$page")
    ! command -v mandoc >/dev/null && continue
    said=$(mandoc -T lint -W style "$page" | grep -vE 'longer than 80 bytes|referenced manual not found')
    [ -z "$said" ] || complain "$said"
done
exit $wrong
