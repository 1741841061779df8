#!/usr/bin/env bash
# No marks of unfinished work; no paths outside of the tree, except where tests look for optional cases.
. "$(dirname "$0")/common.sh"

files() {
    find . \( -path ./build -o -path ./dist -o -path ./.git \) -prune -o -type f \
        ! -name check_words.sh ! -name '*.pyc' ! -name '*.png' ! -name '*.jpg' -print | LC_ALL=C sort
}

while read -r hit; do
    complain "unfinished: $hit"
done < <(files | xargs -d '\n' grep -nIwE 'TODO|FIXME|XXX|HACK')
while read -r hit; do
    complain "outside of the tree: $hit"
done < <(files | grep -v '^\./tests/' | xargs -d '\n' grep -nIE '\.\./shared|/work/(main|shared)|\.library')
exit $wrong
