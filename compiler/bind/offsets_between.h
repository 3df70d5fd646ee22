// The numbers of tensors on their way from one layout of a model to another, where the layouts store
// them with different offsets.
#pragma once

#include <llvm/Support/Error.h>

#include <cstdint>
#include <map>
#include <string>

#include "compiler/bind/between_layouts.h"

namespace ucp {

// Returns what is added to the numbers of tensors of the source, by their names; those that stay as they are are left
// out. `common` is FindCommonElements() of the two. Fails with kUnsupported if a tensor's elements go to tensors with
// different offsets.
llvm::Expected<std::map<std::string, std::int64_t>> OffsetsBetween(const LayoutOfModel& source,
                                                                   const LayoutOfModel& target,
                                                                   const CommonOfTensors& common);

// A sentence for the report of a conversion: which tensors of the target have other numbers. Empty: none.
std::string TextOfOffsets(const LayoutOfModel& source, const LayoutOfModel& target, const CommonOfTensors& common);

}  // namespace ucp
