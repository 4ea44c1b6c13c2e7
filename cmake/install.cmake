# What `cmake --install` copies: header, both libraries, the command, and two ways to find them (pkg-config, CMake).
# Everything finds its way by relative paths, so that an installed tree may be moved.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

add_library(tapconv::tapconv ALIAS tapconv)
add_library(tapconv::tapconv_static ALIAS tapconv_static)

# The pthread backend is there for the thread sanitizer; a build with it is not for use.
if(TAPCONV_PARALLEL STREQUAL "pthreads")
  return()
endif()

set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/tapconv)
install(FILES include/tapconv.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(TARGETS tapconv tapconv_static EXPORT tapconv
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
  INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
if(TARGET tapconv_cuda)
  install(TARGETS tapconv_cuda LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
endif()
if(TARGET tapconv_cli)
  file(RELATIVE_PATH library_from_command
    ${CMAKE_INSTALL_FULL_BINDIR} ${CMAKE_INSTALL_FULL_LIBDIR})
  set_target_properties(tapconv_cli PROPERTIES INSTALL_RPATH $ORIGIN/${library_from_command})
  install(TARGETS tapconv_cli RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()

install(EXPORT tapconv NAMESPACE tapconv:: FILE tapconv-targets.cmake DESTINATION ${package_folder})
configure_file(cmake/tapconv-config.cmake tapconv-config.cmake COPYONLY)
write_basic_package_version_file(tapconv-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/tapconv-config.cmake ${PROJECT_BINARY_DIR}/tapconv-config-version.cmake
  DESTINATION ${package_folder})

file(RELATIVE_PATH prefix_from_pc ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_PREFIX})
string(REGEX REPLACE "/$" "" prefix_from_pc ${prefix_from_pc})
file(RELATIVE_PATH libdir_from_prefix ${CMAKE_INSTALL_PREFIX} ${CMAKE_INSTALL_FULL_LIBDIR})
file(RELATIVE_PATH includedir_from_prefix ${CMAKE_INSTALL_PREFIX} ${CMAKE_INSTALL_FULL_INCLUDEDIR})
set(static_flags -lm)
foreach(library IN LISTS CMAKE_DL_LIBS)
  string(APPEND static_flags " -l${library}")
endforeach()
if(TAPCONV_HAVE_OPENMP)
  string(APPEND static_flags " ${OpenMP_C_FLAGS}")
endif()
configure_file(cmake/tapconv.pc.in tapconv.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/tapconv.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
