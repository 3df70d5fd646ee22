// The names of a rank's own module, and what its tensors hold of the model.
//
//   decoder.layers.0.mlp.experts.local_experts.1.linear_fc2.weight     an expert
//   decoder.layers.0.mlp.experts.linear_fc2.weight1                    the same of grouped experts
//   decoder.layers.0.mlp.experts.weight2                               all experts of the rank, each transposed
#pragma once

#include <llvm/Support/Error.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/formats/megatron/rules/arguments.h"
#include "compiler/formats/megatron/rules/module_names.h"
#include "compiler/formats/source_archives.h"

namespace ucp::megatron {

// A tensor of a rank's own module.
struct LocalTensor {
  std::string name;  // "decoder.layers.0.mlp.linear_fc1.weight"; layers are counted from the part's first on.
  TensorPlace place;
};

struct NameInModel {
  std::optional<std::int64_t> layer;   // Of the part's.
  std::optional<std::int64_t> expert;  // Of the rank's.
  std::string name;                    // In the layer, as `torch_dist` calls it.
  bool has_all_experts = false;        // Of the rank; then `expert` is absent.
  bool operator==(const NameInModel&) const = default;
};

// How a rank's modules call their tensors.
ModuleForm FormOfRanks(const Arguments& arguments);

// Whether keys have the numbers of layers: Megatron Core does not stack layers that may differ.
bool HasNumberedLayers(const Arguments& arguments);

NameInModel NameOf(std::string_view name, const ModuleForm& form);

// A tensor of the model, or an expert's part of it, in a rank's own tensor.
struct LocalMatrix {
  std::optional<std::int64_t> expert;  // Of the rank's.
  std::vector<std::int64_t> sizes;
  std::int64_t begin = 0;             // Its first element.
  std::vector<std::int64_t> strides;  // In elements; empty: those of the rank's tensor.
};

// `name`: the tensor's. Fails (kBadData) for a tensor of all of the rank's experts that so many cannot share, and
// (kUnsupported) for one that is not stored row by row.
llvm::Expected<std::vector<LocalMatrix>> MatricesIn(const LocalTensor& tensor, const NameInModel& name,
                                                    std::int64_t experts);

}  // namespace ucp::megatron
