#include "runtime/driver/many_ranks.h"

#include "compiler/driver/terminal.h"
#include "compiler/support/error.h"
#include "runtime/comm/launcher.h"
#include "runtime/executor/saved_progress.h"

namespace ucp {

llvm::Expected<std::optional<FoundManifest>> ShareManifest(Communicator& ranks,
                                                           llvm::Expected<std::optional<FoundManifest>> of_first_rank) {
  if (ranks.size() == 1) return of_first_rank;
  ProgressWriter writer;
  llvm::Error error = of_first_rank.takeError();
  if (!error && *of_first_rank) {
    writer.Add((*of_first_rank)->root);
    writer.Add(ComposeManifest((*of_first_rank)->manifest));
  }
  UCP_RETURN_IF_ERROR(OutcomeOfFirstRank(ranks, std::move(error)));
  UCP_ASSIGN_OR_RETURN(std::string encoded, FromFirstRank(ranks, writer.bytes()));
  if (encoded.empty()) return std::nullopt;
  ProgressReader reader(encoded);
  const std::string root = reader.Text();
  UCP_ASSIGN_OR_RETURN(Manifest manifest, ParseManifest(reader.Text()));
  return FoundManifest{root, std::move(manifest)};
}

std::vector<ManifestFile> FilesToCheck(const std::vector<ManifestFile>& files, const Communicator& ranks) {
  constexpr std::uint64_t kBytesOfAFile = 64 << 10;  // A file costs something, however small it is.
  double all = 0;
  for (const ManifestFile& file : files) all += static_cast<double>(file.bytes + kBytesOfAFile);
  std::vector<ManifestFile> mine;
  double before = 0;
  for (const ManifestFile& file : files) {
    const auto bytes = static_cast<double>(file.bytes + kBytesOfAFile);
    const int rank = static_cast<int>((before + bytes / 2) / all * ranks.size());
    if (rank == ranks.rank()) mine.push_back(file);
    before += bytes;
  }
  return mine;
}

llvm::Expected<std::vector<std::string>> GatherTexts(Communicator& ranks, const std::vector<std::string>& mine) {
  ProgressWriter writer;
  for (const std::string& text : mine) writer.Add(text);
  UCP_ASSIGN_OR_RETURN(std::vector<std::string> encoded, ranks.AllGather(writer.bytes()));
  std::vector<std::string> all;
  for (const std::string& texts : encoded) {
    for (ProgressReader reader(texts); !reader.left().empty();) all.push_back(reader.Text());
  }
  return all;
}

llvm::Expected<StagedRun> ShareStaged(Communicator& ranks, const StagedRun& of_first_rank) {
  ProgressWriter writer;
  writer.Add(of_first_rank.where.folder);
  writer.Add(of_first_rank.where.ranks_folder);
  writer.Add(of_first_rank.where.inode);
  writer.Add(of_first_rank.where.run);
  writer.Add(of_first_rank.entry_head);
  writer.Add(std::uint64_t{of_first_rank.means.reads_directly});
  writer.Add(std::uint64_t{of_first_rank.means.writes_directly});
  UCP_ASSIGN_OR_RETURN(std::string encoded, FromFirstRank(ranks, writer.bytes()));
  ProgressReader reader(encoded);
  return StagedRun{{reader.Text(), reader.Text(), reader.Number(), reader.Number()},
                   reader.Text(),
                   {reader.Number() != 0, reader.Number() != 0}};
}

llvm::Expected<std::unique_ptr<RunWatch>> BeginWatch(FileSystem& files, const WatchOptions& options,
                                                     Communicator& ranks) {
  if (ranks.rank() == 0) {
    llvm::Expected<std::unique_ptr<RunWatch>> watch = RunWatch::Begin(files, options);
    UCP_RETURN_IF_ERROR(OutcomeOfFirstRank(ranks, watch ? llvm::Error::success() : watch.takeError()));
    return watch;
  }
  UCP_RETURN_IF_ERROR(OutcomeOfFirstRank(ranks, llvm::Error::success()));
  WatchOptions quiet;
  quiet.max_bandwidth = options.max_bandwidth;
  return RunWatch::Begin(files, quiet);
}

int EndWith(llvm::Error error, bool json) {
  if (SpeaksForAllRanks()) return ShowError("ucprun", std::move(error), json);
  return ExitCode(Describe(std::move(error)).code);
}

}  // namespace ucp
