#!/bin/sh
# Uninstalling removes what the manifest names, below the destination, and nothing else.
#
#     sh check_uninstall.sh UNINSTALL FOLDER
set -eu
uninstall=$1 folder=$2
rm -rf "$folder"
package=/opt/a\ b/lib/cmake/tapconv
mkdir -p "$folder/root$package" "$folder/root/opt/a b/include"
touch "$folder/root$package/tapconv-config.cmake" "$folder/root/opt/a b/include/tapconv.h" "$folder/root/opt/a b/include/other.h"
printf '%s\n%s\n%s' "/opt/a b/include/tapconv.h" "$package/tapconv-config.cmake" "$package/gone.cmake" >"$folder/manifest.txt"
sh "$uninstall" "$folder/manifest.txt" "$folder/root"
left=$(cd "$folder" && find . -type f)
[ "$left" = "./root/opt/a b/include/other.h" ] || { echo "left: $left"; exit 1; }
[ ! -e "$folder/root$package" ] || { echo "the package's folder is left"; exit 1; }
! sh "$uninstall" "$folder/manifest.txt" "$folder/root" || { echo "a second time should fail"; exit 1; }
