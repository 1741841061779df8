#!/usr/bin/env bash
# Makes the Debian package python3-dataload and imports the module from it.
#   tests/python/deb.sh BUILD_FOLDER
set -euo pipefail
command -v dpkg-shlibdeps >/dev/null || { echo "skipped: dpkg-dev is not installed"; exit 77; }
build=$(realpath "$1")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
cpack --config "$build/CPackConfig.cmake" -B "$work" >log 2>&1 || { cat log; exit 1; }
deb=$(ls python3-dataload_*.deb)
dpkg-deb --info "$deb"
dpkg-deb --field "$deb" Depends | grep -q 'libprotobuf-c1' || { echo "its libraries are not among what it depends on"; exit 1; }
dpkg-deb --extract "$deb" root
cd root
[ "$(find . -type f -name '*.py' | wc -l)" = "$(find "$build/client/python/dataload/" -name '*.py' | wc -l)" ]
PYTHONPATH=usr/lib/python3/dist-packages "${PYTHON3:-/usr/bin/python3}" -B -c 'import dataload; print(dataload.__version__, dataload.__file__)' |
    grep usr/lib/python3/dist-packages/dataload/__init__.py
