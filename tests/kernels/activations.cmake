# One translation unit an instruction set, with the flags that the library's own has.
set(activation_units activations_scalar.c)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64|amd64)$")
  list(APPEND activation_units activations_avx2.c activations_avx512.c)
  set_source_files_properties(activations_avx2.c PROPERTIES COMPILE_OPTIONS "-mavx2;-mfma;-mf16c")
  set_source_files_properties(activations_avx512.c PROPERTIES
    COMPILE_OPTIONS "-mavx512f;-mavx512bw;-mavx512dq;-mavx512vl;-mfma;-mf16c;-mprefer-vector-width=512")
elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "^(aarch64|arm64)$")
  list(APPEND activation_units activations_neon.c)
endif()
add_executable(check_activations check_activations.c ${activation_units})
target_include_directories(check_activations PRIVATE ${PROJECT_SOURCE_DIR}/src)
target_link_libraries(check_activations PRIVATE tapconv_static m)
# An emulator, or a sanitizer, takes a hundredth of the values.
set(activation_step 2029)
if(CMAKE_CROSSCOMPILING OR TAPCONV_SANITIZE)
  set(activation_step 202901)
endif()
add_test(NAME kernels_activations COMMAND check_activations ${activation_step})
