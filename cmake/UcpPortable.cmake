# UCP_PORTABLE: programs and a Python module that need the C library and libgcc alone, for other distributions than the
# one that builds them. Archives take the place of shared libraries; scripts/make-portable-libraries.sh makes those that
# Debian lacks.
include_guard()

option(UCP_PORTABLE "Link everything but the C library and libgcc into the programs and the Python module" OFF)
option(UCP_STATIC "Link the C library into the programs as well, which then open no plugins; with UCP_PORTABLE" OFF)
if(NOT UCP_PORTABLE)
  if(UCP_STATIC)
    message(FATAL_ERROR "UCP_STATIC=ON needs UCP_PORTABLE=ON, which makes archives of the other libraries")
  endif()
  return()
endif()

set(ucp_portable_libraries ${PROJECT_SOURCE_DIR}/build/portable-libraries)
if(NOT EXISTS ${ucp_portable_libraries}/complete)
  message(FATAL_ERROR "${ucp_portable_libraries} is not complete; run scripts/make-portable-libraries.sh first")
endif()
list(PREPEND CMAKE_FIND_LIBRARY_SUFFIXES .a)
set(ZLIB_USE_STATIC_LIBS ON)
# Not libgcc: that of g++ 12 needs glibc 2.35 inside a program, and every system has the shared one. Functions that
# nothing calls are dropped, since some of them (arc4random) need glibc 2.36. The programs must not hide mimalloc's
# malloc() from the C library.
add_link_options(-Wl,--gc-sections)
if(UCP_STATIC)
  # mallinfo2() would bring the C library's malloc() beside mimalloc's; LLVM names it, and nothing here calls it.
  add_link_options(-static-pie -Wl,--defsym=mallinfo2=abort)
  set(CMAKE_SKIP_RPATH ON)  # A static program with a run path stops when it starts.
else()
  add_link_options(-static-libstdc++)
endif()

# ucp_take_archive(TARGET ARCHIVE): an imported target is the archive instead of its shared library.
function(ucp_take_archive target archive)
  get_target_property(configurations ${target} IMPORTED_CONFIGURATIONS)
  foreach(configuration IN LISTS configurations)
    set_target_properties(${target} PROPERTIES IMPORTED_LOCATION_${configuration} ${ucp_portable_libraries}/${archive})
  endforeach()
endfunction()
