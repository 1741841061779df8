#!/usr/bin/env bash
# Makes nchw.ptx of nchw.cu, for drivers and GPUs that the binaries are not for: made for the oldest GPU that the
# toolkit offers, and marked as PTX 6.4, which every driver from 12.0 on takes. PTX goes to standard output.
nvcc=${1:-nvcc}
cd "$(dirname "$0")" || exit 1
"$nvcc" --ptx -arch=compute_75 -fmad=false -O3 nchw.cu -o /dev/stdout |
    sed -e '/^\/\//d' -e '/^$/d' -e 's/^\.version .*/.version 6.4/'
