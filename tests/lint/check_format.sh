#!/usr/bin/env bash
# Every C file is as clang-format writes it.
. "$(dirname "$0")/common.sh"
need clang-format
# Other versions break other lines.
case $(clang-format --version) in
*"version 14."*) ;;
*) echo "skipped: the style is that of clang-format 14, not of $(clang-format --version)"; exit 77 ;;
esac
sources proto client daemon tests | xargs clang-format --dry-run -Werror
