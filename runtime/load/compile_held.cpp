#include "runtime/load/compile_held.h"

#include <fmt/format.h>

#include <bit>
#include <utility>

#include "compiler/plan/verifier.h"
#include "compiler/planner/join.h"
#include "compiler/support/check.h"
#include "compiler/support/checksum.h"
#include "compiler/support/error.h"
#include "runtime/executor/saved_progress.h"
#include "runtime/executor/share_run.h"
#include "runtime/load/match_held.h"

namespace ucp {
namespace {

// What all ranks have to ask for alike, as one text.
std::string TextOf(const HeldRequest& request) {
  const SourceRequest& source = request.source;
  std::string text = fmt::format("`{}`", source.path);
  if (!source.spec.empty()) text += fmt::format(" with the spec `{}`", source.spec);
  if (!source.config.empty()) text += fmt::format(" and the configuration `{}`", source.config);
  for (const auto& [name, value] : source.set) text += fmt::format(" and a value for `{}`", name);
  for (const std::string& name : source.unused) text += fmt::format(" and `{}` unused", name);
  for (const std::string& name : source.drop_states) text += fmt::format(" without the state `{}`", name);
  if (request.replicas == ReplicaPolicy::kTrust) text += ", trusting replicas";
  if (!request.all_tensors) text += ", or a part of it";
  return text;
}

llvm::Expected<std::vector<HeldByRank>> GatherHeld(const HeldRequest& request, const HeldByRank& mine,
                                                   Communicator& ranks) {
  ProgressWriter message;
  message.Add(TextOf(request));
  message.Add(Encode(mine));
  UCP_ASSIGN_OR_RETURN(std::vector<std::string> all, ranks.AllGather(message.bytes()));
  std::vector<HeldByRank> held(all.size());
  std::string first;
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    ProgressReader reader(all[rank]);
    std::string text = reader.Text();
    if (rank == 0) first = text;
    if (text != first) {
      return Fail(ErrorCode::kUsage, "rank 0 loads {}, and rank {} loads {}; all ranks load the same", first, rank,
                  text);
    }
    UCP_ASSIGN_OR_RETURN(held[rank], DecodeHeld(reader.Text()));
  }
  return held;
}

llvm::Error CheckAllHeld(std::span<const LogicalTensor> tensors, const std::vector<NotLoaded>& not_loaded) {
  std::vector<std::string> extra;
  std::size_t tensor = 0;
  for (const NotLoaded& entry : not_loaded) {
    while (tensors[tensor].name != entry.tensor) ++tensor;
    if (entry.states.size() == tensors[tensor].states.size()) extra.push_back(entry.tensor);
  }
  if (extra.empty()) return llvm::Error::success();
  return Fail(ErrorCode::kUsage,
              "the checkpoint holds tensor `{}`{}, and no rank has a place for it; that a part is "
              "enough has to be said (in Python, strict=False)",
              extra.front(), extra.size() == 1 ? "" : fmt::format(" and {} more", extra.size() - 1));
}

// What rank 0 makes for all.
struct Compiled {
  LoadPlan load;
  std::vector<std::vector<std::optional<RecordId>>> records;  // By rank.
  std::vector<NotLoaded> not_loaded;
  std::optional<double> step;
};

std::optional<double> CommonStep(const TrainingState& training) {
  std::optional<double> common;
  for (const OptimizerGroup& group : training.groups) {
    std::optional<double> step = group.step == nullptr ? std::nullopt : StepNumber(training, *group.step);
    if (!step || (common && *common != *step)) return std::nullopt;
    common = step;
  }
  return common;
}

llvm::Expected<Compiled> CompileAlone(FileSystem& files, const HeldRequest& request, std::vector<HeldByRank> held,
                                      SourcePhase& source) {
  SeenFiles seen(files);
  UCP_RETURN_IF_ERROR(DescribeAndBind(seen, request.source, source));
  const Inventory& inventory = source.checkpoint.inventory;
  UCP_ASSIGN_OR_RETURN(std::vector<LogicalTensor> tensors, JoinTensors(source.layout, inventory));
  UCP_RETURN_IF_ERROR(MatchHeld(source.layout, tensors, held));
  Compiled compiled;
  compiled.not_loaded = FindNotLoaded(tensors, held);
  compiled.step = CommonStep(source.checkpoint.training);
  if (request.all_tensors) UCP_RETURN_IF_ERROR(CheckAllHeld(tensors, compiled.not_loaded));
  UCP_ASSIGN_OR_RETURN(HeldTarget target, LayOutHeld(held));
  target.files.remarks = CastRemarks(tensors, held);
  KeepHeld(held, source);
  UCP_ASSIGN_OR_RETURN(tensors, JoinTensors(source.layout, inventory));
  std::string spec_hash = source.spec == nullptr ? "" : ContentHash(source.spec->source->text());
  PlanRequest plan_request{source.held, inventory, target.layout, tensors, target.files, spec_hash, request.replicas};
  UCP_ASSIGN_OR_RETURN(compiled.load.plan, MakePlan(plan_request));
  compiled.load.readers = std::move(target.readers);
  compiled.load.source_folder = source.folder;
  compiled.load.source_versions = VersionsOf(seen, compiled.load.plan, source.folder);
  compiled.records = std::move(target.records);
  return compiled;
}

std::string EncodeRest(const Compiled& compiled) {
  ProgressWriter writer;
  writer.Add(compiled.records.size());
  for (const auto& records : compiled.records) {
    writer.Add(records.size());
    for (const std::optional<RecordId>& record : records) writer.Add(record ? record->index() + 1 : std::uint64_t{0});
  }
  writer.Add(compiled.not_loaded.size());
  for (const NotLoaded& entry : compiled.not_loaded) {
    writer.Add(entry.tensor);
    writer.Add(entry.states.size());
    for (const std::string& state : entry.states) writer.Add(state);
  }
  writer.Add(std::uint64_t{compiled.step.has_value()});
  writer.Add(std::bit_cast<std::uint64_t>(compiled.step.value_or(0)));
  return writer.bytes();
}

void DecodeRest(std::string_view bytes, Compiled& compiled) {
  ProgressReader reader(bytes);
  compiled.records.resize(reader.Count());
  for (auto& records : compiled.records) {
    records.resize(reader.Count());
    for (std::optional<RecordId>& record : records) {
      std::uint64_t number = reader.Number();
      if (number > 0) record = RecordId(number - 1);
    }
  }
  compiled.not_loaded.resize(reader.Count());
  for (NotLoaded& entry : compiled.not_loaded) {
    entry.tensor = reader.Text();
    entry.states.resize(reader.Count());
    for (std::string& state : entry.states) state = reader.Text();
  }
  const bool has_step = reader.Number() == 1;
  const auto step = std::bit_cast<double>(reader.Number());
  if (has_step) compiled.step = step;
  UCP_CHECK(!reader.has_failed() && reader.left().empty(), "rank 0 sent {} bytes about tensors", bytes.size());
}

}  // namespace

llvm::Expected<HeldPlan> CompileHeld(FileSystem& files, const HeldRequest& request, const HeldByRank& mine,
                                     Communicator& ranks, SourcePhase& source) {
  UCP_ASSIGN_OR_RETURN(std::vector<HeldByRank> held, GatherHeld(request, mine, ranks));
  Compiled compiled;
  llvm::Error error = llvm::Error::success();
  if (ranks.rank() == 0) {
    llvm::Expected<Compiled> at_first_rank = CompileAlone(files, request, std::move(held), source);
    if (at_first_rank) compiled = std::move(*at_first_rank);
    error = at_first_rank.takeError();
  }
  UCP_RETURN_IF_ERROR(OutcomeOfFirstRank(ranks, std::move(error)));
  UCP_ASSIGN_OR_RETURN(std::string rest, FromFirstRank(ranks, EncodeRest(compiled)));
  DecodeRest(rest, compiled);
  UCP_ASSIGN_OR_RETURN(compiled.load, ShareLoad(ranks, std::move(compiled.load)));
  return HeldPlan{std::move(compiled.load), std::move(compiled.records[static_cast<std::size_t>(ranks.rank())]),
                  std::move(compiled.not_loaded), compiled.step};
}

}  // namespace ucp
