#!/usr/bin/env bash
# Each line of the threat tables of docs/security.md names a test that is there, or says why there is none.
. "$(dirname "$0")/common.sh"

files=$(find tests -type f)

# there FILE NAME: a test of this name; without one, the file.
there() {
    local path
    path=$(grep -m1 -F "/$1" <<<"$files") || return 1
    case $path in
    *.py) grep -qE "^    def $2\(" "$path" ;;
    *.c) [ -z "$2" ] || grep -qE "START_TEST\($2\)|[{(] ?\"$2\"," "$path" ;;
    *) [ -z "$2" ] ;;
    esac
}

lines=0
while IFS= read -r line; do
    lines=$((lines + 1))
    threat=$(cut -d'|' -f2 <<<"$line")
    shown=$(cut -d'|' -f4 <<<"$line")
    # shellcheck disable=SC2016 # these are backticks
    tests=$(grep -oE '`[a-zA-Z0-9_]+\.(py|c|sh)(::[a-zA-Z0-9_]+)?`' <<<"$shown" | tr -d '`')
    [ -n "$tests" ] || grep -q 'not covered: ' <<<"$shown" || complain "docs/security.md: neither a test nor \"not covered: why\":$threat"
    for test in $tests; do
        file=${test%%::*}
        name=${test#"$file"}
        there "$file" "${name#::}" || complain "docs/security.md: there is no test $test"
    done
done < <(sed -n '/^## Threats/,$p' docs/security.md | grep '^| ' | grep -vE '^\| (threat|---)')
[ "$lines" -gt 50 ] || complain "docs/security.md: $lines threats are too few to be all"
exit $wrong
