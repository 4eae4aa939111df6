#!/bin/sh
# Puts the kernels that the image brings where they can be written, as numba demands of its cache; then simstream.
set -eu
mkdir -p "$NUMBA_CACHE_DIR"
cp -a "$KERNELS/." "$NUMBA_CACHE_DIR/"
exec simstream "$@"
