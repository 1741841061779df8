#!/usr/bin/env bash
# client/kernels/nchw.ptx is what the toolkit makes of nchw.cu; another toolkit than the one it was made by words it
# differently.
. "$(dirname "$0")/common.sh"
nvcc=$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)
"$nvcc" --version 2>/dev/null | grep -q "V13\.0\.88" || { echo "skipped: not the CUDA toolkit 13.0.88"; exit 77; }
client/kernels/make_ptx.sh "$nvcc" | cmp - client/kernels/nchw.ptx || complain "client/kernels/nchw.ptx is out of date: make_ptx.sh"
exit "$wrong"
