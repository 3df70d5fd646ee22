// How DeepSpeed's PipelineModule deals the layers of a model over its stages: its two methods that know no class of a
// layer, to the last tie (`partition_uniform` and `partition_balanced`).
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace ucp {

enum class DealMethod {
  kUniform,     // As many layers for each stage.
  kParameters,  // As many trained parameters: PipelineModule's own default.
};
std::optional<DealMethod> FindDealMethod(std::string_view name);

// Returns the first layer of each stage, and at the end the number of layers. `weights` has the trained parameters of
// each.
std::vector<std::int64_t> DealLayers(DealMethod method, const std::vector<std::int64_t>& weights, std::int64_t stages);

}  // namespace ucp
