// The memory of a rank's process, read from the writer's: for a save that the rank waits for, which needs no segment
// and no copy of it.
#pragma once

#include <llvm/Support/Error.h>
#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "runtime/job_state/job_state.h"
#include "runtime/save/stage.h"

namespace ucp {

class RemoteMemory {
 public:
  // `boxes` lie in the process at `memories`, by entry and box; their offsets are those that Read() takes.
  RemoteMemory(pid_t process, std::span<const StagedBox> boxes, const BoxMemories& memories);

  // Whether the system lets this process read there, and the process is there.
  bool IsReadable() const;
  // Fills `buffer` with what a segment would have from `offset` on. Fails with kIo when the process has ended.
  [[nodiscard]] llvm::Error Read(std::uint64_t offset, std::span<std::byte> buffer) const;

 private:
  struct Place {
    std::uint64_t offset = 0;
    std::uint64_t bytes = 0;
    BoxMemory memory;
  };

  [[nodiscard]] llvm::Error ReadBox(const Place& place, std::uint64_t begin, std::span<std::byte> buffer) const;

  const pid_t process_;
  std::vector<Place> places_;  // By offset.
};

}  // namespace ucp
