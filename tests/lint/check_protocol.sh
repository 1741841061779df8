#!/usr/bin/env bash
# What a released version of the protocol says on the wire stays: each field keeps its number and type, or its number is
# reserved; each error keeps its code. Of a new version: tests/lint/check_protocol.sh --list >tests/lint/protocol/N.txt
. "$(dirname "$0")/common.sh"

# now: as the sources have it.
now() {
    {
        awk -f tests/lint/protocol/fields.awk proto/dataload.proto
        grep -oE 'X\([0-9]+, +[A-Z_]+' proto/errors.h | tr -d 'X(,' | tr -s ' ' | sed 's/^/error /'
    } | LC_ALL=C sort
}

if [ "${1-}" = --list ]; then
    now
    exit
fi
for version in tests/lint/protocol/*.txt; do
    while read -r number rest; do
        now_reserved=$(now | grep -cxF "$number reserved")
        [ "$now_reserved" = 1 ] || complain "version $(basename "$version" .txt) of the protocol has '$number $rest', which is no longer so"
    done < <(LC_ALL=C comm -23 "$version" <(now))
done
newest=$(grep -oE 'DLP_VERSION_MAX [0-9]+' proto/limits.h | grep -oE '[0-9]+$')
[ -e "tests/lint/protocol/$newest.txt" ] || complain "tests/lint/protocol/$newest.txt is missing: version $newest is spoken (proto/limits.h)"
twice=$(now | awk '$1 != "error" { print $1 }' | uniq -d)
[ -z "$twice" ] || complain "proto/dataload.proto: numbers used twice: $twice"
exit $wrong
