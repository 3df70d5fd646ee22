// The names that PyTorch gives dtypes and storage classes in a pickle.
#pragma once

#include <array>
#include <optional>
#include <string_view>

#include "compiler/formats/pytorch/values/value.h"
#include "compiler/layout/dtype.h"

namespace ucp::pytorch {

// "FloatStorage" for kFloat32. Returns nothing for dtypes that are younger than these classes (float8, uint16 to
// uint64): their storages are untyped.
std::optional<std::string_view> StorageClassName(DType dtype);
std::optional<DType> StorageClassDType(std::string_view class_name);

// `torch.float32`; nothing for other globals.
std::optional<DType> DTypeOfGlobal(const Global& global);

}  // namespace ucp::pytorch
