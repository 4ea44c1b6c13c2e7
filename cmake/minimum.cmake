# `cmake -P cmake/minimum.cmake` fails where CMake is too old for the Makefile (ctest --output-junit came with 3.21).
cmake_minimum_required(VERSION 3.21)
