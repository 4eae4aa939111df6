#!/bin/sh
# Copies the image's kernels to a writable folder, since numba needs a writable cache; then runs simstream.
set -eu
mkdir -p "$NUMBA_CACHE_DIR"
cp -a "$KERNELS/." "$NUMBA_CACHE_DIR/"
exec simstream "$@"
