#include "runtime/driver/source_digests.h"

#include "compiler/support/error.h"
#include "runtime/driver/whole_plan.h"
#include "runtime/io/discarding_file_system.h"

namespace ucp {

llvm::Expected<ExecutionReport> DigestSource(FileSystem& files, const SourceRequest& request,
                                             const ExecutionOptions& options, SourcePhase& phase) {
  UCP_RETURN_IF_ERROR(DescribeAndBind(files, request, phase));
  UCP_ASSIGN_OR_RETURN(Plan plan, PlanOntoWhole(phase, ReplicaPolicy::kCompare));
  std::unique_ptr<FileSystem> nowhere = MakeDiscardingFileSystem(files);
  return Execute(plan, phase.folder, "", *nowhere, options);
}

}  // namespace ucp
