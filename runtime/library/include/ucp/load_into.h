// Fills tensors that a job has already, however it has cut them, from a checkpoint of any format and topology. Each
// tensor is filled or refused; no data is read before all ranks know that everything fits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ucp/error.h"
#include "ucp/settings.h"
#include "ucp/source.h"

namespace ucp {
inline namespace [[gnu::visibility("default")]] v0 {

struct HeldSpan {  // Positions [begin, end) of a dimension.
  std::int64_t begin = 0;
  std::int64_t end = 0;
};

// One row-major local tensor: the part of one state of a tensor that this rank holds.
struct TensorToFill {
  std::string tensor;  // As the checkpoint names it.
  std::string state = "weight";
  std::string dtype = "float32";    // Floating-point numbers are cast to it, with one rounding.
  std::vector<std::int64_t> shape;  // Of the whole tensor.
  // By dimension, the positions that are held, increasing. Empty: all of the tensor.
  std::vector<std::vector<HeldSpan>> holds = {};
  std::span<std::byte> memory;  // As many bytes as the elements held have, apart from the others.
  std::string device = {};  // Whose memory it is: "cuda:1", as CUDA counts the GPUs of this process. Empty: the host.
};

struct FillOutcome {
  LoadTotals totals;
  std::map<std::string, std::vector<std::string>> not_loaded;  // States of the checkpoint that no rank holds.
  std::optional<double> step;                                  // The optimizer's, if all its groups count the same.
  std::vector<std::string> remarks;
};

// Fills `tensors`. A GPU must have done what it was given to do with their memory; everything is there when this
// returns, and the calling thread's current GPU may be another one. All ranks call it, each with the tensors that it
// holds; parts that several ranks hold alike are read by one of them. With `all_tensors`, a checkpoint that has a
// tensor which no rank holds is refused. A `weight` of a tensor with an fp32 master is made from the master. Throws
// Error, on all ranks if on one; after an error of reading, the content of the memory is undefined.
FillOutcome LoadInto(const LoadSource& source, std::span<const TensorToFill> tensors, const LoadSettings& settings = {},
                     bool all_tensors = true);

}  // namespace v0
}  // namespace ucp
