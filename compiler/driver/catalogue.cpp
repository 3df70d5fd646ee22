#include "compiler/driver/catalogue.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <link.h>

#include <algorithm>
#include <filesystem>

#include "compiler/support/error.h"
#include "compiler/support/spelling.h"

namespace ucp {
namespace {

namespace fs = std::filesystem;

// The program, or the library that holds this code: the Python package's module is no part of a program of ours.
fs::path OwnFile() {
  Dl_info ignored{};
  link_map* object = nullptr;
  bool found = dladdr1(reinterpret_cast<const void*>(&CatalogueNames), &ignored, reinterpret_cast<void**>(&object),
                       RTLD_DL_LINKMAP) != 0;
  if (found && object->l_name[0] != '\0') return object->l_name;  // The program itself has no name there.
  std::error_code error;
  return fs::read_symlink("/proc/self/exe", error);
}

// Beside an installed program, `<prefix>/share/ucp/specs`; beside one in a build tree, the source's `specs`; in the
// Python package, `specs`.
fs::path CatalogueFolder() {
  std::error_code error;
  fs::path own = OwnFile();
  if (own.empty()) return {};
  for (const char* relative : {"../share/ucp/specs", "../../../specs", "specs", "../specs"}) {
    fs::path folder = (own.parent_path() / relative).lexically_normal();
    if (fs::is_directory(folder, error)) return folder;
  }
  return {};
}

}  // namespace

std::vector<std::string> CatalogueNames() {
  std::vector<std::string> names;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(CatalogueFolder(), error)) {
    if (entry.path().extension() == ".ucp") names.push_back(entry.path().stem().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

llvm::Expected<std::string> FindSpec(const std::string& file_or_name) {
  std::error_code error;
  if (fs::exists(file_or_name, error)) return file_or_name;
  fs::path in_catalogue = CatalogueFolder() / (file_or_name + ".ucp");
  if (file_or_name.find('/') == std::string::npos && fs::exists(in_catalogue, error)) return in_catalogue.string();
  std::vector<std::string> names = CatalogueNames();
  std::string known = names.empty() ? "" : fmt::format("; the catalogue has {}", fmt::join(names, ", "));
  std::optional<std::string> nearest = NearestWord(file_or_name, names);
  return Fail(ErrorCode::kIo, "there is no spec `{}`, neither as a file nor in the catalogue{}{}", file_or_name,
              nearest ? fmt::format("; did you mean `{}`?", *nearest) : "", nearest ? "" : known);
}

}  // namespace ucp
