# find_package(tapconv) gives tapconv::tapconv, the shared library, and tapconv::tapconv_static.
include(${CMAKE_CURRENT_LIST_DIR}/tapconv-targets.cmake)
