// Names of experts' parameters, as DeepSpeed's own MoE layer makes them:
//
//   blocks.1.moe.deepspeed_moe.experts.deepspeed_experts.  3  .up.weight
//   the layer                                          expert rest
//
// On a rank the expert has its number among those that the rank has, elsewhere the one in the whole model.
#pragma once

#include <llvm/Support/Error.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "compiler/formats/pytorch/values/value.h"

namespace ucp {

struct ExpertName {
  std::string layer;
  std::int64_t expert = 0;
  std::string rest;

  std::string With(std::int64_t other) const { return layer + std::to_string(other) + rest; }
};

// Returns nothing for a name that is not an expert's.
std::optional<ExpertName> ParseExpertName(const std::string& name);

// A layer with experts: the prefix of all their names, and how many they are.
struct ExpertLayer {
  std::string prefix;
  std::int64_t experts = 0;
  bool operator==(const ExpertLayer&) const = default;
};

// Returns the layers with experts as an entry of a dict, for folders of formats that do not count them. A native
// DeepSpeed target needs their order.
pytorch::Entry ExpertLayersEntry(const std::vector<ExpertLayer>& layers);

// Takes the entry out of `entries`, which were read from the file `where`. It is empty if there is none; an error if it
// is not of the form that ExpertLayersEntry() gives it.
llvm::Expected<std::vector<ExpertLayer>> TakeExpertLayersEntry(std::vector<pytorch::Entry>& entries,
                                                               const std::string& where);

}  // namespace ucp
