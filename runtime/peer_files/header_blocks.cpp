#include "runtime/peer_files/header_blocks.h"

#include <algorithm>
#include <utility>

#include "compiler/support/error.h"

namespace ucp {

llvm::Error HeaderBlocks::ReadAt(std::uint64_t offset, std::span<std::byte> buffer, Read read) {
  if (buffer.size() >= kBlockBytes || offset > file_bytes_ || buffer.size() > file_bytes_ - offset) {
    return read(offset, buffer);
  }
  std::lock_guard lock(mutex_);
  while (!buffer.empty()) {
    UCP_ASSIGN_OR_RETURN(const Block* block, Find(offset / kBlockBytes, read));
    const std::span<const std::byte> rest = std::span(block->bytes).subspan(offset % kBlockBytes);
    const std::size_t bytes = std::min(rest.size(), buffer.size());
    std::ranges::copy(rest.first(bytes), buffer.begin());
    buffer = buffer.subspan(bytes);
    offset += bytes;
  }
  return llvm::Error::success();
}

llvm::Expected<const HeaderBlocks::Block*> HeaderBlocks::Find(std::uint64_t number, Read read) {
  for (const Block& block : blocks_) {
    if (block.number == number) return &block;
  }
  constexpr std::size_t kMostBlocks = 4;
  const std::uint64_t begin = number * kBlockBytes;
  Block block{number, std::vector<std::byte>(std::min(kBlockBytes, file_bytes_ - begin))};
  UCP_RETURN_IF_ERROR(read(begin, block.bytes));
  if (blocks_.size() == kMostBlocks) blocks_.pop_front();
  blocks_.push_back(std::move(block));
  return &blocks_.back();
}

}  // namespace ucp
