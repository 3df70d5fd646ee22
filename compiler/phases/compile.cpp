#include "compiler/phases/compile.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <chrono>

#include "compiler/formats/known_training.h"
#include "compiler/phases/find_strategy.h"
#include "compiler/phases/large_tensors.h"
#include "compiler/phases/loose_states.h"
#include "compiler/phases/plain_names.h"
#include "compiler/phases/target_layout.h"
#include "compiler/plan/codec.h"
#include "compiler/planner/join.h"
#include "compiler/support/check.h"
#include "compiler/support/checksum.h"
#include "compiler/support/error.h"
#include "compiler/support/parallel.h"
#include "compiler/support/user_option.h"
#include "compiler/verifier/verifier.h"

namespace ucp {
namespace {

using Clock = std::chrono::steady_clock;

double Seconds(Clock::duration duration) { return std::chrono::duration<double>(duration).count(); }

// Without a spec, the strategy is no name that only a spec knows.
llvm::Expected<SourceRequest> WithTargetRanks(const CompileRequest& request) {
  SourceRequest source = request.source;
  if (!source.spec.empty()) return source;
  UCP_ASSIGN_OR_RETURN(const Strategy strategy, ParseStrategy(request.target));
  auto ranks = strategy.options.find("tp");
  if (ranks != strategy.options.end()) source.cut_over = ParseCount(ranks->second, 1, 1 << 20).value_or(0);
  return source;
}

// An option that a format would ignore was not meant.
llvm::Error CheckOptions(const CompileRequest& request, const Format& format) {
  if (request.ds_config.empty() || format.TakesJobConfig()) return llvm::Error::success();
  return Fail(ErrorCode::kUsage, "{} goes with the native files of a job; `{}` does not depend on it",
              OptionName(UserOption::kDsConfig), format.name());
}

// What a target needs decides what a source must have.
llvm::Error CheckHasOptimizer(const TrainingState& training, const Format& format, const Strategy& strategy) {
  if (training.absent_optimizer.empty() || format.HoldsWeightsAlone(strategy)) return llvm::Error::success();
  return Fail(ErrorCode::kBadData, "{}. `{}` needs nothing but its weights", training.absent_optimizer,
              OptionName(UserOption::kTo, "safetensors"));
}

// A target of weights has none of the objects that could be left out of it.
llvm::Error NameLeftOut(const CompileRequest& request, std::vector<LeftOut> left_out, TargetFiles& target) {
  if (!target.weights_only) {
    for (std::string& note : NotesOn(left_out)) target.remarks.push_back(std::move(note));
    target.left_out = std::move(left_out);
    return llvm::Error::success();
  }
  if (request.keep_opaque.empty()) return llvm::Error::success();
  return Fail(ErrorCode::kUsage, "{} goes with targets that hold the training state; `{}` holds weights alone",
              OptionName(UserOption::kKeepOpaque), request.target);
}

llvm::Expected<std::optional<JobConfig>> JobConfigOf(ReadableFileSystem& files, const CompileRequest& request) {
  if (request.ds_config.empty()) return std::nullopt;
  const PlanInputs* given = request.source.given;
  if (given != nullptr && given->ds_config) return ParseJobConfig(given->ds_config->name, given->ds_config->text);
  UCP_ASSIGN_OR_RETURN(const std::string text, ReadJobConfig(files, request.ds_config));
  return ParseJobConfig(request.ds_config, text);
}

llvm::Error BindAndCompile(ReadableFileSystem& files, const CompileRequest& request,
                           const SourceRequest& source_request, Compilation& compilation) {
  UCP_RETURN_IF_ERROR(BindDescribed(files, source_request, compilation.source));
  UCP_ASSIGN_OR_RETURN(Strategy strategy, FindStrategy(request.target, compilation.source.spec.get()));
  return CompileBound(files, request, strategy, compilation);
}

}  // namespace

llvm::Error Compile(ReadableFileSystem& files, const CompileRequest& request, Compilation& compilation) {
  UCP_ASSIGN_OR_RETURN(const SourceRequest source_request, WithTargetRanks(request));
  UCP_RETURN_IF_ERROR(DescribeCheckpoint(files, source_request, compilation.source));
  return BindAndCompile(files, request, source_request, compilation);
}

llvm::Error CompileDescribed(ReadableFileSystem& files, const CompileRequest& request, Compilation& compilation) {
  UCP_ASSIGN_OR_RETURN(const SourceRequest source_request, WithTargetRanks(request));
  return BindAndCompile(files, request, source_request, compilation);
}

llvm::Error CompileBound(ReadableFileSystem& files, const CompileRequest& request, const Strategy& strategy,
                         Compilation& compilation) {
  BeginPhase(request.source.clock, "lay out");
  const Clock::time_point start = Clock::now();
  const Format* format = FindFormat(strategy.format);
  UCP_CHECK(format != nullptr, "there is no format `{}`", strategy.format);
  UCP_RETURN_IF_ERROR(CheckOptions(request, *format));
  UCP_RETURN_IF_ERROR(CheckHasOptimizer(compilation.source.checkpoint.training, *format, strategy));
  UCP_ASSIGN_OR_RETURN(const std::optional<JobConfig> job_config, JobConfigOf(files, request));
  SourcePhase& source = compilation.source;
  if (!request.tag.empty()) source.checkpoint.training.tag = request.tag;
  const Inventory& inventory = source.checkpoint.inventory;
  std::vector<LeftOut> left_out;
  source.checkpoint.training = KnownTraining(std::move(source.checkpoint.training), request.keep_opaque, left_out);

  std::vector<std::string> remarks;
  if (format->TakesPlainNames(strategy)) TakePlainNames(source, remarks);
  UCP_ASSIGN_OR_RETURN(compilation.tensors, JoinTensors(source.layout, inventory));
  UCP_ASSIGN_OR_RETURN(Layout target_layout, LayOutTarget(*format, strategy, source, compilation.tensors, remarks));
  Companions companions;
  if (!source.folder.empty()) {
    UCP_ASSIGN_OR_RETURN(companions,
                         FindCompanions(files, format->TakesCompanions(), source.folder, request.source.path));
    TakeOutUnknown(companions, request.keep_opaque, left_out, remarks);
  }
  const TargetRequest target_request{compilation.tensors,
                                     target_layout,
                                     source.checkpoint.training,
                                     inventory.mesh,
                                     strategy,
                                     companions.files,
                                     job_config ? &*job_config : nullptr,
                                     request.threads};
  const std::string spec_hash = source.spec == nullptr ? "" : ContentHash(source.spec->source->text());
  PlanRequest plan_request{source.held,   inventory, target_layout,   compilation.tensors,
                           TargetFiles{}, spec_hash, request.replicas};
  TargetFiles& target_files = plan_request.target_files;
  const TrainingState& training = source.checkpoint.training;
  const bool has_loose = format->CarriesLooseStates() && !training.loose_states.empty();
  const bool adds_tensors = has_loose || !training.large_tensors.empty();
  auto lay_out = [&]() -> llvm::Error {
    UCP_ASSIGN_OR_RETURN(target_files, format->LayOut(target_request));
    UCP_ASSIGN_OR_RETURN(target_files.readers, format->Readers(target_request, target_files));
    UCP_RETURN_IF_ERROR(NameLeftOut(request, std::move(left_out), target_files));
    if (!format->CarriesLooseStates() && !target_files.weights_only) {
      UCP_RETURN_IF_ERROR(CheckNoLooseStates(training, strategy.format));
    }
    if (!adds_tensors) return llvm::Error::success();
    const std::array<Layout*, 3> layouts = {&source.layout, &source.held, &target_layout};
    if (has_loose) {
      AddLooseShards(source.checkpoint);
      for (Layout* layout : layouts) AddLooseTensors(training, *layout);
    }
    AddLargeTensors(target_files.storage, source.checkpoint, layouts);
    UCP_ASSIGN_OR_RETURN(compilation.tensors, JoinTensors(source.layout, inventory));
    return llvm::Error::success();
  };
  PlanDrafting drafting(plan_request);
  // Loose states and large tensors are tensors of the plan only once the files are laid out.
  const unsigned threads = adds_tensors ? 1 : request.threads;
  UCP_RETURN_IF_ERROR(ForEachInParallel(2, {threads, nullptr}, [&](unsigned, std::uint64_t number) {
    return number == 0 ? lay_out() : drafting.DraftReads();
  }));
  target_files.remarks.insert(target_files.remarks.end(), remarks.begin(), remarks.end());
  if (!companions.left_behind.empty()) {
    target_files.remarks.push_back(
        fmt::format("not copied from beside the checkpoint: {}", fmt::join(companions.left_behind, ", ")));
  }

  BeginPhase(request.source.clock, "plan");
  UCP_ASSIGN_OR_RETURN(compilation.plan, drafting.Finish());
  const Clock::time_point drafted = Clock::now();
  BeginPhase(request.source.clock, "verify");
  const std::uint64_t tasks = request.hashes_plan ? 2 : 1;
  UCP_RETURN_IF_ERROR(
      ForEachInParallel(tasks, {request.threads, nullptr}, [&](unsigned, std::uint64_t number) -> llvm::Error {
        if (number == 0) return VerifyPlan(compilation.plan, request.threads);
        UCP_ASSIGN_OR_RETURN(compilation.plan_hash, HashOfPlan(compilation.plan));
        return llvm::Error::success();
      }));
  compilation.planning_seconds = Seconds(drafted - start);
  compilation.verifying_seconds = Seconds(Clock::now() - drafted);
  return llvm::Error::success();
}

}  // namespace ucp
