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
if(TAPCONV_HAVE_CUDA) # C++, which only nvcc's host compiler is sure to know
  set(card ${CMAKE_CURRENT_BINARY_DIR}/activations_card.o)
  add_custom_command(OUTPUT ${card}
    COMMAND ${TAPCONV_NVCC} -c ${CMAKE_CURRENT_SOURCE_DIR}/activations_card.cpp -o ${card} -MD -MT ${card} -MF ${card}.d
      -std=c++17 -O2 -I${PROJECT_SOURCE_DIR}/include -I${PROJECT_SOURCE_DIR}/src
      -Xcompiler=-ffp-contract=off,-Wall,-Wextra,-Wno-unknown-pragmas,-Werror
    DEPENDS activations_card.cpp DEPFILE ${card}.d VERBATIM)
  list(APPEND activation_units ${card})
endif()
add_executable(check_activations check_activations.c ${activation_units})
target_include_directories(check_activations PRIVATE ${PROJECT_SOURCE_DIR}/src)
if(TAPCONV_HAVE_CUDA)
  target_compile_definitions(check_activations PRIVATE WITH_CARD)
endif()
target_link_libraries(check_activations PRIVATE tapconv_static m)
# An emulator, or a sanitizer, takes a hundredth of the values.
set(activation_step 2029)
if(CMAKE_CROSSCOMPILING OR TAPCONV_SANITIZE)
  set(activation_step 202901)
endif()
add_test(NAME kernels_activations COMMAND check_activations ${activation_step})
