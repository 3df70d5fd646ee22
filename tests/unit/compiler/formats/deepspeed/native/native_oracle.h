// A slow and obvious account of what stands in a native checkpoint's files, to judge the writer by. A vector of
// elements is a list of numbers, each element of each state another; 0 is padding.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "compiler/layout/dtype.h"
#include "compiler/layout/storage.h"

namespace ucp::deepspeed {

using Elements = std::vector<std::int64_t>;

struct NativeTensor {
  std::string name;
  TensorKind kind = TensorKind::kParameter;
  std::vector<std::int64_t> shape;
  bool is_cut = false;  // Over tp, evenly along its first dimension.

  std::vector<std::int64_t> LocalShape(std::int64_t tp) const;
};

// A model without a pipeline, and what a strategy asks for it. Parameters have a master and two moments.
struct NativeModel {
  std::vector<NativeTensor> tensors;             // Sorted by name.
  std::vector<std::vector<std::size_t>> groups;  // Of the optimizer, in the order in which it was given them.
  std::int64_t tp = 1, dp = 1, stage = 1, sub_group_size = 1;
  DType dtype = DType::kFloat32;
  bool bf16_optimizer = false, round_robin = false, alignment = false, elastic = false;
  bool fused = false;  // Stage 0 and not float32: FP16_Optimizer.

  std::string Settings() const;
  // The part of one state that tensor rank `t` has.
  Elements Local(const std::string& tensor, const std::string& state, std::int64_t t) const;
};

// By file and place in its pickle: "tag/mp_rank_00_model_states.pt/module/embed".
struct NativeOracle {
  explicit NativeOracle(const NativeModel& model);

  std::map<std::string, Elements> tensors;   // All of them.
  std::map<std::string, std::string> texts;  // Lists, and the type and sizes of some tensors.
};

}  // namespace ucp::deepspeed
