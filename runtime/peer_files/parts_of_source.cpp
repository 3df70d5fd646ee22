#include "runtime/peer_files/parts_of_source.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <utility>

#include "compiler/support/error.h"
#include "compiler/support/user_option.h"
#include "runtime/manifest/part_of_checkpoint.h"
#include "runtime/wire/byte_codec.h"

namespace ucp {
namespace {

// One rank's view of the path.
struct SeenPart {
  bool has_folder = false;
  ManifestPart part;  // Number 0: there is no manifest of a part.
  std::string hash;   // HashOfAll().
};

std::string Encode(const SeenPart& seen_part) {
  wire::ByteWriter writer;
  writer.Add(std::uint64_t{seen_part.has_folder});
  writer.Add(static_cast<std::uint64_t>(seen_part.part.number));
  writer.Add(static_cast<std::uint64_t>(seen_part.part.count));
  writer.Add(seen_part.part.run);
  writer.Add(seen_part.hash);
  return writer.bytes();
}

SeenPart DecodeSeenPart(const std::string& bytes) {
  wire::ByteReader reader(bytes);
  const bool has_folder = reader.Number() != 0;
  const int number = static_cast<int>(reader.Number());
  const int count = static_cast<int>(reader.Number());
  std::string run = reader.Text();
  return {has_folder, ManifestPart{number, count, std::move(run)}, reader.Text()};
}

std::string Describe(const ManifestPart& part) {
  return part.number == 0 ? "a checkpoint that is not in parts" : fmt::format("{} of the run {}", Name(part), part.run);
}

llvm::Error CheckTogether(const std::string& path, const std::vector<SeenPart>& seen_parts, std::size_t first) {
  const ManifestPart& known = seen_parts[first].part;
  for (std::size_t rank = 0; rank < seen_parts.size(); ++rank) {
    const SeenPart& seen_part = seen_parts[rank];
    const bool fits = seen_part.part.number == 0
                          ? !seen_part.has_folder
                          : seen_part.part.run == known.run && seen_part.part.count == known.count;
    if (fits && (seen_part.part.number == 0 || seen_part.hash == seen_parts[first].hash)) continue;
    if (fits) {
      return Fail(
          ErrorCode::kBadData,
          "rank {} sees {} in `{}`, and rank {} {}: the source was changed between them, so they hold different "
          "data; convert all of it again with {}",
          first, Describe(known), path, rank, Describe(seen_part.part), OptionName(UserOption::kForce));
    }
    return Fail(
        ErrorCode::kBadData,
        "rank {} sees {} in `{}`, and rank {} {}: these do not belong together; if a conversion was interrupted "
        "while its parts appeared, the same command with {} finishes it",
        first, Describe(known), path, rank, Describe(seen_part.part), OptionName(UserOption::kResume));
  }
  return llvm::Error::success();
}

// Of a rank that sees a part. Somebody may have put several together.
llvm::Error CheckEnough(ReadableFileSystem& files, const std::string& path, const FoundManifest& found,
                        const std::vector<SeenPart>& seen_parts) {
  std::set<int> seen;
  for (const SeenPart& seen_part : seen_parts) seen.insert(seen_part.part.number);
  std::set<int> missing;
  for (const ManifestFile& file : found.manifest.files) {
    if (file.parts.empty() || std::ranges::any_of(file.parts, [&](int part) { return seen.contains(part); })) continue;
    UCP_ASSIGN_OR_RETURN(PathKind kind, files.Kind(JoinPath(found.root, file.path)));
    if (kind == PathKind::kMissing) missing.insert(file.parts.begin(), file.parts.end());
  }
  if (missing.empty()) return llvm::Error::success();
  return Fail(ErrorCode::kBadData,
              "of `{}` (run {}), part{} {} of {} {} at none of the {} ranks; start ranks on all its nodes, or, if its "
              "conversion was interrupted, finish it by the same command with {}",
              path, found.manifest.part.run, missing.size() == 1 ? "" : "s", fmt::join(missing, ", "),
              found.manifest.part.count, missing.size() == 1 ? "is" : "are", seen_parts.size(),
              OptionName(UserOption::kResume));
}

}  // namespace

std::vector<int> PartsOfSource::RanksWith(int part) const {
  std::vector<int> ranks;
  for (std::size_t rank = 0; rank < part_of_rank.size(); ++rank) {
    if (part_of_rank[rank] == part) ranks.push_back(static_cast<int>(rank));
  }
  return ranks;
}

llvm::Expected<std::optional<PartsOfSource>> FindPartsOfSource(ReadableFileSystem& files, const std::string& path,
                                                               Communicator& ranks) {
  std::optional<FoundManifest> mine;
  SeenPart seen_part;
  auto look = [&]() -> llvm::Error {
    UCP_ASSIGN_OR_RETURN(mine, FindPart(files, path));
    if (mine) {
      seen_part.part = mine->manifest.part;
      seen_part.hash = HashOfAll(mine->manifest);
    }
    UCP_ASSIGN_OR_RETURN(PathKind kind, files.Kind(path));
    seen_part.has_folder = kind != PathKind::kMissing;
    return llvm::Error::success();
  };
  UCP_RETURN_IF_ERROR(Agree(ranks, look()));
  UCP_ASSIGN_OR_RETURN(const std::vector<std::string> encoded, ranks.AllGather(Encode(seen_part)));
  std::vector<SeenPart> seen_parts;
  PartsOfSource parts;
  for (const std::string& bytes : encoded) {
    seen_parts.push_back(DecodeSeenPart(bytes));
    parts.part_of_rank.push_back(seen_parts.back().part.number);
  }
  const auto first = static_cast<std::size_t>(
      std::ranges::find_if(parts.part_of_rank, [](int part) { return part > 0; }) - parts.part_of_rank.begin());
  if (first == seen_parts.size()) return std::nullopt;
  UCP_RETURN_IF_ERROR(CheckTogether(path, seen_parts, first));  // All ranks come to the same result.
  const bool is_first = static_cast<int>(first) == ranks.rank();
  llvm::Error lacking = is_first ? CheckEnough(files, path, *mine, seen_parts) : llvm::Error::success();
  UCP_RETURN_IF_ERROR(Agree(ranks, std::move(lacking)));
  wire::ByteWriter manifest;
  if (is_first) {
    manifest.Add(mine->root);
    manifest.Add(ComposeManifest(mine->manifest));
  }
  UCP_ASSIGN_OR_RETURN(const std::vector<std::string> all, ranks.AllGather(manifest.bytes()));
  wire::ByteReader reader(all[first]);
  parts.found.root = reader.Text();
  llvm::Expected<Manifest> parsed = ParseManifest(reader.Text());
  UCP_RETURN_IF_ERROR(Agree(ranks, parsed ? llvm::Error::success() : parsed.takeError()));
  parts.found.manifest = std::move(*parsed);
  return parts;
}

}  // namespace ucp
