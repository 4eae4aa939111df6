#!/bin/sh
# Copies the image's kernels to a writable folder, since numba needs a writable cache; then runs simstream.
# numba does not check that the machine has NUMBA_CPU_NAME's instructions: the first kernel would end the process.
set -eu
case ${NUMBA_CPU_NAME:-} in x86-64-v*)
    if ! /lib64/ld-linux-x86-64.so.2 --help 2>/dev/null | grep -q "^ *$NUMBA_CPU_NAME (supported"; then
        echo "simstream: this CPU lacks instructions of $NUMBA_CPU_NAME, so kernels are compiled at each start:" \
            "build the image with --build-arg CPU=generic" >&2
        unset NUMBA_CPU_NAME NUMBA_CPU_FEATURES
    fi ;;
esac
if ! { mkdir -p "$NUMBA_CACHE_DIR" && cp -a "$KERNELS/." "$NUMBA_CACHE_DIR/"; } 2>/dev/null; then
    echo "simstream: the kernels cannot be copied to $NUMBA_CACHE_DIR, so they are compiled: make room there" >&2
fi
exec simstream "$@"
