#include "runtime/load/io_of_load.h"

#include <cstdint>
#include <string>
#include <vector>

#include "compiler/support/error.h"
#include "compiler/support/user_option.h"

namespace ucp {
namespace {

IoChoice ByTrial(const LoadPlan& load, FileSystem& files, std::span<const WantedRecord> wanted,
                 const LoadOptions& options) {
  std::uint64_t bytes = 0;
  for (const WantedRecord& record : wanted) bytes += record.memory.size();
  std::vector<FileToRead> to_read;
  for (const StoredFile& file : load.plan.source.files) {
    to_read.push_back({JoinPath(load.source_folder, file.path), file.bytes});
  }
  TrialOptions trial;
  trial.threads = options.threads;
  trial.memory_bytes = options.memory_bytes;
  trial.cancelled = options.cancelled;
  return ChooseReading(files, to_read, bytes, trial);
}

}  // namespace

llvm::Expected<IoChoice> ChooseIoOfLoad(const LoadPlan& load, FileSystem& files, std::span<const WantedRecord> wanted,
                                        const LoadOptions& options, Communicator& ranks) {
  IoChoice chosen{options.io == IoMode::kDirect, fmt::format("so {} says", OptionName(UserOption::kIo)), 0, 0};
  if (ranks.rank() == 0 && options.io == IoMode::kAuto) chosen = ByTrial(load, files, wanted, options);
  if (ranks.size() == 1) return chosen;
  UCP_ASSIGN_OR_RETURN(const std::string way, FromFirstRank(ranks, chosen.directly ? "directly" : ""));
  if (ranks.rank() != 0) chosen = {!way.empty(), "rank 0 found it so", 0, 0};
  return chosen;
}

std::size_t MostOpenFiles(const OpenFileShares& shares, const IoChoice& reading) {
  return reading.directly ? (shares.reading + shares.writing) / 2 : shares.reading;
}

}  // namespace ucp
