#include "compiler/formats/safetensors/dtype_codes.h"

#include <algorithm>
#include <array>

namespace ucp::safetensors {
namespace {

struct Code {
  std::string_view code;
  std::optional<DType> dtype;
};

constexpr std::array kCodes = {
    Code{"BOOL", DType::kBool},
    Code{"F4", std::nullopt},
    Code{"F6_E2M3", std::nullopt},
    Code{"F6_E3M2", std::nullopt},
    Code{"U8", DType::kUInt8},
    Code{"I8", DType::kInt8},
    Code{"F8_E5M2", DType::kFloat8E5M2},
    Code{"F8_E4M3", DType::kFloat8E4M3FN},
    Code{"F8_E8M0", std::nullopt},
    Code{"F8_E4M3FNUZ", DType::kFloat8E4M3FNUZ},
    Code{"F8_E5M2FNUZ", DType::kFloat8E5M2FNUZ},
    Code{"I16", DType::kInt16},
    Code{"U16", DType::kUInt16},
    Code{"F16", DType::kFloat16},
    Code{"BF16", DType::kBFloat16},
    Code{"I32", DType::kInt32},
    Code{"U32", DType::kUInt32},
    Code{"F32", DType::kFloat32},
    Code{"C64", DType::kComplex64},
    Code{"F64", DType::kFloat64},
    Code{"I64", DType::kInt64},
    Code{"U64", DType::kUInt64},
};

auto Find(std::string_view code) {
  return std::find_if(kCodes.begin(), kCodes.end(), [&](const Code& entry) { return entry.code == code; });
}

auto Find(DType dtype) {
  return std::find_if(kCodes.begin(), kCodes.end(), [&](const Code& entry) { return entry.dtype == dtype; });
}

}  // namespace

bool IsCode(std::string_view code) { return Find(code) != kCodes.end(); }

std::optional<DType> DTypeOfCode(std::string_view code) {
  const auto* found = Find(code);
  return found == kCodes.end() ? std::nullopt : found->dtype;
}

std::optional<std::string_view> CodeOf(DType dtype) {
  const auto* found = Find(dtype);
  if (found == kCodes.end()) return std::nullopt;
  return found->code;
}

int RankOf(DType dtype) { return static_cast<int>(Find(dtype) - kCodes.begin()); }

}  // namespace ucp::safetensors
