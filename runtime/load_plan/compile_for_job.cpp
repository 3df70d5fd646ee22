#include "runtime/load_plan/compile_for_job.h"

#include <fmt/format.h>

#include <bit>
#include <utility>

#include "compiler/compile/compile.h"
#include "compiler/support/error.h"
#include "runtime/comm/agree_on_request.h"
#include "runtime/engine/share_run.h"
#include "runtime/job_tensors/job_target.h"
#include "runtime/load_plan/request_text.h"
#include "runtime/load_plan/share_load.h"
#include "runtime/manifest/part_of_checkpoint.h"
#include "runtime/shared_headers/shared_headers.h"
#include "runtime/wire/byte_codec.h"

namespace ucp {
namespace {

std::string TextOf(const JobLoadRequest& request) {
  std::vector<std::string> more;
  if (request.replicas == ReplicaPolicy::kCompare) more.emplace_back("copies compared");
  if (!request.all_tensors) more.emplace_back("a part of it being enough");
  if (request.parts == JobTensorParts::kSome) more.emplace_back("parts of tensors being enough");
  if (!request.layout.empty()) more.push_back(fmt::format("in the layout `{}`", request.layout));
  return RequestText(request.source, "", more);
}

// The tensors that all ranks hold, and those that some have and keep.
struct JobTensorsOfAll {
  std::vector<JobTensorsOfRank> held;
  std::vector<std::string> kept;
};

std::string EncodeMine(const JobTensorsOfRank& held, const std::vector<std::string>& kept) {
  wire::ByteWriter writer;
  writer.Add(Encode(held));
  writer.Add(kept.size());
  for (const std::string& name : kept) writer.Add(name);
  return writer.bytes();
}

llvm::Expected<JobTensorsOfAll> DecodeAll(const std::vector<std::string>& encoded) {
  JobTensorsOfAll all;
  for (const std::string& bytes : encoded) {
    wire::ByteReader reader(bytes);
    UCP_ASSIGN_OR_RETURN(JobTensorsOfRank held, DecodeJobTensors(reader.Text()));
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

// The result of rank 0, for all.
struct CompiledForJob {
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

llvm::Expected<CompiledForJob> CompileAtFirstRank(const SeenFiles& seen, const JobLoadRequest& request,
                                                  JobTensorsOfAll all, BoundSource source) {
  JobTarget target(std::move(all.held), request.all_tensors, all.kept, request.parts, request.layout);
  CompiledForJob held;
  held.step = CommonStep(source.checkpoint.training);
  UCP_ASSIGN_OR_RETURN(Compiled compiled, CompileInto(target, std::move(source),
                                                      {.replicas = request.replicas, .threads = request.threads}));
  held.load.plan = std::move(compiled.plan);
  held.load.readers = target.TakeReaders();
  held.load.source_folder = compiled.source.folder;
  held.load.source_versions = VersionsOf(seen, held.load.plan, held.load.source_folder);
  held.records = target.TakeRecords();
  held.not_loaded = target.TakeNotLoaded();
  return held;
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
std::string EncodeRest(const CompiledForJob& compiled) {
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

llvm::Error DecodeRest(std::string_view bytes, JobLoadPlan& plan) {
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

std::vector<LoadedPart> PartsOf(const CompiledForJob& compiled) {
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

llvm::Expected<JobLoadPlan> CompileForJob(ReadableFileSystem& files, const JobLoadRequest& request,
                                          const JobTensorsOfRank& mine, Communicator& ranks) {
  UCP_RETURN_IF_ERROR(AgreeOnRequest(ranks, TextOf(request)));
  UCP_ASSIGN_OR_RETURN(const std::vector<std::string> encoded,
                       ToFirstRank(ranks, ranks.size() > 1 ? EncodeMine(mine, request.kept) : std::string()));
  CompiledForJob compiled;
  auto compile = [&](ReadableFileSystem& shared) -> llvm::Error {
    UCP_RETURN_IF_ERROR(CheckIsWhole(shared, request.source.path));
    SeenFiles seen(shared);
    SourceRequest described = request.source;
    described.to_layout = request.layout;
    UCP_ASSIGN_OR_RETURN(BoundSource source, DescribeAndBind(seen, described));
    JobTensorsOfAll all = {{mine}, request.kept};
    if (ranks.size() > 1) {
      UCP_ASSIGN_OR_RETURN(all, DecodeAll(encoded));
    }
    UCP_ASSIGN_OR_RETURN(compiled, CompileAtFirstRank(seen, request, std::move(all), std::move(source)));
    return llvm::Error::success();
  };
  UCP_RETURN_IF_ERROR(OutcomeOfFirstRank(ranks, WithSharedHeaders(files, ranks, compile)));
  if (ranks.size() == 1) {
    return JobLoadPlan{std::move(compiled.load), std::move(compiled.records.front()), std::move(compiled.not_loaded),
                       compiled.step};
  }
  const std::vector<LoadedPart> parts = PartsOf(compiled);
  UCP_ASSIGN_OR_RETURN(const std::string rest, FromFirstRank(ranks, EncodeRest(compiled)));
  UCP_ASSIGN_OR_RETURN(SharedLoad shared,
                       ShareLoad(ranks, std::move(compiled.load), parts, request.replicas == ReplicaPolicy::kCompare));
  JobLoadPlan plan;
  auto decode = [&]() -> llvm::Error {
    UCP_ASSIGN_OR_RETURN(plan.records, DecodeRecords(shared.note, shared.load, mine.size()));
    return DecodeRest(rest, plan);
  };
  UCP_RETURN_IF_ERROR(Agree(ranks, decode()));
  plan.load = std::move(shared.load);
  return plan;
}

}  // namespace ucp
