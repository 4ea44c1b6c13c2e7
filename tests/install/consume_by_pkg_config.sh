#!/bin/sh
# consume_by_pkg_config.sh shared|static PKG_CONFIG LIBRARY_FOLDER COMPILER SOURCE OUTPUT
# Builds SOURCE with the flags that pkg-config gives, as a user's makefile would, and runs it.
set -eu
linking=$1 pkg_config=$2 library_folder=$3 compiler=$4 source=$5 output=$6
export PKG_CONFIG_PATH="$library_folder/pkgconfig" LD_LIBRARY_PATH="$library_folder"
if [ "$linking" = static ]; then
    flags="$("$pkg_config" --static --cflags --libs tapconv) -static"
else
    flags=$("$pkg_config" --cflags --libs tapconv)
fi
# shellcheck disable=SC2086  the flags are words
"$compiler" "$source" $flags -o "$output"
"$output"
