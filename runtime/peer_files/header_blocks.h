// Reading the headers of a file that is far away: a header is read in some dozens of small pieces that lie close
// together, and each would be a question of its own. So blocks are read, and the last ones kept.
#pragma once

#include <llvm/ADT/STLFunctionalExtras.h>
#include <llvm/Support/Error.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <span>
#include <vector>

namespace ucp {

// Safe to use from several threads, which then wait for one another.
class HeaderBlocks {
 public:
  explicit HeaderBlocks(std::uint64_t file_bytes) : file_bytes_(file_bytes) {}

  static constexpr std::uint64_t kBlockBytes = std::uint64_t{16} << 10;

  // Fills `buffer` from `offset` on, through `read`, which reads from the file itself. A read that is longer than a
  // block, or goes behind the file's end, is done as it is.
  using Read = llvm::function_ref<llvm::Error(std::uint64_t offset, std::span<std::byte> buffer)>;
  [[nodiscard]] llvm::Error ReadAt(std::uint64_t offset, std::span<std::byte> buffer, Read read);

 private:
  struct Block {
    std::uint64_t number = 0;
    std::vector<std::byte> bytes;
  };

  llvm::Expected<const Block*> Find(std::uint64_t number, Read read);

  const std::uint64_t file_bytes_;
  std::mutex mutex_;  // Protects the blocks.
  std::deque<Block> blocks_;
};

}  // namespace ucp
