#include "compiler/formats/megatron/ranks/folders.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "compiler/support/error.h"

namespace ucp::megatron {
namespace {

constexpr std::string_view kRank = "mp_rank_";

// "mp_rank_01", and with more numbers behind it.
bool IsRankFolder(std::string_view name) {
  if (!name.starts_with(kRank) || name.size() == kRank.size()) return false;
  return name.find_first_not_of("0123456789_", kRank.size()) == name.npos;
}

}  // namespace

std::string RankFolder::file() const { return fmt::format("{}/{}", name, kRankFile); }

std::string RankFolder::states_file() const { return fmt::format("{}/{}", name, kRankStatesFile); }

llvm::Expected<std::vector<std::string>> RankFoldersIn(ReadableFileSystem& files, const std::string& folder) {
  UCP_ASSIGN_OR_RETURN(const std::vector<DirectoryEntry> entries, files.List(folder));
  std::vector<std::string> names;
  for (const DirectoryEntry& entry : entries) {
    if (entry.is_directory && IsRankFolder(entry.name)) names.push_back(entry.name);
  }
  std::ranges::sort(names);
  return names;
}

llvm::Expected<bool> IsOfRanks(ReadableFileSystem& files, const std::string& folder) {
  UCP_ASSIGN_OR_RETURN(const std::vector<std::string> names, RankFoldersIn(files, folder));
  for (const std::string& name : names) {
    UCP_ASSIGN_OR_RETURN(const PathKind kind, files.Kind(JoinPath(folder, RankFolder{name}.file())));
    if (kind == PathKind::kFile) return true;
  }
  return false;
}

bool IsRankFile(std::string_view path) {
  const std::size_t slash = path.find('/');
  if (slash == path.npos || !IsRankFolder(path.substr(0, slash))) return false;
  const std::string_view name = path.substr(slash + 1);
  return name == kRankFile || name == kRankStatesFile;
}

llvm::Expected<std::vector<RankFolder>> RankFoldersOf(const std::string& folder, const std::vector<std::string>& found,
                                                      const RankCounts& counts) {
  const auto refuse = [&](const std::string& what) {
    const std::string experts =
        counts.expert_ranks > 1 ? fmt::format(" and {} expert-parallel ranks", counts.expert_ranks) : "";
    return Fail(ErrorCode::kBadData,
                "`{}` {}, and its arguments say {} stages of {} tensor-parallel ranks{}; copy the whole folder, and "
                "nothing of another save",
                folder, what, counts.stages, counts.tensor_ranks, experts);
  };
  std::vector<RankFolder> wanted;
  std::set<std::string> others(found.begin(), found.end());
  for (std::int64_t stage = 0; stage < counts.stages; ++stage) {
    for (std::int64_t expert_rank = 0; expert_rank < counts.expert_ranks; ++expert_rank) {
      for (std::int64_t rank = 0; rank < counts.tensor_ranks; ++rank) {
        std::string name = fmt::format("{}{:02}", kRank, rank);
        if (counts.stages > 1) name += fmt::format("_{:03}", stage);
        if (counts.expert_ranks > 1) name += fmt::format("_{:03}", expert_rank);
        if (others.erase(name) == 0) return refuse(fmt::format("lacks the folder `{}`", name));
        wanted.push_back({std::move(name), stage, rank, expert_rank});
      }
    }
  }
  if (!others.empty()) return refuse(fmt::format("has the folder `{}`", *others.begin()));
  return wanted;
}

}  // namespace ucp::megatron
