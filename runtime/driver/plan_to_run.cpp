#include "runtime/driver/plan_to_run.h"

#include "compiler/compile/plan_again.h"
#include "compiler/files/seen_files.h"
#include "compiler/formats/identity.h"
#include "compiler/open/with_diagnostics.h"
#include "compiler/support/error.h"
#include "runtime/plan_file/plan_file.h"
#include "runtime/plan_file/ready_made_pickles.h"

namespace ucp {
namespace {

llvm::Expected<PlannedRun> TakeAsItIs(SeenFiles& source, const PlanToRun& request, PlanWithInputs file) {
  // The user of a plan does not vouch for what its maker chose to keep.
  if (llvm::Error error = CheckReadyMadePickles(file.plan)) {
    return AddContext(std::move(error), fmt::format("`{}`", request.path));
  }
  BeginPhase(request.clock, "describe");
  UCP_ASSIGN_OR_RETURN(Checkpoint checkpoint, DescribeSource(source, request.source, file.plan.preference));
  UCP_RETURN_IF_ERROR(CheckIdentity(file.plan, checkpoint.inventory));
  std::vector<FileVersion> versions = VersionsOf(source, file.plan, checkpoint.inventory.root);
  return PlannedRun{std::move(file.plan), checkpoint.inventory.root, std::move(versions), {}, IdentityOf(checkpoint)};
}

// A spec that does not fit is the plan file's here, and not the user's.
llvm::Error CannotPlanAgain(const std::string& path, const OpenedSpec& spec, llvm::Error error) {
  FailureText failure = TakeFailure(WithDiagnostics(std::move(error), spec));
  const bool is_of_file = failure.code == ErrorCode::kSpec || failure.code == ErrorCode::kUsage;
  return Fail(is_of_file ? ErrorCode::kBadData : failure.code,
              "what `{}` was made from does not give a plan of this checkpoint: {}", path, failure.message);
}

llvm::Expected<PlannedRun> MakeAgain(SeenFiles& source, const PlanToRun& request, PlanWithInputs file) {
  llvm::Expected<CompileRequest> made = RequestOf(*file.inputs, file.plan.preference, request.source);
  if (!made) return CannotPlanAgain(request.path, nullptr, made.takeError());
  made->source.threads = request.readers;
  made->source.clock = request.clock;
  made->threads = request.threads;
  made->hashes_plan = true;
  OpenedSpec spec;
  made->source.opened = &spec;
  UCP_ASSIGN_OR_RETURN(Described described, DescribeCheckpoint(source, made->source));
  // Before anything else: another checkpoint than the plan was made of is the likeliest mistake.
  UCP_RETURN_IF_ERROR(CheckIdentity(file.plan, described.checkpoint.inventory));
  llvm::Expected<Compiled> again = CompileDescribed(source, *made, std::move(described));
  if (!again) return CannotPlanAgain(request.path, spec, again.takeError());
  UCP_RETURN_IF_ERROR(CheckMadeAgain(request.path, std::move(file.plan), again->plan));
  std::vector<FileVersion> versions = VersionsOf(source, again->plan, again->source.folder);
  return PlannedRun{std::move(again->plan), std::move(again->source.folder), std::move(versions),
                    std::move(again->plan_hash), std::move(again->source.identity)};
}

}  // namespace

llvm::Expected<PlannedRun> PreparePlan(ReadableFileSystem& files, ReadableFileSystem& source,
                                       const PlanToRun& request) {
  BeginPhase(request.clock, "load");
  UCP_ASSIGN_OR_RETURN(PlanWithInputs file, ReadPlanFile(files, request.path));
  UCP_RETURN_IF_ERROR(CheckIsOfCheckpoint(request.path, file));
  SeenFiles seen(source);
  if (request.is_trusted) return TakeAsItIs(seen, request, std::move(file));
  if (file.inputs) return MakeAgain(seen, request, std::move(file));
  return Fail(ErrorCode::kBadData,
              "`{}` is by ucp {} and does not say what it was made from, so it cannot be compared with a plan that is "
              "made again; make it with `ucpc plan` of this version, or run it as it is with --trust-plan",
              request.path, file.plan.tool_version);
}

}  // namespace ucp
