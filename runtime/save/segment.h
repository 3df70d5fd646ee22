// Memory that a rank's process and the writer's share: a file without a name (memfd), whose descriptor the writer hands
// over. It is gone when both processes are, however they end, and nothing of it stands in /dev/shm. It has a room for
// each save that is in flight: while one is read, the next is staged in another.
#pragma once

#include <llvm/Support/Error.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace ucp {

class Segment {
 public:
  Segment() = default;
  // All of its pages are taken at once, so that no write to it can fail for want of memory later. Fails with kMemory.
  // `bytes`: of one room.
  static llvm::Expected<Segment> Create(std::uint64_t bytes, std::size_t rooms = 1);
  // Maps what another process has created and takes the descriptor. Fails with kIo.
  static llvm::Expected<Segment> Open(int descriptor, std::uint64_t bytes, std::size_t rooms = 1);

  Segment(Segment&& other) noexcept { *this = std::move(other); }
  Segment& operator=(Segment&& other) noexcept;
  ~Segment();

  std::span<std::byte> memory() const { return {address_, bytes_}; }  // Of all rooms, one behind the other.
  std::span<std::byte> room(std::size_t number) const { return memory().subspan(number * room_bytes_, room_bytes_); }
  int descriptor() const { return descriptor_; }  // -1 of a segment without bytes.

  // Something that uses the memory, such as a device that copies to it. It ends before the memory does.
  void Keep(std::shared_ptr<void> user) { users_.push_back(std::move(user)); }

 private:
  static llvm::Expected<Segment> Map(int descriptor, std::uint64_t bytes, int flags);

  std::byte* address_ = nullptr;
  std::uint64_t bytes_ = 0;
  std::uint64_t room_bytes_ = 0;
  int descriptor_ = -1;
  std::vector<std::shared_ptr<void>> users_;
};

}  // namespace ucp
