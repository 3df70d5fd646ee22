# How every library, program and test of this project is declared: C++20, warnings are errors, includes from the root.
include_guard()

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)

find_program(CCACHE_PROGRAM ccache)
if(CCACHE_PROGRAM AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  # Paths below the source folder are hashed as relative ones, so that a second clone finds what the first one compiled.
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${CMAKE_SOURCE_DIR} CCACHE_NOHASHDIR=1
      ${CCACHE_PROGRAM})
endif()

if(UCP_SANITIZE)
  add_compile_options(-fsanitize=${UCP_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${UCP_SANITIZE})
  add_compile_options($<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>)  # g++ sees ghosts in the code that sanitizers add.
endif()

# Most of the time of a build goes into the headers that sources share. So the sources of a folder are compiled as one, in
# a third of the processor time; switched off, each by itself, which is quicker after a small change. (CMake's own
# UNITY_BUILD includes them by absolute paths, which ccache does not find again from another clone.)
option(UCP_UNITY_BUILD "Compile the sources of a folder together" ON)

# ucp_together(OUTPUT NAME SOURCE…): what to compile for these sources of the folder.
function(ucp_together output name)
  if(NOT UCP_UNITY_BUILD)
    set(${output} ${ARGN} PARENT_SCOPE)
    return()
  endif()
  file(RELATIVE_PATH folder ${PROJECT_SOURCE_DIR} ${CMAKE_CURRENT_SOURCE_DIR})
  set(together ${CMAKE_CURRENT_BINARY_DIR}/${name}.cpp)
  set(content "")
  set(generated "")
  foreach(source IN LISTS ARGN)
    if(IS_ABSOLUTE ${source})
      list(APPEND generated ${source})
    else()
      string(APPEND content "#include \"${folder}/${source}\"\n")
    endif()
  endforeach()
  file(GENERATE OUTPUT ${together} CONTENT "${content}")
  set(${output} ${together} ${generated} PARENT_SCOPE)
endfunction()

function(ucp_compile_options target)
  target_include_directories(${target} PUBLIC ${PROJECT_SOURCE_DIR})
  target_compile_options(${target} PRIVATE -Wall -Wextra -Wpedantic -Wconversion -Wsign-conversion -Wshadow
                                           -Wnon-virtual-dtor -Woverloaded-virtual -Werror
                                           # libstdc++ 12 uses what it deprecates, and clang looks into it.
                                           $<$<CXX_COMPILER_ID:Clang>:-Wno-deprecated-declarations>
                                           # g++ 12 sees overlapping copies in std::string that are not there.
                                           $<$<AND:$<CONFIG:Release>,$<CXX_COMPILER_ID:GNU>>:-Wno-restrict>)
endfunction()

# ucp_library(NAME SOURCES a.cpp … [ALONE b.cpp …] [DEPENDS lib …] [PRIVATE_DEPENDS lib …]): one folder, one library.
# ALONE are compiled by themselves: sources that use a name within the file that another source of the folder also uses.
function(ucp_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;ALONE;DEPENDS;PRIVATE_DEPENDS" ${ARGN})
  ucp_together(sources ${name} ${ARG_SOURCES})
  add_library(${name} STATIC ${sources} ${ARG_ALONE})
  ucp_compile_options(${name})
  target_link_libraries(${name} PUBLIC ${ARG_DEPENDS} PRIVATE ${ARG_PRIVATE_DEPENDS})
endfunction()

# ucp_exports(TARGET NAMES): a module or plugin exports these names alone (a pattern), and none of the libraries in it: a
# process may hold another LLVM or libstdc++, such as a framework's.
function(ucp_exports target names)
  set(script ${CMAKE_CURRENT_BINARY_DIR}/${target}.exports)
  file(CONFIGURE OUTPUT ${script} CONTENT "{ global: ${names}; local: *; };\n")
  target_link_options(${target} PRIVATE -Wl,--exclude-libs,ALL -Wl,--version-script=${script})
endfunction()

# ucp_program(NAME SOURCES main.cpp … DEPENDS lib …): an installed program.
function(ucp_program name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPENDS" ${ARGN})
  ucp_together(sources ${name} ${ARG_SOURCES})
  add_executable(${name} ${sources})
  target_compile_definitions(${name} PRIVATE UCP_PROGRAM="${name}")
  ucp_compile_options(${name})
  if(UCP_PORTABLE)
    target_link_libraries(${name} PRIVATE -Wl,--whole-archive ${ucp_portable_libraries}/libmimalloc.a
                                          -Wl,--no-whole-archive)
  elseif(TARGET mimalloc)  # Before all other libraries, since the first malloc() is everybody's; no code names it.
    target_link_libraries(${name} PRIVATE -Wl,--push-state,--no-as-needed mimalloc -Wl,--pop-state)
  endif()
  target_link_libraries(${name} PRIVATE ${ARG_DEPENDS} ucp_every_program)
  install(TARGETS ${name} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endfunction()

# ucp_test(NAME [LABELS reads_bytes has_threads] SOURCES a_test.cpp … [ALONE b_test.cpp …] DEPENDS lib …): a GoogleTest
# program, each test known to ctest. Test runs take programs that read bytes from outside under AddressSanitizer and
# UndefinedBehaviorSanitizer, and those that have threads under ThreadSanitizer: tests/with_LABEL.txt in the build folder
# lists them.
function(ucp_test name)
  cmake_parse_arguments(ARG "" "" "LABELS;SOURCES;ALONE;DEPENDS" ${ARGN})
  foreach(label IN LISTS ARG_LABELS)
    if(NOT label MATCHES "^(reads_bytes|has_threads)$")
      message(FATAL_ERROR "${name}: there is no label ${label}")
    endif()
    set_property(GLOBAL APPEND_STRING PROPERTY ucp_tests_with_${label} "${name}\n")
  endforeach()
  ucp_together(sources ${name} ${ARG_SOURCES})
  add_executable(${name} ${sources} ${ARG_ALONE})
  ucp_compile_options(${name})
  target_compile_definitions(${name} PRIVATE UCP_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
  # Building the tests is most of the work of a test run. Their own code is neither fast nor under test.
  target_compile_options(${name} PRIVATE $<$<CONFIG:Release>:-O1>)
  if(UCP_SANITIZE MATCHES undefined)
    target_compile_options(${name} PRIVATE -fno-sanitize=undefined)
  endif()
  target_link_libraries(${name} PRIVATE ${ARG_DEPENDS} GTest::gmock GTest::gtest_main)
  gtest_discover_tests(${name} DISCOVERY_MODE PRE_TEST PROPERTIES TIMEOUT 600)
endfunction()
