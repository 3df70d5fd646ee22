#include "compiler/files/destination_names.h"

#include <fmt/format.h>

#include "compiler/files/readable_file_system.h"

namespace ucp {
namespace {

// "a/b" and "c" of "a/b/c//"; the parent of a bare name is ".".
struct SplitPath {
  std::string parent;
  std::string name;
};

SplitPath Split(std::string path) {
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  std::size_t slash = path.rfind('/');
  if (slash == std::string::npos) return {".", path};
  return {slash == 0 ? "/" : path.substr(0, slash), path.substr(slash + 1)};
}

}  // namespace

std::string ParentOf(const std::string& destination) { return Split(destination).parent; }

std::string NameOfDestination(const std::string& destination) { return Split(destination).name; }

std::string BesideDestination(const std::string& destination, std::string_view what) {
  const auto [parent, name] = Split(destination);
  return JoinPath(parent, fmt::format(".{}.ucp-{}", name, what));
}

std::optional<std::string> NameOfPrepared(std::string_view folder_name) {
  constexpr std::string_view kEnd = ".ucp-partial";
  if (!folder_name.starts_with('.') || !folder_name.ends_with(kEnd)) return std::nullopt;
  if (folder_name.size() <= kEnd.size() + 1) return std::nullopt;
  return std::string(folder_name.substr(1, folder_name.size() - kEnd.size() - 1));
}

}  // namespace ucp
