#!/bin/sh
# consumer.sh CMAKE BUILD PROJECT VERSION LIBDIR CC: finds the installed tree as a CMake package and by
# pkg-config, also after it was moved.
set -eu
cmake=$1 build=$2 project=$3 version=$4 libdir=$5 cc=$6
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

fail() {
    echo "consumer: $*" >&2
    exit 1
}

for component in library development; do
    "$cmake" --install "$build" --component $component --prefix "$work/first" >"$work/log" ||
        fail "install: $(cat "$work/log")"
done
mv "$work/first" "$work/moved"
tree=$work/moved
for file in include/dataload.h "$libdir/libdataload.so" "$libdir/libdataload.so.0" \
    "$libdir/libdataload.so.$version" "$libdir/pkgconfig/dataload.pc"; do
    [ -e "$tree/$file" ] || fail "$file is not installed"
done
[ "$(find "$tree/include" -type f | wc -l)" -eq 1 ] || fail "more than one header is installed"

"$cmake" -S "$project" -B "$work/package" -DCMAKE_PREFIX_PATH="$tree" -DCMAKE_C_COMPILER="$cc" \
    >"$work/log" 2>&1 || fail "find_package: $(cat "$work/log")"
"$cmake" --build "$work/package" >"$work/log" 2>&1 || fail "package build: $(cat "$work/log")"
[ "$("$work/package/consumer")" = "$version" ] || fail "the program built by CMake failed"

PKG_CONFIG_PATH=$tree/$libdir/pkgconfig
export PKG_CONFIG_PATH
[ "$(pkg-config --modversion dataload)" = "$version" ] || fail "dataload.pc has another version"
# shellcheck disable=SC2046 # flags are words
"$cc" -Wall -Werror -o "$work/plain" "$project/consumer.c" $(pkg-config --cflags --libs dataload)
[ "$(LD_LIBRARY_PATH=$tree/$libdir "$work/plain")" = "$version" ] ||
    fail "the program built by pkg-config failed"
