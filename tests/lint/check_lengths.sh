#!/usr/bin/env bash
# Sizes: functions of product code have a median of <= 16 lines, a 95th percentile of <= 60 and at most 100;
# .c files have at most 600 lines, headers 120, the public one 260; no two files of the tree share a name.
. "$(dirname "$0")/common.sh"

while read -r lines file; do
    case $file in
    *.c) [ "$lines" -le 600 ] || complain "$file has $lines lines, more than 600" ;;
    client/dataload.h) [ "$lines" -le 260 ] || complain "$file has $lines lines, more than 260" ;; # the whole public interface
    *.h) [ "$lines" -le 120 ] || complain "$file has $lines lines, more than 120" ;;
    esac
done < <(sources proto client daemon tests | xargs -n 1 wc -l)

while read -r name; do
    complain "more than one file is named $name: $(find proto client daemon tests systemd -name "$name" | tr '\n' ' ')"
done < <(find proto client daemon tests systemd -type f -printf '%f\n' |
    grep -vE '^(CMakeLists\.txt|README\.md|__init__\.py|.*\.pyc)$' | LC_ALL=C sort | uniq -d)

if ! command -v ctags >/dev/null; then
    [ $wrong = 1 ] || echo "skipped in part: ctags is not installed, so functions were not measured"
    exit $((wrong ? 1 : 77))
fi
sources proto client daemon |
    xargs ctags -x --languages=C --kinds-C=f --_xformat='%{line} %{end} %{name} %{input}' |
    awk '$2 ~ /^[0-9]+$/ { print $2 - $1 + 1, $4 ":" $1, $3 }' | sort -n | awk '
    { lines[NR] = $1; if ($1 > 100) { print $2 ": " $3 " has " $1 " lines, more than 100"; wrong = 1 } }
    END {
        if (NR == 0) { print "no functions found"; exit 1 }
        median = lines[int((NR + 1) / 2)]; p95 = lines[int((NR * 95 + 99) / 100)]
        printf "%d functions: median %d, 95th percentile %d, longest %d lines\n", NR, median, p95, lines[NR]
        exit wrong || median > 16 || p95 > 60
    }' || wrong=1
exit $wrong
