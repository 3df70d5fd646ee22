// The optimizer's files of one model-parallel rank: each partition's part of the flat groups, and what the engine keeps
// beside it. Tensor-parallel ranks that share whole experts out are written together: their parts of the same experts
// are one vector.
#pragma once

#include <llvm/Support/Error.h>

#include <string>
#include <vector>

#include "compiler/formats/archive_composer.h"
#include "compiler/formats/deepspeed/native/write/experts.h"
#include "compiler/formats/deepspeed/native/write/groups.h"
#include "compiler/formats/deepspeed/native/write/job/carried.h"
#include "compiler/formats/deepspeed/native/write/loose_states.h"
#include "compiler/formats/deepspeed/native/write/muon.h"
#include "compiler/layout/target.h"

namespace ucp::deepspeed {

// One tensor-parallel rank. `groups` by expert rank; there is one without experts.
struct RankToWrite {
  Coordinate coordinate;
  std::vector<std::vector<FlatGroupToWrite>> groups;
};

// One file, and what in it is not a parameter's part of a flat vector.
struct ComposedFlatFile {
  ComposedArchive archive;
  LooseStatesOfFile loose;
  WholeMatricesOfFile matrices;
};

// The files of ExpertsToWrite::tensor_ranks() ranks. Their contents depend on nothing that the target has, so they can
// be composed while other files are added to it.
class FlatOptimizerFiles {
 public:
  // The arguments must outlive this object.
  FlatOptimizerFiles(const TargetRequest& request, const WriteOptions& options, const Carried& carried,
                     const std::vector<RankToWrite>& ranks, const ExpertsToWrite& experts);

  // Once, and first. By so many threads.
  [[nodiscard]] llvm::Error Compose(unsigned threads);

  // Once. Adds the files, the shards of the parameters' states and the zeros of the padding. Paths are below `folder`.
  void AddTo(const std::string& folder, TargetFiles& target);

 private:
  const TargetRequest& request_;
  const WriteOptions& options_;
  const Carried& carried_;
  const std::vector<RankToWrite>& ranks_;
  const ExpertsToWrite& experts_;
  std::vector<ComposedFlatFile> composed_;  // By rank and partition.
};

}  // namespace ucp::deepspeed
