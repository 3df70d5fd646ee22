// Checks whether two checkpoints hold the same, in any format and layout: by the digests of their states, or element by
// element.
#pragma once

#include <llvm/Support/Error.h>

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/difference/pair_states.h"
#include "runtime/executor/execute.h"
#include "runtime/peer_files/files_of_all_ranks.h"
#include "runtime/same_states/source_digests.h"

namespace ucp {

struct SameSide {
  std::string name;
  const DigestedSource& source;  // With digests of one version on both sides, unless elements are compared.
};

struct StateName {
  std::string tensor;
  std::string state;
};

// A state whose elements are those of the other side, cast to its dtype.
struct CastState {
  std::string tensor;
  std::string from;  // The states' names.
  std::string to;
  DType from_dtype = DType::kFloat32;
  DType to_dtype = DType::kFloat32;
};

struct SameStates {
  bool by_elements = false;  // All that both have, and not only declared casts.
  std::uint64_t same = 0;    // States that are bit for bit the same.
  std::vector<CastState> cast;
  std::vector<StateName> beyond_weights;  // States that one side has and the other lacks, since it holds weights alone.
  std::string has_beyond_weights;         // The one side's name.
  std::vector<std::string> differences;   // Sentences, by tensor and state; empty: the two hold the same.
};

// All ranks of `options` call it together, and share the reading; the result is rank 0's. Declared casts, and masters
// that stand against weights, are always compared element by element; `by_elements`: everything is. `nodes`: of whom
// each sees a part of the files; null: every rank sees all. Too little memory is an error (kUsage).
llvm::Expected<SameStates> FindSame(ReadableFileSystem& files, const SameSide& a, const SameSide& b, bool by_elements,
                                    const ExecutionOptions& options, FilesOfAllRanks* nodes);

}  // namespace ucp
