#include "runtime/gpu/packing.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "compiler/support/error.h"

namespace ucp {
namespace {

constexpr std::size_t kLeastFill = std::size_t{16} << 10;  // Fewer zeros are brought along with other things.

}  // namespace

Packing::~Packing() { llvm::consumeError(std::move(error_)); }

void Packing::Keep(llvm::Error error) {
  if (!error) return;
  has_failed_ = true;
  llvm::consumeError(std::move(error_));
  error_ = std::move(error);
}

void Packing::Put(std::byte* to, std::span<const std::byte> bytes) {
  const std::size_t most = SlotRoom::MostBytes(ring_.slot_bytes());
  for (std::size_t begin = 0; begin < bytes.size() && !has_failed_; begin += most) {
    Keep(PutPart(to + begin, bytes.subspan(begin, std::min(most, bytes.size() - begin))));
  }
}

llvm::Error Packing::PutPart(std::byte* to, std::span<const std::byte> bytes) {
  const Numbers plain{.count = bytes.size()};
  if (transfer_ && !transfer_->Fits(plain, 1)) {
    llvm::Error error = transfer_->Send();
    transfer_.reset();
    if (error) return error;
  }
  if (!transfer_) {
    UCP_ASSIGN_OR_RETURN(SlotTransfer next, ring_.Begin());
    transfer_.emplace(std::move(next));
  }
  const std::array places = {to};
  std::memcpy(transfer_->Add(plain, places).data(), bytes.data(), bytes.size());
  return llvm::Error::success();
}

void Packing::Zero(std::span<std::byte> memory) {
  static constexpr std::array<std::byte, kLeastFill> kZeros = {};
  if (memory.size() < kLeastFill) return Put(memory.data(), std::span(kZeros).first(memory.size()));
  if (!has_failed_) Keep(ring_.Fill(memory, std::byte{0}));
}

llvm::Error Packing::Finish() {
  if (!has_failed_ && transfer_) Keep(transfer_->Send());
  transfer_.reset();
  if (!has_failed_) Keep(ring_.Wait());
  has_failed_ = false;
  return std::exchange(error_, llvm::Error::success());
}

}  // namespace ucp
