#!/usr/bin/env bash
# Every shell script passes shellcheck, and those for zsh are read by it, where it is installed.
. "$(dirname "$0")/common.sh"
need shellcheck

scripts() {
    find . \( -path ./build -o -path ./dist -o -path ./.git \) -prune -o -type f -print | LC_ALL=C sort |
        while read -r file; do
            case $file in
            *.sh | *.bash) echo "$file" ;;
            *) head -c 64 "$file" | head -n 1 | grep -aqE '^#!.*\b(ba)?sh$' && echo "$file" ;;
            esac
        done
}

mapfile -t found < <(scripts)
shellcheck --external-sources --source-path=SCRIPTDIR --source-path=. "${found[@]}" || exit 1
! command -v zsh >/dev/null || zsh -n completion/_*
