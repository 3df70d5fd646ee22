// All phases in order: a source and a target strategy become a verified plan.
#pragma once

#include <llvm/Support/Error.h>

#include <memory>
#include <string>
#include <vector>

#include "compiler/formats/strategy.h"
#include "compiler/layout/target.h"
#include "compiler/phases/source_phase.h"
#include "compiler/plan/plan.h"
#include "compiler/planner/planner.h"

namespace ucp {

struct CompileRequest {
  SourceRequest source;
  std::string target;                    // A strategy: "universal:mp=4"
  std::string tag;                       // The target's own name; empty: the source's.
  std::vector<std::string> keep_opaque;  // "module.Class": objects that the user vouches for (known_training.h).
  std::string ds_config;                 // --ds-config FILE; empty: the source's own `ds_config` counts.
  ReplicaPolicy replicas = ReplicaPolicy::kCompare;
  unsigned threads = 1;
  bool hashes_plan = false;  // Compilation::plan_hash is wanted.
};

struct Compilation {
  double planning_seconds = 0;   // From the bound source to the plan,
  double verifying_seconds = 0;  // and for its proof.
  SourcePhase source;
  std::vector<LogicalTensor> tensors;
  Plan plan;
  std::string plan_hash;  // HashOfPlan(); empty unless it is wanted.
};

// Fills `compilation` as far as it comes, so that a spec's diagnostics can be shown when it fails.
[[nodiscard]] llvm::Error Compile(ReadableFileSystem& files, const CompileRequest& request, Compilation& compilation);

// The same for a source that DescribeCheckpoint() has described.
[[nodiscard]] llvm::Error CompileDescribed(ReadableFileSystem& files, const CompileRequest& request,
                                           Compilation& compilation);

// The same for a source that is bound: Compile() without its first two phases. A source without a folder has nothing
// beside it.
[[nodiscard]] llvm::Error CompileBound(ReadableFileSystem& files, const CompileRequest& request,
                                       const Strategy& strategy, Compilation& compilation);

}  // namespace ucp
