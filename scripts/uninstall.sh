#!/bin/sh
# Removes the files of CMake's manifest and the package's own folder, once that is empty.
#
#     sh uninstall.sh MANIFEST DESTDIR
set -eu
manifest=$1 destination=$2
if [ ! -f "$manifest" ]; then
    echo "tapconv: there is no $manifest, so nothing was installed from this build directory" >&2
    exit 1
fi
# The last line has no newline.
while IFS= read -r file || [ -n "$file" ]; do
    rm -f "$destination$file"
    echo "Removed: $destination$file"
    case $file in
    */cmake/tapconv/*) rmdir "$destination${file%/*}" 2>/dev/null || true ;;
    esac
done <"$manifest"
rm "$manifest"
