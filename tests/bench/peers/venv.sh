#!/usr/bin/env bash
# Builds the Python environment of peers.py in build/peers, and Pillow-SIMD beside it in build/peers-simd: 6 GB, mostly
# CUDA libraries that the wheels of PyPI depend on. FFCV and Pillow-SIMD are compiled; SPDL loads Debian's FFmpeg.
set -uo pipefail
cd "$(dirname "$0")/../../.." || exit
. cmake/packages.sh
install_packages build-essential pkg-config python3-dev python3-venv libopencv-dev libturbojpeg0-dev \
    libjpeg62-turbo-dev zlib1g-dev libavdevice59 libavfilter8 || exit 69
/usr/bin/python3 -m venv build/peers || exit 69

# One after the other: what cannot be installed costs only its own row.
failed=0
while read -r package; do
    case $package in
    '#'* | '') ;;
    pillow-simd*) CC="cc -mavx2" build/peers/bin/pip install --no-cache-dir --no-deps --upgrade --target build/peers-simd "$package" || failed=1 ;;
    *) build/peers/bin/pip install --no-cache-dir "$package" || failed=1 ;;
    esac
done <tests/bench/peers/requirements.txt
exit $failed
