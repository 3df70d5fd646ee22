// Numbers that can be computed from where they stand: every element of a synthetic checkpoint is a function of its
// tensor's name, its state and its place in the whole tensor (docs/synthetic.md). So a checkpoint of any size can be
// made without a source, and checked element by element however it has been cut since.
#pragma once

#include <llvm/Support/Error.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "compiler/layout/dtype.h"

namespace ucp {

// The numbers of one tensor in one state. No number is 0, so that unwritten elements are recognised.
class SyntheticValues {
 public:
  // Fails (kUnsupported) for a dtype that is not a floating-point one.
  static llvm::Expected<SyntheticValues> Make(std::string_view tensor, std::string_view state, DType dtype);

  DType dtype() const { return dtype_; }

  // Elements [first, first + n) of the whole tensor, row-major; `bytes` has room for exactly these.
  void Fill(std::int64_t first, std::span<std::byte> bytes) const;

 private:
  SyntheticValues(std::uint64_t key, bool is_positive, DType dtype)
      : key_(key), is_positive_(is_positive), dtype_(dtype) {}
  void FillFloats(std::int64_t first, std::span<float> values) const;

  std::uint64_t key_;
  bool is_positive_;
  DType dtype_;
};

}  // namespace ucp
