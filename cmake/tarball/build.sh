#!/usr/bin/env bash
# A tarball for people without root: programs, library and Python module with what they need beside them, for any x86-64
# Linux with glibc FLOOR or later. Built on Debian 12 against Debian 11's C library; all other libraries are
# Debian 12's. Needs apt and a mirror, no root.
#   cmake/tarball/build.sh [FOLDER]     default: dist
set -euo pipefail
FLOOR=2.31
out=$(realpath -m "${1:-$(dirname "$0")/../../dist}")
cd "$(dirname "$0")/../.."
for program in apt-get dpkg-deb cmake ninja objdump; do
    command -v $program >/dev/null || { echo "needs $program: see packages_build in cmake/packages.sh" >&2; exit 69; }
done
[ "$(uname -m)" = x86_64 ] || { echo "built on x86-64 only, not on $(uname -m)" >&2; exit 69; }
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct 2>/dev/null || stat -c %Y CHANGELOG.md)
export SOURCE_DATE_EPOCH
work=$(mktemp -d "${TMPDIR:-/tmp}/dataloadd-tarball-XXXXXX")
trap 'rm -rf "$work"' EXIT
old_mirror=${DATALOADD_OLD_MIRROR:-http://deb.debian.org/debian}

shared=(libjpeg62-turbo libyaml-0-2 libjansson4 libxxhash0 libspng0 libprotobuf-c1 zlib1g) # go along as files
linked=(libuv1-dev libtinfo6)                                                              # linked in
headers=(linux-libc-dev libncurses-dev libjpeg62-turbo-dev libyaml-dev libjansson-dev libxxhash-dev libspng-dev
    libprotobuf-c-dev zlib1g-dev libpython3.11-dev)

# quietly COMMAND...: its output only where it fails.
quietly() {
    "$@" >"$work/log" 2>&1 || { tail -n 40 "$work/log" >&2; echo "failed: $*" >&2; exit 1; }
}

# download FOLDER OPTION... -- PACKAGE...
download() {
    local folder=$1 options=()
    shift
    while [ "$1" != -- ]; do
        options+=("$1")
        shift
    done
    shift
    (cd "$folder" && quietly apt-get -q "${options[@]}" -o APT::Sandbox::User=root download "$@")
}

# The system that is built against.
make_sysroot() {
    local state="$work/old" old library link
    mkdir -p "$state/lists/partial" "$state/cache/archives/partial" "$work/debs" "$sysroot"
    echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $old_mirror bullseye main" >"$state/sources.list"
    old=(-o "Dir::Etc::SourceList=$state/sources.list" -o Dir::Etc::SourceParts=/dev/null
        -o "Dir::State::Lists=$state/lists" -o "Dir::Cache=$state/cache" -o Dir::State::status=/dev/null)
    quietly apt-get -q "${old[@]}" -o APT::Sandbox::User=root update
    download "$work/debs" "${old[@]}" -- libc6 libc6-dev libcrypt1 libcrypt-dev
    download "$work/debs" -- "${shared[@]}" "${linked[@]}" "${headers[@]}"
    for deb in "$work"/debs/*.deb; do
        dpkg-deb -x "$deb" "$sysroot"
    done
    find "$sysroot" -type l -lname '/*' | while read -r link; do
        ln -sfnr "$sysroot$(readlink "$link")" "$link"
    done
    # Without the shared ones the linker takes these in. They want a later glibc, or are not found everywhere.
    library=$sysroot/usr/lib/x86_64-linux-gnu
    mv "$library/libuv_a.a" "$library/libuv.a"
    rm -f "$library"/libuv.so* "$library/libncursesw.so" "$library/libtinfo.so"
}

compile() {
    local library=$sysroot/usr/lib/x86_64-linux-gnu
    export DATALOADD_SYSROOT=$sysroot PKG_CONFIG_SYSROOT_DIR=$sysroot PKG_CONFIG_LIBDIR=$library/pkgconfig:$sysroot/usr/share/pkgconfig
    # shellcheck disable=SC2016
    quietly cmake -G Ninja -B "$work/build" -DCMAKE_TOOLCHAIN_FILE="$PWD/cmake/tarball/toolchain.cmake" \
        -DCMAKE_BUILD_TYPE=RelWithDebInfo -DCMAKE_INSTALL_PREFIX="/$name" -DCMAKE_INSTALL_LIBDIR=lib \
        -DDATALOADD_TESTS=OFF -DDATALOADD_SYSTEMD=OFF -DDATALOADD_HTTP=OFF \
        -DPython3_EXECUTABLE=/usr/bin/python3 -DPython3_INCLUDE_DIR="$sysroot/usr/include/python3.11" \
        "-DCMAKE_INSTALL_RPATH=\$ORIGIN/../lib/dataloadd;\$ORIGIN/dataloadd;\$ORIGIN/../../dataloadd"
    quietly ninja -C "$work/build"
    quietly env DESTDIR="$work/tree" cmake --install "$work/build" --strip
    quietly env DESTDIR="$work/tree" cmake --install "$work/build" --strip --component python
}

# What is not ours, with where it comes from.
bundle() {
    local library=$sysroot/usr/lib/x86_64-linux-gnu documents=$tree/share/doc/dataloadd file package
    mkdir -p "$tree/lib/dataloadd" "$documents/bundled"
    for file in libjpeg.so.62 libyaml-0.so.2 libjansson.so.4 libxxhash.so.0 libspng.so.0 libprotobuf-c.so.1 libz.so.1; do
        cp -L "$(find "$library" "$sysroot/lib" -name "$file" | head -n 1)" "$tree/lib/dataloadd/$file"
    done
    # shellcheck disable=SC2016 # dpkg-deb expands it
    for package in "${shared[@]}" "${linked[@]}"; do
        cp -L "$sysroot/usr/share/doc/$package/copyright" "$documents/bundled/$package.copyright"
        dpkg-deb -W --showformat '${Package} ${Version}\n' "$work/debs/${package}"_*.deb
    done >"$documents/bundled/versions"
    cp LICENSE CHANGELOG.md README.md "$documents/"
    mv "$tree/lib/python3/dist-packages" "$tree/lib/python"
    rmdir "$tree/lib/python3"
    ln -s ../../../bin "$tree/lib/python/dataload/bin" # for Loader(spawn=True)
}

# floor: the latest glibc that any of it wants.
floor() {
    find "$tree" -type f \( -name '*.so*' -o -path '*/bin/*' \) -exec objdump -T {} + 2>/dev/null |
        grep -oE 'GLIBC_[0-9.]+' | sort -uV | tail -n 1 | sed 's/GLIBC_//'
}

name=dataloadd-$(sed -n 's/^project(dataloadd VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)-linux-x86_64
sysroot=$work/sysroot
tree=$work/tree/$name
make_sysroot
compile
bundle
found=$(floor)
[ "$(printf '%s\n' "$found" $FLOOR | sort -V | tail -n 1)" = $FLOOR ] ||
    { echo "wants glibc $found, which is later than $FLOOR" >&2; exit 1; }
mkdir -p "$out"
tar --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner -C "$work/tree" -c "$name" |
    gzip -9n >"$out/$name.tar.gz"
echo "$out/$name.tar.gz: $(stat -c %s "$out/$name.tar.gz") bytes, for glibc $found or later"
