#!/usr/bin/env bash
# Every header compiles alone, and the installed one also as strict C99 and as C++.
#   check_headers.sh BUILD_FOLDER (for the generated header of proto)
build=$(cd "${1:-build/release}" && pwd) || exit 1
. "$(dirname "$0")/common.sh"
cc=${CC:-cc}
packages="libuv libprotobuf-c yaml-0.1 jansson libxxhash spng ncursesw"
# shellcheck disable=SC2046,SC2086 # flags are words
set -- $(pkg-config --cflags $packages) $(pkg-config --cflags python3 2>/dev/null) -Idaemon -I. -I"$build/proto"
strict="-Wall -Wextra -Werror -fsyntax-only"

python=1
pkg-config --exists python3 || python=0

for header in $(find proto client daemon -name '*.h' | LC_ALL=C sort); do
    [ $python = 0 ] && [[ $header == client/python/* ]] && continue
    # shellcheck disable=SC2086
    errors=$($cc -std=gnu17 -D_GNU_SOURCE $strict "$@" -x c -include "$header" /dev/null 2>&1) ||
        complain "$header does not compile alone: $errors"
done
# shellcheck disable=SC2086
$cc -std=c99 -pedantic $strict -x c -include client/dataload.h /dev/null ||
    complain "client/dataload.h is not C99"
# shellcheck disable=SC2086
if command -v c++ >/dev/null; then
    c++ -std=c++11 -pedantic $strict -x c++ -include client/dataload.h /dev/null ||
        complain "client/dataload.h is not C++11"
fi
exit $wrong
