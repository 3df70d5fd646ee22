# Third-party packages, all found and none bundled; docs/building.md lists the Debian names.
include_guard()

find_package(Threads REQUIRED)
find_package(PkgConfig REQUIRED)

find_package(LLVM 19.1 REQUIRED CONFIG)
llvm_map_components_to_libnames(UCP_LLVM_LIBRARIES support)
add_library(ucp_llvm INTERFACE)
target_include_directories(ucp_llvm SYSTEM INTERFACE ${LLVM_INCLUDE_DIRS})
separate_arguments(UCP_LLVM_DEFINITIONS NATIVE_COMMAND ${LLVM_DEFINITIONS})
target_compile_definitions(ucp_llvm INTERFACE ${UCP_LLVM_DEFINITIONS})
target_link_libraries(ucp_llvm INTERFACE ${UCP_LLVM_LIBRARIES})

find_package(fmt REQUIRED CONFIG)
find_package(CLI11 REQUIRED CONFIG)
find_package(ZLIB REQUIRED)
pkg_check_modules(DEFLATE REQUIRED IMPORTED_TARGET libdeflate)
pkg_check_modules(XXHASH REQUIRED IMPORTED_TARGET libxxhash)
pkg_check_modules(HIGHWAY REQUIRED IMPORTED_TARGET libhwy)
if(UCP_MPI)
  find_package(MPI COMPONENTS C QUIET)
endif()
if(UCP_CUDA)
  find_package(CUDAToolkit 12.0 QUIET)
endif()
if(NOT UCP_SANITIZE)  # Sanitizers have an allocator of their own.
  find_package(mimalloc REQUIRED CONFIG)
endif()
pkg_check_modules(RE2 REQUIRED IMPORTED_TARGET re2)

find_package(FlatBuffers REQUIRED CONFIG)
find_program(UCP_FLATC flatc REQUIRED)

if(UCP_BUILD_TESTS)
  find_package(GTest REQUIRED CONFIG)
  include(GoogleTest)
endif()
