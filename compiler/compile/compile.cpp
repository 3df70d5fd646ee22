#include "compiler/compile/compile.h"

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "compiler/catalogue/find_strategy.h"
#include "compiler/compile/carried_tensors.h"
#include "compiler/compile/format_target.h"
#include "compiler/describe/choose_layout.h"
#include "compiler/plan/codec.h"
#include "compiler/support/checksum.h"
#include "compiler/support/error.h"
#include "compiler/support/parallel.h"
#include "compiler/verifier/verifier.h"

namespace ucp {
namespace {

using Clock = std::chrono::steady_clock;

double SecondsSince(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

// Where no spec is named, the catalogue is asked for one that serves the target's ranks and layout. The strategy is
// then not a name that only a spec knows.
llvm::Expected<SourceRequest> WithTarget(const CompileRequest& request) {
  SourceRequest source = request.source;
  if (!source.spec.empty()) return source;
  UCP_ASSIGN_OR_RETURN(const Strategy strategy, ParseStrategy(request.target));
  auto ranks = strategy.options.find("tp");
  if (ranks != strategy.options.end()) source.cut_over = ParseCount(ranks->second, 1, 1 << 20).value_or(0);
  auto layout = strategy.options.find(kLayoutSetting);
  if (layout != strategy.options.end()) source.to_layout = layout->second;
  return source;
}

PlanRequest PlanRequestOf(const Sides& sides, const CompileOptions& options) {
  const BoundSource& source = sides.source;
  return {.source_layout = source.stored_layout,
          .inventory = source.checkpoint.inventory,
          .target_layout = sides.target,
          .tensors = sides.tensors,
          .spec_hash = source.spec == nullptr ? "" : ContentHash(source.spec->source->text()),
          .replicas = options.replicas,
          .offsets = sides.other ? sides.other->offsets : std::map<std::string, std::int64_t>()};
}

// Of a million chunks the tables and the shards take 230 MB. So the plan gets the tables, and the shards go when its
// reads are drafted; the source keeps the list of its files.
StorageTables TakeTables(Sides& sides) {
  StorageTables& storage = sides.source.checkpoint.inventory.storage;
  StorageTables taken = std::move(storage);
  storage = StorageTables();
  storage.files = taken.files;
  return taken;
}

void DropShards(Sides& sides) { sides.source.checkpoint.inventory.storage.shards = {}; }

// The reads do not depend on the target's files: the two are made at the same time.
llvm::Expected<Plan> DraftBeside(CompileTarget& target, Sides& sides, const CompileOptions& options) {
  StorageTables tables = TakeTables(sides);
  const PlanRequest request = PlanRequestOf(sides, options);
  TargetFiles files;
  std::optional<DraftedReads> reads;
  auto lay_out = [&]() -> llvm::Error {
    UCP_ASSIGN_OR_RETURN(files, target.LayOut(sides));
    return llvm::Error::success();
  };
  auto draft = [&]() -> llvm::Error {
    UCP_ASSIGN_OR_RETURN(reads, DraftReads(request, std::move(tables)));
    return llvm::Error::success();
  };
  UCP_RETURN_IF_ERROR(ForEachInParallel(2, {options.threads, nullptr}, [&](unsigned, std::uint64_t number) {
    return number == 0 ? lay_out() : draft();
  }));
  BeginPhase(options.clock, "plan");
  DropShards(sides);
  return FinishPlan(std::move(*reads), std::move(files));
}

// The files that hold them decide which tensors of the training state are moved.
llvm::Expected<Plan> DraftAfter(CompileTarget& target, Sides& sides, const CompileOptions& options) {
  UCP_ASSIGN_OR_RETURN(TargetFiles files, target.LayOut(sides));
  UCP_ASSIGN_OR_RETURN(sides, WithCarriedTensors(std::move(sides), files, target.CarriesLooseStates()));
  BeginPhase(options.clock, "plan");
  StorageTables tables = TakeTables(sides);
  const PlanRequest request = PlanRequestOf(sides, options);
  UCP_ASSIGN_OR_RETURN(DraftedReads reads, DraftReads(request, std::move(tables)));
  DropShards(sides);
  return FinishPlan(std::move(reads), std::move(files));
}

// The plan's hash is made beside its proof.
llvm::Expected<std::string> Verify(const Plan& plan, const CompileOptions& options) {
  std::string hash;
  UCP_RETURN_IF_ERROR(ForEachInParallel(options.hashes_plan ? 2 : 1, {options.threads, nullptr},
                                        [&](unsigned, std::uint64_t number) -> llvm::Error {
                                          if (number == 0) return VerifyPlan(plan, options.threads);
                                          UCP_ASSIGN_OR_RETURN(hash, HashOfPlan(plan));
                                          return llvm::Error::success();
                                        }));
  return hash;
}

}  // namespace

llvm::Expected<Compiled> CompileInto(CompileTarget& target, BoundSource source, const CompileOptions& options) {
  BeginPhase(options.clock, "lay out");
  const Clock::time_point start = Clock::now();
  UCP_ASSIGN_OR_RETURN(Sides sides, target.Meet(std::move(source)));
  UCP_ASSIGN_OR_RETURN(Plan plan, target.CarriesTensors(sides) ? DraftAfter(target, sides, options)
                                                               : DraftBeside(target, sides, options));
  const double planning_seconds = SecondsSince(start);
  BeginPhase(options.clock, "verify");
  const Clock::time_point drafted = Clock::now();
  UCP_ASSIGN_OR_RETURN(std::string hash, Verify(plan, options));
  return Compiled{std::move(sides.source), std::move(plan), std::move(hash), planning_seconds, SecondsSince(drafted)};
}

llvm::Expected<Compiled> Compile(ReadableFileSystem& files, const CompileRequest& request) {
  UCP_ASSIGN_OR_RETURN(Described described, DescribeCheckpoint(files, request.source));
  return CompileDescribed(files, request, std::move(described));
}

llvm::Expected<Compiled> CompileDescribed(ReadableFileSystem& files, const CompileRequest& request,
                                          Described described) {
  UCP_ASSIGN_OR_RETURN(const SourceRequest source_request, WithTarget(request));
  UCP_ASSIGN_OR_RETURN(BoundSource source, BindCheckpoint(files, source_request, std::move(described)));
  return CompileBound(files, request, std::move(source));
}

llvm::Expected<Compiled> CompileBound(ReadableFileSystem& files, const CompileRequest& request, BoundSource source) {
  UCP_ASSIGN_OR_RETURN(Strategy strategy, FindStrategy(request.target, source.spec.get()));
  FormatTarget target(files, request, std::move(strategy));
  return CompileInto(target, std::move(source),
                     {request.replicas, request.threads, request.hashes_plan, request.source.clock});
}

}  // namespace ucp
