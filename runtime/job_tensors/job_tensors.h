// A target that is not a folder: tensors in the memory of a job's ranks. Each rank says which positions of which tensor
// it holds; ranks that hold the same ones of the same state in the same dtype are readers of one file of the target, so
// that it is planned, read and exchanged once. The target needs no mesh of the job's: its tensors are in boxes
// (compiler/layout/from_boxes.h).
#pragma once

#include <llvm/Support/Error.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "compiler/layout/file_readers.h"
#include "compiler/layout/from_boxes.h"
#include "compiler/layout/layout.h"
#include "compiler/layout/target.h"

namespace ucp {

// One row-major local tensor.
struct JobTensor {
  std::string tensor;
  std::string state;
  DType dtype = DType::kFloat32;
  std::vector<std::int64_t> shape;  // Of the whole tensor.
  Box holds;                        // The part that is held.
  // Others that the job has for the same tensor: the first that the checkpoint knows counts, where it does not know
  // `tensor`.
  std::vector<std::string> second_names = {};
  bool operator==(const JobTensor&) const = default;
};
using JobTensorsOfRank = std::vector<JobTensor>;

struct LaidOutJobTensors {
  TargetFiles files;
  Layout layout;
  FileReaders readers;
  // By rank, for each of its tensors in order; nothing for one without elements.
  std::vector<std::vector<std::optional<RecordId>>> records;
};

// Whether the ranks that load must hold every element of the tensors that they hold a part of.
enum class JobTensorParts { kAll, kSome };

// Lays out the tensors that all ranks hold, by rank. A rank may hold several parts of a tensor's state. Fails (kUsage)
// where a part lies outside of its tensor, ranks disagree on a shape, one rank holds a part twice in one dtype, or
// there are elements of a tensor that nobody holds; the message names the ranks. With `kSome`, the latter are laid out
// in files that no rank reads.
llvm::Expected<LaidOutJobTensors> LayOutJobTensors(std::span<const JobTensorsOfRank> ranks,
                                                   JobTensorParts parts = JobTensorParts::kAll);

// Returns the tensors as bytes, for other ranks.
std::string Encode(const JobTensorsOfRank& held);
llvm::Expected<JobTensorsOfRank> DecodeJobTensors(std::string_view bytes);

}  // namespace ucp
