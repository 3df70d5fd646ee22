#include "runtime/load/compile_held.h"

#include <fmt/format.h>

#include <bit>
#include <set>
#include <utility>

#include "compiler/planner/join.h"
#include "compiler/support/checksum.h"
#include "compiler/support/error.h"
#include "compiler/verifier/verifier.h"
#include "runtime/comm/agree_on_request.h"
#include "runtime/executor/share_run.h"
#include "runtime/load/match_held.h"
#include "runtime/load/request_text.h"
#include "runtime/load/share_load.h"
#include "runtime/load/shared_headers.h"
#include "runtime/manifest/part_of_checkpoint.h"
#include "runtime/wire/byte_codec.h"

namespace ucp {
namespace {

std::string TextOf(const HeldRequest& request) {
  std::vector<std::string> more;
  if (request.replicas == ReplicaPolicy::kCompare) more.emplace_back("copies compared");
  if (!request.all_tensors) more.emplace_back("a part of it being enough");
  return RequestText(request.source, "", more);
}

// What all ranks hold, and what some have and keep.
struct HeldByAll {
  std::vector<HeldByRank> held;
  std::vector<std::string> kept;
};

std::string EncodeMine(const HeldByRank& held, const std::vector<std::string>& kept) {
  wire::ByteWriter writer;
  writer.Add(Encode(held));
  writer.Add(kept.size());
  for (const std::string& name : kept) writer.Add(name);
  return writer.bytes();
}

llvm::Expected<HeldByAll> DecodeAll(const std::vector<std::string>& encoded) {
  HeldByAll all;
  for (const std::string& bytes : encoded) {
    wire::ByteReader reader(bytes);
    UCP_ASSIGN_OR_RETURN(HeldByRank held, DecodeHeld(reader.Text()));
    all.held.push_back(std::move(held));
    const std::uint64_t names = reader.Count();
    for (std::uint64_t i = 0; i < names; ++i) all.kept.push_back(reader.Text());
    if (!reader.is_at_end()) {
      return Fail(ErrorCode::kIo,
                  "rank {} sent {} bytes about its tensors that cannot be read; all ranks must run the "
                  "same ucp",
                  all.held.size() - 1, bytes.size());
    }
  }
  return all;
}

llvm::Error CheckAllHeld(std::span<const LogicalTensor> tensors, const std::vector<NotLoaded>& not_loaded,
                         const std::set<std::string>& kept) {
  std::vector<std::string> extra;
  std::size_t tensor = 0;
  for (const NotLoaded& entry : not_loaded) {
    while (tensors[tensor].name != entry.tensor) ++tensor;
    const bool is_held = entry.states.size() < tensors[tensor].states.size();
    if (!is_held && !kept.contains(entry.tensor)) extra.push_back(entry.tensor);
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

llvm::Expected<Compiled> CompileAlone(const SeenFiles& seen, const HeldRequest& request, HeldByAll all,
                                      SourcePhase& source) {
  std::vector<HeldByRank>& held = all.held;
  const Inventory& inventory = source.checkpoint.inventory;
  UCP_ASSIGN_OR_RETURN(std::vector<LogicalTensor> tensors, JoinTensors(source.layout, inventory));
  UCP_RETURN_IF_ERROR(MatchHeld(source.layout, tensors, held));
  Compiled compiled;
  compiled.not_loaded = FindNotLoaded(tensors, held);
  compiled.step = CommonStep(source.checkpoint.training);
  if (request.all_tensors) {
    UCP_RETURN_IF_ERROR(CheckAllHeld(tensors, compiled.not_loaded, KeptTensors(source.layout, all.kept)));
  }
  UCP_ASSIGN_OR_RETURN(HeldTarget target, LayOutHeld(held));
  target.files.remarks = CastRemarks(tensors, held);
  // Most loads leave nothing of the source out.
  const bool is_all_held =
      compiled.not_loaded.empty() && source.layout.dropped.empty() && source.layout.tensors.size() == tensors.size();
  if (!is_all_held) {
    KeepHeld(held, source);
    UCP_ASSIGN_OR_RETURN(tensors, JoinTensors(source.layout, inventory));
  }
  std::string spec_hash = source.spec == nullptr ? "" : ContentHash(source.spec->source->text());
  PlanRequest plan_request{source.held, inventory,       target.layout, tensors, std::move(target.files),
                           spec_hash,   request.replicas};
  UCP_ASSIGN_OR_RETURN(compiled.load.plan, MakePlan(std::move(plan_request), request.threads));
  compiled.load.readers = std::move(target.readers);
  compiled.load.source_folder = source.folder;
  compiled.load.source_versions = VersionsOf(seen, compiled.load.plan, source.folder);
  compiled.records = std::move(target.records);
  return compiled;
}

// For one rank: by the names that all ranks have for them.
std::string EncodeRecords(const std::vector<std::optional<RecordId>>& records) {
  wire::ByteWriter writer;
  writer.Add(records.size());
  for (const std::optional<RecordId>& record : records) writer.Add(record ? record->index() + 1 : std::uint64_t{0});
  return writer.bytes();
}

llvm::Expected<std::vector<std::optional<RecordId>>> DecodeRecords(std::string_view bytes, const LoadPlan& load,
                                                                   std::size_t wanted) {
  wire::ByteReader reader(bytes);
  std::vector<std::optional<RecordId>> records(reader.Count());
  for (std::optional<RecordId>& record : records) {
    const std::uint64_t number = reader.Number();
    if (number == 0) continue;
    record = load.Find(RecordId(number - 1));
    if (!record || record->index() >= load.plan.target.records.size()) reader.Fail();
  }
  if (reader.is_at_end() && records.size() == wanted) return records;
  return Fail(ErrorCode::kIo, "rank 0 sent {} bytes about {} tensors; all ranks must run the same ucp", bytes.size(),
              wanted);
}

// For all ranks.
std::string EncodeRest(const Compiled& compiled) {
  wire::ByteWriter writer;
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

llvm::Error DecodeRest(std::string_view bytes, HeldPlan& plan) {
  wire::ByteReader reader(bytes);
  plan.not_loaded.resize(reader.Count());
  for (NotLoaded& entry : plan.not_loaded) {
    entry.tensor = reader.Text();
    entry.states.resize(reader.Count());
    for (std::string& state : entry.states) state = reader.Text();
  }
  const bool has_step = reader.Number() == 1;
  const auto step = std::bit_cast<double>(reader.Number());
  if (has_step) plan.step = step;
  if (reader.is_at_end()) return llvm::Error::success();
  return Fail(ErrorCode::kIo, "rank 0 sent {} bytes about tensors that cannot be read; all ranks must run the same ucp",
              bytes.size());
}

std::vector<LoadedPart> PartsOf(const Compiled& compiled) {
  std::vector<LoadedPart> parts;
  for (const auto& records : compiled.records) {
    LoadedPart& part = parts.emplace_back(LoadedPart{static_cast<int>(parts.size()), {}, {}, EncodeRecords(records)});
    for (const std::optional<RecordId>& record : records) {
      if (record) part.records.push_back(*record);
    }
  }
  return parts;
}

}  // namespace

llvm::Expected<HeldPlan> CompileHeld(ReadableFileSystem& files, const HeldRequest& request, const HeldByRank& mine,
                                     Communicator& ranks, SourcePhase& source) {
  UCP_RETURN_IF_ERROR(AgreeOnRequest(ranks, TextOf(request)));
  UCP_ASSIGN_OR_RETURN(const std::vector<std::string> encoded,
                       ToFirstRank(ranks, ranks.size() > 1 ? EncodeMine(mine, request.kept) : std::string()));
  Compiled compiled;
  auto compile = [&](ReadableFileSystem& shared) -> llvm::Error {
    UCP_RETURN_IF_ERROR(CheckIsWhole(shared, request.source.path));
    SeenFiles seen(shared);
    UCP_RETURN_IF_ERROR(DescribeAndBind(seen, request.source, source));
    HeldByAll all = {{mine}, request.kept};
    if (ranks.size() > 1) {
      UCP_ASSIGN_OR_RETURN(all, DecodeAll(encoded));
    }
    UCP_ASSIGN_OR_RETURN(compiled, CompileAlone(seen, request, std::move(all), source));
    return llvm::Error::success();
  };
  UCP_RETURN_IF_ERROR(OutcomeOfFirstRank(ranks, WithSharedHeaders(files, ranks, compile)));
  if (ranks.size() == 1) {
    return HeldPlan{std::move(compiled.load), std::move(compiled.records.front()), std::move(compiled.not_loaded),
                    compiled.step};
  }
  const std::vector<LoadedPart> parts = PartsOf(compiled);
  UCP_ASSIGN_OR_RETURN(const std::string rest, FromFirstRank(ranks, EncodeRest(compiled)));
  UCP_ASSIGN_OR_RETURN(SharedLoad shared,
                       ShareLoad(ranks, std::move(compiled.load), parts, request.replicas == ReplicaPolicy::kCompare));
  HeldPlan plan;
  auto decode = [&]() -> llvm::Error {
    UCP_ASSIGN_OR_RETURN(plan.records, DecodeRecords(shared.note, shared.load, mine.size()));
    return DecodeRest(rest, plan);
  };
  UCP_RETURN_IF_ERROR(Agree(ranks, decode()));
  plan.load = std::move(shared.load);
  return plan;
}

}  // namespace ucp
