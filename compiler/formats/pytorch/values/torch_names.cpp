#include "compiler/formats/pytorch/values/torch_names.h"

#include <utility>

namespace ucp::pytorch {
namespace {

// An empty class name: none.
constexpr std::pair<DType, std::string_view> kStorageClasses[] = {
    {DType::kBool, "BoolStorage"},
    {DType::kUInt8, "ByteStorage"},
    {DType::kInt8, "CharStorage"},
    {DType::kInt16, "ShortStorage"},
    {DType::kInt32, "IntStorage"},
    {DType::kInt64, "LongStorage"},
    {DType::kUInt16, ""},
    {DType::kUInt32, ""},
    {DType::kUInt64, ""},
    {DType::kFloat16, "HalfStorage"},
    {DType::kBFloat16, "BFloat16Storage"},
    {DType::kFloat32, "FloatStorage"},
    {DType::kFloat64, "DoubleStorage"},
    {DType::kComplex64, "ComplexFloatStorage"},
    {DType::kComplex128, "ComplexDoubleStorage"},
    {DType::kFloat8E4M3FN, ""},
    {DType::kFloat8E5M2, ""},
    {DType::kFloat8E4M3FNUZ, ""},
    {DType::kFloat8E5M2FNUZ, ""},
};

}  // namespace

std::optional<std::string_view> StorageClassName(DType dtype) {
  for (const auto& [candidate, name] : kStorageClasses) {
    if (candidate == dtype && !name.empty()) return name;
  }
  return std::nullopt;
}

std::optional<DType> StorageClassDType(std::string_view class_name) {
  for (const auto& [dtype, name] : kStorageClasses) {
    if (!name.empty() && name == class_name) return dtype;
  }
  return std::nullopt;
}

std::optional<DType> DTypeOfGlobal(const Global& global) {
  if (global.module != "torch") return std::nullopt;
  return DTypeFromName(global.name);
}

}  // namespace ucp::pytorch
