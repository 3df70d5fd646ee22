// A source that is nowhere: the tensors of a spec, whole, with the training state of a plain job. A plan from it can be
// written with synthetic numbers (runtime/synth), or cut as the ranks of a strategy would have saved it
// (planned_source.h).
#pragma once

#include <llvm/Support/Error.h>

#include <string>

#include "compiler/describe/bound_source.h"
#include "compiler/formats/strategy.h"
#include "compiler/synthetic/synthetic_training.h"

namespace ucp {

// How the user says what is to be made up, besides the spec.
struct SyntheticRequest {
  std::string config;      // --config FILE, or empty.
  Settings set;            // --set dim=value
  std::string parameters;  // A file for ReadParameterGroups; empty: the spec's order.
  TiedLayers tied;
};

inline constexpr const char* kSyntheticFormat = "synthetic";

// Every trained tensor has a float32 master, Adam's two moments and a weight of the strategy's dtype. Fails with kSpec
// if the spec has errors: they are in its sink.
llvm::Expected<BoundSource> MakeSyntheticSource(ReadableFileSystem& files, const SyntheticRequest& request,
                                                const Strategy& strategy, OpenedSpec spec);

}  // namespace ucp
