#include "compiler/catalogue/catalogue.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>

#include "compiler/support/error.h"
#include "compiler/support/own_file.h"
#include "compiler/support/spelling.h"

namespace ucp {
namespace {

namespace fs = std::filesystem;

// Beside an installed program, `<prefix>/share/ucp/specs`, and so for the library, whose folder may be one deeper;
// beside one in a build tree, the source's `specs`; in the Python package, `specs`.
fs::path CatalogueFolder() {
  std::error_code error;
  fs::path own = OwnFile();
  if (own.empty()) return {};
  for (const char* relative : {"../share/ucp/specs", "../../share/ucp/specs", "../../../specs", "specs", "../specs"}) {
    fs::path folder = (own.parent_path() / relative).lexically_normal();
    if (fs::is_directory(folder, error)) return folder;
  }
  return {};
}

// "llama", or "models/llama": those with several layouts stand in a folder of their own.
constexpr std::string_view kModels = "models/";

bool IsName(std::string_view text) {
  if (text.starts_with(kModels)) text.remove_prefix(kModels.size());
  return text.find('/') == std::string_view::npos;
}

// Sorted, each behind `prefix`, which is also the folder.
std::vector<std::string> NamesIn(std::string_view prefix) {
  std::vector<std::string> names;
  std::error_code error;
  const fs::directory_iterator end;
  for (fs::directory_iterator entry(CatalogueFolder() / prefix, error); !error && entry != end;
       entry.increment(error)) {
    if (entry->path().extension() == ".ucp") names.push_back(std::string(prefix) + entry->path().stem().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace

std::vector<std::string> CatalogueNames() { return NamesIn(""); }

std::vector<std::string> ModelNames() { return NamesIn(kModels); }

std::string SpecOfCatalogue(const std::string& name) { return (CatalogueFolder() / (name + ".ucp")).string(); }

llvm::Expected<std::string> FindSpec(const std::string& file_or_name) {
  std::error_code error;
  const bool is_there = fs::exists(file_or_name, error);
  // A folder of the name may be the model that the spec is of.
  if (is_there && !fs::is_directory(file_or_name, error)) return file_or_name;
  const std::string in_catalogue = SpecOfCatalogue(file_or_name);
  if (IsName(file_or_name) && fs::exists(in_catalogue, error)) return in_catalogue;
  if (is_there) return file_or_name;
  std::vector<std::string> names = CatalogueNames();
  std::string known = names.empty() ? "" : fmt::format("; the catalogue has {}", fmt::join(names, ", "));
  std::optional<std::string> nearest = NearestWord(file_or_name, names);
  return Fail(ErrorCode::kIo, "there is no spec `{}`, neither as a file nor in the catalogue{}{}", file_or_name,
              nearest ? fmt::format("; did you mean `{}`?", *nearest) : "", nearest ? "" : known);
}

}  // namespace ucp
