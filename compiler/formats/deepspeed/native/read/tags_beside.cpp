#include "compiler/formats/deepspeed/native/read/tags_beside.h"

#include <re2/re2.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <optional>
#include <set>

#include "compiler/formats/deepspeed/native/read/ranks/degrees.h"
#include "compiler/support/error.h"
#include "compiler/support/units.h"

namespace ucp::deepspeed {
namespace {

struct Tag {
  std::string name;
  CheckpointFiles files;
};

std::set<std::string> NamesOf(const CheckpointFiles& files) {
  std::set<std::string> names(files.other_expert_files.begin(), files.other_expert_files.end());
  auto add = [&](const auto& of_kind) {
    for (const auto& [place, name] : of_kind) names.insert(name);
  };
  add(files.model_states);
  add(files.partitioned_model_states);
  add(files.optimizer_states);
  add(files.layers);
  add(files.experts);
  return names;
}

// Whether both names end in a number behind the same text, and `name` has the lower one.
bool IsOlder(const std::string& name, const std::string& than) {
  static const RE2 numbered(R"((.*?)(\d{1,18}))");
  std::string a, b;
  std::int64_t a_number = 0, b_number = 0;
  return RE2::FullMatch(name, numbered, &a, &a_number) && RE2::FullMatch(than, numbered, &b, &b_number) && a == b &&
         a_number < b_number;
}

enum class Older { kToo, kNot };

// The others in the same root; none if `folder` lies in no root.
std::vector<Tag> TagsBeside(ReadableFileSystem& files, const std::string& folder, Older older) {
  std::vector<Tag> tags;
  const std::filesystem::path path = std::filesystem::path(folder).lexically_normal();
  const std::string root = path.parent_path().empty() ? "." : path.parent_path().string();
  auto latest = files.Kind(JoinPath(root, "latest"));
  auto entries = files.List(root);
  const bool is_root = latest && entries && *latest == PathKind::kFile;
  if (!latest) llvm::consumeError(latest.takeError());
  if (!entries) llvm::consumeError(entries.takeError());
  if (!is_root) return tags;
  for (const DirectoryEntry& entry : *entries) {
    if (!entry.is_directory || entry.name == path.filename()) continue;
    if (older == Older::kNot && IsOlder(entry.name, path.filename().string())) continue;
    auto names = ListCheckpointFiles(files, JoinPath(root, entry.name));
    if (!names) {
      llvm::consumeError(names.takeError());
      continue;
    }
    const bool is_universal = std::find(names->folders.begin(), names->folders.end(), "zero") != names->folders.end();
    if (!is_universal) tags.push_back({entry.name, std::move(*names)});
  }
  return tags;
}

// The names that `names` lack, if they are some of `all`.
std::optional<std::vector<std::string>> Lacking(const std::set<std::string>& names, const std::set<std::string>& all) {
  if (!std::includes(all.begin(), all.end(), names.begin(), names.end())) return std::nullopt;
  std::vector<std::string> lacking;
  std::set_difference(all.begin(), all.end(), names.begin(), names.end(), std::back_inserter(lacking));
  return lacking;
}

// A tag of another strategy can only be compared with itself.
std::string WhyIncomplete(CheckpointFiles files) {
  auto why = [](llvm::Error error) { return error ? TakeFailure(std::move(error)).message : std::string(); };
  if (std::string gap = why(FindModelFiles(files, "")); !gap.empty()) return gap;
  auto partitions = CountPartitions(files, "", std::ssize(files.model_states));
  return partitions ? "" : why(partitions.takeError());
}

}  // namespace

std::vector<std::string> RemarksOnTagsBeside(ReadableFileSystem& files, const std::string& folder,
                                             const CheckpointFiles& names) {
  static const RE2 usual(R"(global_step\d+)");
  std::vector<std::string> remarks;
  const std::set<std::string> all = NamesOf(names);
  for (const Tag& tag : TagsBeside(files, folder, Older::kNot)) {
    const std::set<std::string> found = NamesOf(tag.files);
    if (found.empty() && !RE2::FullMatch(tag.name, usual)) continue;  // Some other folder.
    const auto lacking = Lacking(found, all);
    if (lacking ? lacking->empty() : WhyIncomplete(tag.files).empty()) continue;
    const std::string which =
        lacking ? fmt::format("it has {} of {} files, without `{}`", found.size(), all.size(), lacking->front())
                : fmt::format("it has {}, and some are missing", Counted(found.size(), "file"));
    remarks.push_back(fmt::format("the tag `{}` beside it is half-written: {}; saving it was interrupted, or goes on",
                                  tag.name, which));
  }
  return remarks;
}

llvm::Error NameTagBeside(ReadableFileSystem& files, const std::string& folder, llvm::Error error) {
  auto names = ListCheckpointFiles(files, folder);
  if (!names) {
    llvm::consumeError(names.takeError());
    return error;
  }
  const std::set<std::string> found = NamesOf(*names);
  for (const Tag& tag : TagsBeside(files, folder, Older::kToo)) {
    const auto lacking = Lacking(found, NamesOf(tag.files));
    if (!lacking || lacking->empty()) continue;
    FailureText failure = TakeFailure(std::move(error));
    return Fail(failure.code, "{}; the tag `{}` beside it has {} more, such as `{}`: was saving interrupted?",
                failure.message, tag.name, Counted(lacking->size(), "file"), lacking->front());
  }
  return error;
}

}  // namespace ucp::deepspeed
