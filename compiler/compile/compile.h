// The recipe: a source and a target become a verified plan, in five steps. Each takes the result of the one before.
//
//   DescribeCheckpoint   Described   what the headers of a checkpoint say            compiler/describe/bound_source.h
//   BindCheckpoint       BoundSource which tensors it holds, and how they are cut    compiler/describe/bound_source.h
//   Meet, LayOut         Sides       how both sides hold them, and the target's files  compile_target.h
//   DraftReads, FinishPlan  Plan     where each element comes from and goes           compiler/planner/planner.h
//   VerifyPlan                       the proof of it                                  compiler/verifier/verifier.h
#pragma once

#include <llvm/Support/Error.h>

#include <string>
#include <vector>

#include "compiler/compile/compile_request.h"
#include "compiler/compile/compile_target.h"
#include "compiler/describe/bound_source.h"
#include "compiler/plan/plan.h"
#include "compiler/planner/planner.h"

namespace ucp {

struct CompileOptions {
  ReplicaPolicy replicas = ReplicaPolicy::kCompare;
  unsigned threads = 1;
  bool hashes_plan = false;     // Compiled::plan_hash is wanted.
  PhaseClock* clock = nullptr;  // Told of the phases `lay out`, `plan` and `verify`; may be null.
};

struct Compiled {
  BoundSource source;  // As much of the source as the target took. Of its storage, the plan has all but the files.
  Plan plan;
  std::string plan_hash;         // HashOfPlan(); empty unless it is wanted.
  double planning_seconds = 0;   // From the bound source to the plan,
  double verifying_seconds = 0;  // and for its proof.
};

// The last three steps.
llvm::Expected<Compiled> CompileInto(CompileTarget& target, BoundSource source, const CompileOptions& options);

// A conversion to the files of a format. A spec's diagnostics are in SourceRequest::opened, whatever fails.
llvm::Expected<Compiled> Compile(ReadableFileSystem& files, const CompileRequest& request);
// Does the same for a source that DescribeCheckpoint() has described.
llvm::Expected<Compiled> CompileDescribed(ReadableFileSystem& files, const CompileRequest& request,
                                          Described described);
// Does the same for a source that is bound.
llvm::Expected<Compiled> CompileBound(ReadableFileSystem& files, const CompileRequest& request, BoundSource source);

}  // namespace ucp
