#include "runtime/engine/share_run.h"

#include <utility>

#include "compiler/plan/codec.h"
#include "compiler/support/error.h"
#include "runtime/wire/byte_codec.h"

namespace ucp {

namespace {

std::string Encode(const std::vector<FileVersion>& versions) {
  wire::ByteWriter writer;
  for (const FileVersion& version : versions) {
    writer.Add(version.inode);
    writer.Add(version.bytes);
    writer.Add(static_cast<std::uint64_t>(version.modified_nanoseconds));
  }
  return writer.bytes();
}

std::vector<FileVersion> Decode(std::string_view bytes) {
  std::vector<FileVersion> versions;
  for (wire::ByteReader reader(bytes); !reader.left().empty();) {
    versions.push_back({reader.Number(), reader.Number(), static_cast<std::int64_t>(reader.Number())});
  }
  return versions;
}

}  // namespace

std::vector<FileVersion> VersionsOf(const SeenFiles& seen, const Plan& plan, const std::string& source_folder) {
  std::vector<FileVersion> versions;
  for (const StoredFile& file : plan.source.files) versions.push_back(seen.Version(JoinPath(source_folder, file.path)));
  return versions;
}

llvm::Expected<PlannedRun> ShareRun(Communicator& ranks, llvm::Expected<PlannedRun> of_first_rank) {
  if (ranks.size() == 1) return of_first_rank;
  const bool is_first = ranks.rank() == 0;
  std::string encoded;
  llvm::Error error = of_first_rank.takeError();
  if (!error && is_first) {
    llvm::Expected<std::string> plan = EncodePlan(of_first_rank->plan);
    if (plan) encoded = std::move(*plan);
    error = plan.takeError();
  }
  UCP_RETURN_IF_ERROR(OutcomeOfFirstRank(ranks, std::move(error)));
  UCP_ASSIGN_OR_RETURN(encoded, FromFirstRank(ranks, encoded));
  UCP_ASSIGN_OR_RETURN(std::string folder, FromFirstRank(ranks, of_first_rank->source_folder));
  UCP_ASSIGN_OR_RETURN(const std::string versions, FromFirstRank(ranks, Encode(of_first_rank->source_versions)));
  llvm::Expected<Plan> plan = is_first ? Plan() : DecodePlan(encoded);
  UCP_RETURN_IF_ERROR(Agree(ranks, plan ? llvm::Error::success() : plan.takeError()));
  if (is_first) return of_first_rank;
  return PlannedRun{std::move(*plan), std::move(folder), Decode(versions)};
}

}  // namespace ucp
