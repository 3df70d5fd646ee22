#include "runtime/comm/find_plugin.h"

#include <filesystem>
#include <system_error>

#include "compiler/support/own_file.h"

namespace ucp {

// Beside the program; in the Python package beside the programs; in an installation in the library folder, seen from
// the program and from the library; in a build tree, from the library, beside the programs.
std::string FindPlugin([[maybe_unused]] const std::string& name) {
#ifndef UCP_STATIC  // A program that holds the C library cannot open a plugin, which brings another.
  namespace fs = std::filesystem;
  std::error_code ignored;
  const fs::path own = OwnFile().parent_path();
  const char* installed = "../" UCP_PLUGIN_FOLDER;
  for (const char* relative : {".", "bin", installed, "ucp", "../bin"}) {
    const fs::path place = (own / relative / name).lexically_normal();
    if (!own.empty() && fs::exists(place, ignored)) return place.string();
  }
#endif
  return "";
}

}  // namespace ucp
