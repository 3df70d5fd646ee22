// Names of parameters without the parts that wrappers of their modules add, as torch.distributed.checkpoint.state_dict
// has them.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace ucp::dcp {

inline constexpr std::string_view kModulePrefix = "module.";  // Of DistributedDataParallel.

// "layers.0._checkpoint_wrapped_module.a.weight" -> "layers.0.a.weight". DistributedDataParallel's `module` stays.
std::string WithoutWrappers(std::string_view name);

// Returns whether they are those of a module that DistributedDataParallel wraps.
bool AllStandBelowModule(std::span<const std::string> names);

// Returns a number in digits, such as that of a group.
std::optional<std::int64_t> AsNumber(std::string_view digits);

}  // namespace ucp::dcp
