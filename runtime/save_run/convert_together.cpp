#include "runtime/save_run/convert_together.h"

#include <algorithm>
#include <iterator>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "compiler/strategies/rank_strategies.h"
#include "compiler/support/error.h"
#include "runtime/engine/share_run.h"
#include "runtime/peer_files/files_of_all_ranks.h"
#include "runtime/storage/direct_io_files.h"

namespace ucp {
namespace {

// Paths in one folder lead to another one, to be read there.
class FolderElsewhere : public ForwardingFileSystem {
 public:
  FolderElsewhere(FileSystem& files, std::string folder, std::string place)
      : ForwardingFileSystem(files), folder_(std::move(folder)), place_(std::move(place)) {}

  llvm::Expected<std::unique_ptr<ReadableFile>> OpenForReading(const std::string& path) override {
    return files().OpenForReading(Placed(path));
  }
  llvm::Expected<PathKind> Kind(const std::string& path) override { return files().Kind(Placed(path)); }
  llvm::Expected<FileStatus> Status(const std::string& path) override { return files().Status(Placed(path)); }
  llvm::Expected<std::vector<DirectoryEntry>> List(const std::string& path) override {
    return files().List(Placed(path));
  }

 private:
  std::string Placed(const std::string& path) const {
    if (!path.starts_with(folder_)) return path;
    const std::string_view rest = std::string_view(path).substr(folder_.size());
    return rest.empty() || rest.front() == '/' ? place_ + std::string(rest) : path;
  }

  const std::string folder_;
  const std::string place_;
};

llvm::Expected<PlannedRun> PlanWith(ReadableFileSystem& source, ConvertRequest request, unsigned readers,
                                    unsigned threads, const JobHooks& hooks) {
  CompileRequest choosing;
  UCP_ASSIGN_OR_RETURN(choosing.source, request.source.Request());
  choosing.settings = request.target_options;
  UCP_ASSIGN_OR_RETURN(std::vector<std::string> choice, ChooseStrategy(source, choosing, false, request.target));
  const PlanningOptions planning{.readers = readers, .threads = threads};
  UCP_ASSIGN_OR_RETURN(PlannedRun run, PlanConversion(source, request, planning, hooks));
  std::ranges::move(choice, std::back_inserter(run.plan.remarks));
  return run;
}

}  // namespace

llvm::Expected<ConvertReport> ConvertTogether(const ConvertRequest& request, const std::string& folder,
                                              const ConversionOptions& destination, ExecutionOptions execution,
                                              const JobHooks& hooks) {
  Communicator& machines = *execution.ranks;
  DirectIoFiles direct(RealFileSystem());
  FolderElsewhere files(direct, request.source.path, folder);
  std::unique_ptr<FilesOfAllRanks> nodes;
  if (machines.size() > 1) {
    UCP_ASSIGN_OR_RETURN(nodes, FilesOfAllRanks::Start(machines, files));
  }
  ReadableFileSystem& source = nodes == nullptr ? files : nodes->files();
  const unsigned readers = nodes == nullptr ? execution.threads : 1;  // Machines speak in one thread.
  UCP_ASSIGN_OR_RETURN(PlannedRun run, ShareRun(machines, machines.rank() == 0 ? PlanWith(source, request, readers,
                                                                                          execution.threads, hooks)
                                                                               : PlannedRun()));
  execution.progress = hooks.begin_progress();
  ConversionHooks conversion;
  conversion.use_io = [&direct](DirectIo means) { direct.Use(means); };
  UCP_ASSIGN_OR_RETURN(ConversionOutcome outcome,
                       Convert(files, run, destination, std::move(execution), conversion, nodes.get()));
  return ConvertReport{std::move(run), std::move(outcome)};
}

}  // namespace ucp
