// Divides the memory that a run may take over its threads.
#pragma once

#include <llvm/Support/Error.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "compiler/plan/plan.h"

namespace ucp {

struct BufferSizes {
  std::uint64_t chunk_bytes = 0;    // Of each thread.
  std::uint64_t scratch_bytes = 0;  // Of each thread.
  std::uint64_t term_bytes = 0;     // Of each thread: as much as a chunk, if the plan adds anything.
  std::uint64_t ledger_pieces = 0;  // Of all threads.
  std::uint64_t left_bytes = 0;     // Beside the buffers: bytes set aside, and bytes that threads cannot use.
};

inline constexpr std::uint64_t kProgramBytes = std::uint64_t{20} << 20;  // Code, libraries, what the allocator keeps.

// Returns the memory of the plan itself, which DivideMemory() sets aside and which is taken already.
std::uint64_t PlanBytes(const Plan& plan);

// Returns the least memory with which DivideMemory() succeeds.
std::uint64_t MemoryNeeded(const Plan& plan, unsigned threads, std::uint64_t aside_bytes = 0);

// Sets aside the program, the plan's tables, an eighth of the rest for checksums, and `aside_bytes` for the caller.
// Divides the rest evenly, but gives no thread more than `most_chunk_bytes`, or where that is the default and the plan
// turns matrices, as much as makes their rows worth reading. Fails with kUsage if the memory is too
// little; the message names the number that is enough.
llvm::Expected<BufferSizes> DivideMemory(const Plan& plan, unsigned threads, std::uint64_t memory_bytes,
                                         std::uint64_t most_chunk_bytes, std::uint64_t aside_bytes = 0);

// Holds the buffers of all threads, in one allocation that is touched only where it is used.
class Buffers {
 public:
  Buffers(const BufferSizes& sizes, unsigned threads);

  // Returns a thread's memory for bytes that go to `file_offset` of a file. If there is room, its address is that
  // offset modulo a block, as writing past the page cache needs it (direct_file.h).
  std::span<std::byte> chunk(unsigned thread, std::uint64_t file_offset = 0) const;
  std::span<std::byte> term(unsigned thread) const { return terms_[thread]; }
  std::span<const std::span<std::byte>> scratch() const { return scratch_; }
  std::uint64_t bytes() const { return bytes_; }

 private:
  std::uint64_t bytes_;
  std::unique_ptr<std::byte[]> memory_;
  std::vector<std::span<std::byte>> chunks_;  // Each with a block more.
  std::vector<std::span<std::byte>> scratch_;
  std::vector<std::span<std::byte>> terms_;
};

}  // namespace ucp
