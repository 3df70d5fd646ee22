#include "compiler/formats/recognise/candidates.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "compiler/formats/format.h"
#include "compiler/support/error.h"

namespace ucp {
namespace {

constexpr std::size_t kMostListed = 16;

// A latest file that leads nowhere also makes a root: a broken one.
llvm::Expected<bool> HasLatest(ReadableFileSystem& files, const std::string& folder, const Format& format) {
  if (!format.has_roots()) return false;
  UCP_ASSIGN_OR_RETURN(FileStatus status, files.Status(JoinPath(folder, std::string(format.latest_file()))));
  return status.kind == PathKind::kFile || (status.kind == PathKind::kMissing && status.is_link);
}

llvm::Expected<Candidate> Examine(ReadableFileSystem& files, const std::string& folder, const std::string& name) {
  const std::string path = JoinPath(folder, name);
  Candidate candidate{name, {}, false};
  std::vector<std::string> roots_of;
  for (const auto& format : AllFormats()) {
    UCP_ASSIGN_OR_RETURN(bool is_checkpoint, format->IsCheckpoint(files, path));
    if (is_checkpoint) candidate.formats.emplace_back(format->name());
    UCP_ASSIGN_OR_RETURN(bool has_latest, HasLatest(files, path, *format));
    if (has_latest) roots_of.emplace_back(format->name());
  }
  if (candidate.formats.empty()) {
    candidate.formats = std::move(roots_of);
    candidate.is_root = true;
  }
  return candidate;
}

// Second names of folders that are here under their own.
llvm::Error DropSecondNames(ReadableFileSystem& files, const std::string& folder, const std::set<std::string>& links,
                            std::vector<Candidate>& candidates) {
  if (links.empty() || candidates.size() < 2) return llvm::Error::success();
  using Identity = std::pair<std::uint64_t, std::uint64_t>;
  std::set<Identity> seen;
  std::vector<std::pair<const Candidate*, Identity>> of_links;
  for (const Candidate& candidate : candidates) {
    UCP_ASSIGN_OR_RETURN(FileStatus status, files.Status(JoinPath(folder, candidate.name)));
    if (!status.inode_lasts) continue;
    const Identity identity{status.device, status.inode};
    if (links.contains(candidate.name)) {
      of_links.emplace_back(&candidate, identity);
    } else {
      seen.insert(identity);
    }
  }
  std::set<std::string> dropped;
  for (const auto& [candidate, identity] : of_links) {
    if (!seen.insert(identity).second) dropped.insert(candidate->name);
  }
  std::erase_if(candidates, [&](const Candidate& candidate) { return dropped.contains(candidate.name); });
  return llvm::Error::success();
}

}  // namespace

llvm::Expected<std::vector<Candidate>> FindCandidates(ReadableFileSystem& files, const std::string& folder) {
  UCP_ASSIGN_OR_RETURN(std::vector<DirectoryEntry> entries, files.List(folder));
  std::vector<Candidate> candidates;
  std::set<std::string> links;
  for (const DirectoryEntry& entry : entries) {
    if (!entry.is_directory || entry.name.starts_with('.')) continue;
    UCP_ASSIGN_OR_RETURN(Candidate candidate, Examine(files, folder, entry.name));
    if (candidate.formats.empty()) continue;
    if (entry.is_link) links.insert(entry.name);
    candidates.push_back(std::move(candidate));
  }
  UCP_RETURN_IF_ERROR(DropSecondNames(files, folder, links, candidates));
  return candidates;
}

std::string Listed(const std::vector<Candidate>& candidates) {
  std::vector<std::string> names;
  const std::size_t shown = std::min(candidates.size(), kMostListed);
  for (std::size_t i = 0; i < shown; ++i) {
    const bool is_last_of_formats = i + 1 == shown || candidates[i + 1].formats != candidates[i].formats;
    names.push_back(is_last_of_formats
                        ? fmt::format("{} ({})", candidates[i].name, fmt::join(candidates[i].formats, " and "))
                        : candidates[i].name);
  }
  std::string text = fmt::format("{}", fmt::join(names, ", "));
  if (shown < candidates.size()) text += fmt::format(" and {} more", candidates.size() - shown);
  return text;
}

}  // namespace ucp
