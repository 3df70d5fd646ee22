// Bytes that the host has already, on their way to a device: one thread puts them one after the other, and they leave
// slot by slot. The first error is kept until Finish(), so that a caller that puts something need not check.
#pragma once

#include <llvm/Support/Error.h>

#include <cstddef>
#include <optional>
#include <span>

#include "runtime/gpu/slots.h"

namespace ucp {

class Packing {
 public:
  explicit Packing(SlotRing& ring) : ring_(ring) {}
  ~Packing();

  // Two writes to one place without Finish() between may come in either order.
  void Put(std::byte* to, std::span<const std::byte> bytes);
  void Zero(std::span<std::byte> memory);

  // Sends off the rest, and waits until all is there.
  [[nodiscard]] llvm::Error Finish();

 private:
  llvm::Error PutPart(std::byte* to, std::span<const std::byte> bytes);
  void Keep(llvm::Error error);

  SlotRing& ring_;
  std::optional<SlotTransfer> transfer_;
  llvm::Error error_ = llvm::Error::success();
  bool has_failed_ = false;
};

}  // namespace ucp
