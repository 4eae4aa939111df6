#!/bin/sh
# Copies the image's kernels to a writable folder, since numba needs a writable cache; then runs simstream.
set -eu
if ! { mkdir -p "$NUMBA_CACHE_DIR" && cp -a "$KERNELS/." "$NUMBA_CACHE_DIR/"; } 2>/dev/null; then
    echo "simstream: the kernels cannot be copied to $NUMBA_CACHE_DIR, so they are compiled: make room there" >&2
fi
exec simstream "$@"
