#include "runtime/destination/many_ranks.h"

#include "compiler/support/error.h"
#include "runtime/wire/byte_codec.h"

namespace ucp {

llvm::Expected<std::optional<FoundManifest>> ShareManifest(Communicator& ranks,
                                                           llvm::Expected<std::optional<FoundManifest>> of_first_rank) {
  if (ranks.size() == 1) return of_first_rank;
  wire::ByteWriter writer;
  llvm::Error error = of_first_rank.takeError();
  if (!error && *of_first_rank) {
    writer.Add((*of_first_rank)->root);
    writer.Add(ComposeManifest((*of_first_rank)->manifest));
  }
  UCP_RETURN_IF_ERROR(OutcomeOfFirstRank(ranks, std::move(error)));
  UCP_ASSIGN_OR_RETURN(std::string encoded, FromFirstRank(ranks, writer.bytes()));
  if (encoded.empty()) return std::nullopt;
  wire::ByteReader reader(encoded);
  const std::string root = reader.Text();
  llvm::Expected<Manifest> manifest = ParseManifest(reader.Text());
  UCP_RETURN_IF_ERROR(Agree(ranks, manifest ? llvm::Error::success() : manifest.takeError()));
  return FoundManifest{root, std::move(*manifest)};
}

std::vector<ManifestFile> FilesToCheck(const std::vector<ManifestFile>& files, int rank, int ranks) {
  constexpr std::uint64_t kBytesOfAFile = 64 << 10;  // A file costs something, however small it is.
  double all = 0;
  for (const ManifestFile& file : files) all += static_cast<double>(file.bytes + kBytesOfAFile);
  std::vector<ManifestFile> mine;
  double before = 0;
  for (const ManifestFile& file : files) {
    const auto bytes = static_cast<double>(file.bytes + kBytesOfAFile);
    if (static_cast<int>((before + bytes / 2) / all * ranks) == rank) mine.push_back(file);
    before += bytes;
  }
  return mine;
}

llvm::Expected<std::vector<std::string>> GatherTexts(Communicator& ranks, const std::vector<std::string>& mine) {
  wire::ByteWriter writer;
  for (const std::string& text : mine) writer.Add(text);
  UCP_ASSIGN_OR_RETURN(std::vector<std::string> encoded, ranks.AllGather(writer.bytes()));
  std::vector<std::string> all;
  for (const std::string& texts : encoded) {
    for (wire::ByteReader reader(texts); !reader.left().empty();) all.push_back(reader.Text());
  }
  return all;
}

llvm::Expected<std::vector<StagedRun>> ShareStaged(Communicator& ranks, const StagedRun& mine) {
  wire::ByteWriter writer;
  writer.Add(mine.where.folder);
  writer.Add(mine.where.ranks_folder);
  writer.Add(mine.where.inode);
  writer.Add(mine.where.run);
  writer.Add(mine.entry_head);
  UCP_ASSIGN_OR_RETURN(const std::vector<std::string> encoded, ranks.AllGather(writer.bytes()));
  std::vector<StagedRun> all;
  for (const std::string& of_rank : encoded) {
    wire::ByteReader reader(of_rank);
    all.push_back({StagedFolder{reader.Text(), reader.Text(), reader.Number(), reader.Number()}, reader.Text()});
  }
  return all;
}

}  // namespace ucp
