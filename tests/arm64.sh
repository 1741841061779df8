#!/usr/bin/env bash
# Builds for 64-bit ARM and runs the tests of pixels and order under emulation. Needs root: it adds
# Debian's arm64 packages to this machine.    tests/arm64.sh [BUILD-FOLDER]
set -euo pipefail
cd "$(dirname "$0")/.."
[ "$(id -u)" = 0 ] || { echo "needs root, for Debian's arm64 packages" >&2; exit 77; }
build=${1:-build/arm64}
dpkg --add-architecture arm64
apt-get update -qq
apt-get install -y -qq gcc-aarch64-linux-gnu qemu-user \
    lib{uv1,jpeg62-turbo,protobuf-c,xxhash,yaml,jansson,spng,ncurses,isal,systemd}-dev:arm64 check:arm64
PKG_CONFIG_LIBDIR=/usr/lib/aarch64-linux-gnu/pkgconfig:/usr/share/pkgconfig \
    cmake -S . -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DDATALOADD_TESTS=ON -DDATALOADD_PYTHON=OFF \
    -DCMAKE_SYSTEM_NAME=Linux -DCMAKE_SYSTEM_PROCESSOR=aarch64 \
    -DCMAKE_C_COMPILER=aarch64-linux-gnu-gcc -DCMAKE_LIBRARY_ARCHITECTURE=aarch64-linux-gnu \
    "-DCMAKE_CROSSCOMPILING_EMULATOR=qemu-aarch64;-L;/"
ninja -C "$build"
ctest --test-dir "$build" --output-on-failure -R \
    'unit.test_(planes|resample|tensor|decoder|transform|philox|jpeg_.*|order|steps)$'
