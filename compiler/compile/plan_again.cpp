#include "compiler/compile/plan_again.h"

#include <fmt/format.h>

#include "compiler/catalogue/config_file.h"
#include "compiler/formats/job_config.h"
#include "compiler/layout/fact_value.h"
#include "compiler/plan/codec.h"
#include "compiler/plan/difference.h"
#include "compiler/support/error.h"
#include "compiler/support/user_option.h"
#include "compiler/support/version.h"

namespace ucp {
namespace {

// A plan file holds no absolute paths.
std::string NameOf(const std::string& path) { return path.substr(path.rfind('/') + 1); }  // npos + 1 is 0.

}  // namespace

llvm::Expected<PlanInputs> ReadInputs(ReadableFileSystem& files, const CompileRequest& request) {
  const SourceRequest& source = request.source;
  PlanInputs inputs;
  inputs.target = request.target;
  if (!source.config.empty()) {
    UCP_ASSIGN_OR_RETURN(std::string text, ReadWholeFile(files, source.config, kMaxConfigBytes));
    inputs.config = {source.config, std::move(text)};
  }
  if (!request.settings.job_config.empty()) {
    UCP_ASSIGN_OR_RETURN(JobConfig job, ReadJobConfig(files, request.settings.job_config));
    inputs.ds_config = {std::move(job.path), std::move(job.text)};
  }
  for (const auto& [name, value] : source.set) inputs.set.push_back(name + "=" + SettingOf(value));
  inputs.unused = source.unused;
  inputs.drop_states = source.drop_states;
  inputs.keep_opaque = request.settings.keep_opaque;
  inputs.tag = request.settings.tag;
  inputs.trusts_replicas = request.replicas == ReplicaPolicy::kTrust;
  return inputs;
}

void CompleteInputs(const CompileRequest& request, const BoundSource& source, PlanInputs& inputs) {
  // One that the catalogue gave is looked for again.
  if (!request.source.spec.empty() && source.spec != nullptr) inputs.spec = TextsOf(*source.spec);
  if (source.folder.empty()) inputs.source_strategy = request.source.path;
  for (std::optional<NamedText>* file : {&inputs.config, &inputs.ds_config}) {
    if (*file) (*file)->name = NameOf((*file)->name);
  }
}

llvm::Expected<CompileRequest> RequestOf(const PlanInputs& inputs, const RankPreference& preference,
                                         const std::string& path) {
  CompileRequest request;
  request.source.path = path;
  request.source.given = &inputs;
  if (!inputs.spec.empty()) request.source.spec = inputs.spec.front().name;
  if (inputs.config) request.source.config = inputs.config->name;
  UCP_ASSIGN_OR_RETURN(request.source.set, ParseSettings(inputs.set));
  request.source.unused = inputs.unused;
  request.source.drop_states = inputs.drop_states;
  request.source.preference = preference;
  request.target = inputs.target;
  request.settings.tag = inputs.tag;
  request.settings.keep_opaque = inputs.keep_opaque;
  if (inputs.ds_config) request.settings.job_config = inputs.ds_config->name;
  request.replicas = inputs.trusts_replicas ? ReplicaPolicy::kTrust : ReplicaPolicy::kCompare;
  return request;
}

llvm::Error CheckMadeAgain(const std::string& path, Plan plan, const Plan& again) {
  const std::string made_by = std::move(plan.tool_version);
  plan.tool_version = again.tool_version;
  plan.remarks = again.remarks;  // They also speak of what lies beside the checkpoint.
  UCP_ASSIGN_OR_RETURN(const std::string bytes, EncodePlan(plan));
  UCP_ASSIGN_OR_RETURN(const std::string bytes_again, EncodePlan(again));
  if (bytes == bytes_again) return llvm::Error::success();
  const std::string by =
      made_by == kVersion ? "" : fmt::format(" (the file is by ucp {}, and this is ucp {})", made_by, kVersion);
  // An entry can be written in two ways that mean one thing, such as ranks of files that every rank opens.
  const PlanDifference difference = FirstDifference(plan, again)
                                        .value_or(PlanDifference{"its encoding", fmt::format("{} bytes", bytes.size()),
                                                                 fmt::format("{} others", bytes_again.size())});
  return Fail(ErrorCode::kBadData,
              "`{}` is not the plan that is made of this checkpoint: {} is {} in the file, and {} where the same is "
              "planned again{}; make the plan again with `ucpc plan`, or run it as it is with {}",
              path, difference.what, difference.first, difference.second, by, OptionName(UserOption::kTrustPlan));
}

}  // namespace ucp
