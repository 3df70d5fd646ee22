#include "compiler/compile/format_target.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "compiler/compile/carried_tensors.h"
#include "compiler/compile/plain_names.h"
#include "compiler/compile/target_layout.h"
#include "compiler/describe/choose_layout.h"
#include "compiler/formats/known_training.h"
#include "compiler/planner/join.h"
#include "compiler/support/check.h"
#include "compiler/support/error.h"
#include "compiler/support/user_option.h"

namespace ucp {
namespace {

const Format& FormatOf(const Strategy& strategy) {
  const Format* format = FindFormat(strategy.format);
  UCP_CHECK(format != nullptr, "there is no format `{}`", strategy.format);
  return *format;
}

// An option that a format would ignore was not meant.
llvm::Error CheckOptions(const CompileRequest& request, const Format& format) {
  if (request.settings.job_config.empty() || format.TakesJobConfig()) return llvm::Error::success();
  return Fail(ErrorCode::kUsage, "{} goes with the native files of a job; `{}` does not depend on it",
              OptionName(UserOption::kDsConfig), format.name());
}

// A source must have what its target needs, and an optimizer that is there is not left out unasked.
llvm::Error CheckHasOptimizer(const TrainingState& training, const Format& format, const Strategy& strategy) {
  if (training.absent_optimizer.empty() || format.HoldsWeightsAlone(strategy)) return llvm::Error::success();
  if (format.TakesWeightsAlone(strategy) && !training.has_unread_optimizer) return llvm::Error::success();
  return Fail(ErrorCode::kBadData, "{}. `{}` needs nothing but its weights", training.absent_optimizer,
              OptionName(UserOption::kTo, "safetensors"));
}

llvm::Expected<std::optional<JobConfig>> JobConfigOf(ReadableFileSystem& files, const CompileRequest& request) {
  if (request.settings.job_config.empty()) return std::nullopt;
  if (request.source.given != nullptr && request.source.given->ds_config) {
    return JobConfig{request.source.given->ds_config->name, request.source.given->ds_config->text};
  }
  UCP_ASSIGN_OR_RETURN(JobConfig job, ReadJobConfig(files, request.settings.job_config));
  return job;
}

}  // namespace

FormatTarget::FormatTarget(ReadableFileSystem& files, const CompileRequest& request, Strategy strategy)
    : files_(files), request_(request), strategy_(std::move(strategy)), format_(FormatOf(strategy_)) {}

llvm::Expected<Sides> FormatTarget::Meet(BoundSource source) {
  TrainingState& training = source.checkpoint.training;
  UCP_RETURN_IF_ERROR(CheckOptions(request_, format_));
  UCP_RETURN_IF_ERROR(CheckHasOptimizer(training, format_, strategy_));
  UCP_ASSIGN_OR_RETURN(job_config_, JobConfigOf(files_, request_));
  if (job_config_) UCP_RETURN_IF_ERROR(format_.CheckJobConfig(*job_config_));
  ChooseTag(training);
  training = KnownTraining(std::move(training), request_.settings.keep_opaque, left_out_);
  if (format_.TakesPlainNames(strategy_)) TakePlainNames(source, remarks_);
  UCP_ASSIGN_OR_RETURN(Sides sides, LayOutBoth(std::move(source)));
  if (!sides.source.folder.empty()) {
    UCP_ASSIGN_OR_RETURN(companions_,
                         FindCompanions(files_, format_.TakesCompanions(strategy_, sides.source.checkpoint.training),
                                        sides.source.folder, sides.source.requested_path));
    TakeOutUnknown(companions_, request_.settings.keep_opaque, left_out_, remarks_);
  }
  return sides;
}

llvm::Expected<Sides> FormatTarget::LayOutBoth(BoundSource source) {
  UCP_ASSIGN_OR_RETURN(std::vector<LogicalTensor> tensors, JoinTensors(source.layout, source.checkpoint.inventory));
  const auto named = strategy_.options.find(kLayoutSetting);
  const bool is_own = named != strategy_.options.end() && source.bound && source.bound->spec.model &&
                      source.bound->spec.layout_name == named->second;
  if (is_own) remarks_.push_back(fmt::format("the source has the layout `{}` already", named->second));
  if (is_own || named == strategy_.options.end()) {
    llvm::Expected<Layout> found = LayOutTarget(format_, strategy_, source, tensors, remarks_);
    if (!found) return WithOpenSettings(found.takeError(), source.checkpoint.training, tensors);
    Layout layout = std::move(*found);
    UCP_RETURN_IF_ERROR(format_.CutIntoBoxes(strategy_, source.checkpoint.training, tensors, layout));
    return Sides{std::move(source), std::move(layout), std::move(tensors)};
  }
  UCP_ASSIGN_OR_RETURN(const std::optional<Degrees> degrees, DegreesOfOther(source));
  UCP_ASSIGN_OR_RETURN(OtherLayout other, SeeInLayout(source, tensors, named->second, degrees, remarks_));
  UCP_RETURN_IF_ERROR(format_.CutIntoBoxes(strategy_, source.checkpoint.training, other.tensors, other.layout));
  UCP_ASSIGN_OR_RETURN(Layout whole, AtomicLayout(source.layout));
  return Sides{std::move(source), std::move(whole), std::move(tensors), std::move(other)};
}

// Of a target in another layout of the source's model.
llvm::Expected<std::optional<Degrees>> FormatTarget::DegreesOfOther(const BoundSource& source) const {
  UCP_ASSIGN_OR_RETURN(std::optional<Degrees> degrees, format_.TargetDegrees(strategy_, source.checkpoint.training));
  if (!degrees || degrees->mesh.Size("pp") == 1) return degrees;
  return Fail(ErrorCode::kUnsupported,
              "`{}` changes the layout, and has {} pipeline stages: nothing says which module of a pipeline has which "
              "tensor of another layout; leave out the stages, or the layout",
              request_.target, degrees->mesh.Size("pp"));
}

// Names the settings that the strategy leaves open in the same message.
llvm::Error FormatTarget::WithOpenSettings(llvm::Error error, const TrainingState& training,
                                           std::span<const LogicalTensor> tensors) const {
  return llvm::handleErrors(std::move(error), [&](std::unique_ptr<Failure> failure) {
    if (failure->code() != ErrorCode::kUsage || job_config_) return llvm::Error(std::move(failure));
    std::string message = failure->text();
    for (const std::string& setting : format_.OpenSettings(strategy_, training, tensors)) {
      message += fmt::format("; the strategy also has to say {}", setting);
    }
    return MakeError(ErrorCode::kUsage, message);
  });
}

// A model alone has none, and the folders of some targets are named by it.
void FormatTarget::ChooseTag(TrainingState& training) {
  if (!request_.settings.tag.empty()) training.tag = request_.settings.tag;
  if (!training.tag.empty() || format_.first_tag().empty()) return;
  training.tag = format_.first_tag();
  remarks_.push_back(fmt::format("the source has no tag; the target's is `{}`, and {} names another", training.tag,
                                 OptionName(UserOption::kTag)));
}

llvm::Expected<TargetFiles> FormatTarget::LayOut(const Sides& sides) {
  const TrainingState& training = sides.source.checkpoint.training;
  const TargetRequest request{.tensors = sides.other ? sides.other->tensors : sides.tensors,
                              .layout = sides.other ? sides.other->layout : sides.target,
                              .training = training,
                              .source_mesh = sides.source.checkpoint.inventory.mesh,
                              .strategy = strategy_,
                              .companions = companions_.files,
                              .job_config = job_config_ ? &*job_config_ : nullptr,
                              .threads = request_.threads};
  UCP_ASSIGN_OR_RETURN(TargetFiles target, format_.LayOut(request));
  UCP_ASSIGN_OR_RETURN(target.readers, format_.Readers(request, target));
  if (sides.other) UCP_RETURN_IF_ERROR(FillPieces(*sides.other, target));
  UCP_RETURN_IF_ERROR(NameLeftOut(target));
  if (!format_.CarriesLooseStates() && !target.weights_only) {
    UCP_RETURN_IF_ERROR(CheckNoLooseStates(training, strategy_.format));
  }
  AddRemarks(target);
  return target;
}

bool FormatTarget::CarriesTensors(const Sides& sides) const {
  const TrainingState& training = sides.source.checkpoint.training;
  return !training.large_tensors.empty() || (format_.CarriesLooseStates() && !training.loose_states.empty());
}

// A target of weights has none of the objects that could be left out of it.
llvm::Error FormatTarget::NameLeftOut(TargetFiles& target) {
  if (!target.weights_only) {
    for (std::string& note : NotesOn(left_out_)) target.remarks.push_back(std::move(note));
    target.left_out = std::move(left_out_);
    return llvm::Error::success();
  }
  if (request_.settings.keep_opaque.empty()) return llvm::Error::success();
  return Fail(ErrorCode::kUsage, "{} goes with targets that hold the training state; `{}` holds weights alone",
              OptionName(UserOption::kKeepOpaque), request_.target);
}

void FormatTarget::AddRemarks(TargetFiles& target) const {
  target.remarks.insert(target.remarks.end(), remarks_.begin(), remarks_.end());
  if (companions_.left_behind.empty() || target.weights_only) return;
  target.remarks.push_back(
      fmt::format("not copied from beside the checkpoint: {}", fmt::join(companions_.left_behind, ", ")));
}

}  // namespace ucp
