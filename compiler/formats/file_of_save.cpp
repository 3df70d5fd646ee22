#include "compiler/formats/file_of_save.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "compiler/support/error.h"

namespace ucp {
namespace {

constexpr std::size_t kDigits = 2 * kBytesOfSave;

struct NameOfSave {
  std::string without;  // "__1_0.distcp"
  std::string save;
};

std::optional<NameOfSave> Split(std::string_view name) {
  const std::size_t end = name.rfind('.');
  if (end == std::string_view::npos || end < kDigits + 1 || name[end - kDigits - 1] != '_') return std::nullopt;
  const std::string_view save = name.substr(end - kDigits, kDigits);
  if (save.find_first_not_of("0123456789abcdef") != std::string_view::npos) return std::nullopt;
  std::string without(name.substr(0, end - kDigits - 1));
  return NameOfSave{without.append(name.substr(end)), std::string(save)};
}

}  // namespace

std::string FileOfSave(std::string_view stem, std::string_view save, std::string_view suffix) {
  return fmt::format("{}{}{}{}", stem, save.empty() ? "" : "_", save, suffix);
}

llvm::Error CheckOneSave(ReadableFileSystem& files, const std::string& folder, std::span<const std::string> missing) {
  if (std::ranges::none_of(missing, [](const std::string& name) { return Split(name).has_value(); })) {
    return llvm::Error::success();
  }
  llvm::Expected<std::vector<DirectoryEntry>> entries = files.List(folder);
  if (!entries) {
    llvm::consumeError(entries.takeError());
    return llvm::Error::success();
  }
  std::map<std::string, std::string> found;  // By name without a save.
  for (const DirectoryEntry& entry : *entries) {
    if (const std::optional<NameOfSave> name = Split(entry.name)) found.emplace(name->without, entry.name);
  }
  for (const std::string& name : missing) {
    const std::optional<NameOfSave> split = Split(name);
    const auto other = split ? found.find(split->without) : found.end();
    if (other == found.end() || other->second == name) continue;
    return Fail(ErrorCode::kBadData,
                "`{}` has files of two saves: `{}` is of the save {}, and `{}` of the save {}, which is listed, is "
                "missing; copy all parts of one save into a folder, or remove the file of the other save from a part",
                folder, other->second, Split(other->second)->save, name, split->save);
  }
  return llvm::Error::success();
}

}  // namespace ucp
