#include "runtime/save/segment.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <limits>
#include <thread>
#include <utility>

#include "compiler/support/error.h"
#include "compiler/support/parallel.h"
#include "compiler/support/system_reason.h"
#include "compiler/support/units.h"
#include "runtime/save/available_memory.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23  // Of Linux 5.14.
#endif

namespace ucp {
namespace {

constexpr std::uint64_t kPagesAtOnce = std::uint64_t{32} << 20;

llvm::Error CannotBeTaken(std::uint64_t bytes, int failed) {
  return Fail(ErrorCode::kMemory, "{} of shared memory cannot be taken for the state of a rank: {}", HumanBytes(bytes),
              SystemReason(failed));
}

// The system clears each page, which takes one thread half a second for 1 GB: by all processors, where the system lets
// several threads do so.
llvm::Error TakePages(int descriptor, std::span<std::byte> memory) {
  std::atomic<bool> is_known = true;
  const ParallelOptions all{std::max(1U, std::thread::hardware_concurrency()), nullptr};
  const std::uint64_t items = (memory.size() + kPagesAtOnce - 1) / kPagesAtOnce;
  UCP_RETURN_IF_ERROR(ForEachInParallel(items, all, [&](unsigned, std::uint64_t item) -> llvm::Error {
    const auto pages = memory.subspan(item * kPagesAtOnce, std::min(kPagesAtOnce, memory.size() - item * kPagesAtOnce));
    if (!is_known || ::madvise(pages.data(), pages.size(), MADV_POPULATE_WRITE) == 0) return llvm::Error::success();
    if (errno != EINVAL) return CannotBeTaken(memory.size(), errno);
    is_known = false;
    return llvm::Error::success();
  }));
  if (is_known) return llvm::Error::success();
  const int failed = ::posix_fallocate(descriptor, 0, static_cast<off_t>(memory.size()));
  return failed == 0 ? llvm::Error::success() : CannotBeTaken(memory.size(), failed);
}

}  // namespace

llvm::Expected<Segment> Segment::Create(std::uint64_t room_bytes, std::size_t rooms) {
  if (room_bytes == 0) return Segment();
  const std::uint64_t most = std::numeric_limits<std::uint64_t>::max();
  const std::uint64_t bytes = room_bytes > most / rooms ? most : room_bytes * rooms;
  // Else the system would find out by ending processes.
  if (const std::uint64_t available = AvailableMemory(); bytes > available) {
    return Fail(ErrorCode::kMemory, "a rank's state takes {} of shared memory{}, and {} of memory are available",
                HumanBytes(bytes), rooms == 1 ? "" : fmt::format(", {} times {}", rooms, HumanBytes(room_bytes)),
                HumanBytes(available));
  }
  const int descriptor = ::memfd_create("ucp-save", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (descriptor < 0) {
    return Fail(ErrorCode::kMemory, "shared memory cannot be made (memfd_create): {}", SystemReason(errno));
  }
  if (::ftruncate(descriptor, static_cast<off_t>(bytes)) != 0) {
    const int failed = errno;
    ::close(descriptor);
    return CannotBeTaken(bytes, failed);
  }
  ::fcntl(descriptor, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW);  // Else a reader could be killed by SIGBUS.
  UCP_ASSIGN_OR_RETURN(Segment segment, Map(descriptor, bytes, MAP_SHARED));
  UCP_RETURN_IF_ERROR(TakePages(descriptor, segment.memory()));
  segment.room_bytes_ = room_bytes;
  return segment;
}

llvm::Expected<Segment> Segment::Open(int descriptor, std::uint64_t room_bytes, std::size_t rooms) {
  if (room_bytes > std::numeric_limits<std::uint64_t>::max() / rooms) {
    return Fail(ErrorCode::kIo, "a segment cannot have {} rooms of {}", rooms, HumanBytes(room_bytes));
  }
  UCP_ASSIGN_OR_RETURN(Segment segment, Map(descriptor, room_bytes * rooms, MAP_SHARED | MAP_POPULATE));
  segment.room_bytes_ = room_bytes;
  return segment;
}

llvm::Expected<Segment> Segment::Map(int descriptor, std::uint64_t bytes, int flags) {
  Segment segment;
  segment.descriptor_ = descriptor;
  if (bytes == 0) return segment;
  void* address = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, flags, descriptor, 0);
  if (address == MAP_FAILED) {
    return Fail(ErrorCode::kMemory, "{} of shared memory cannot be mapped: {}", HumanBytes(bytes), SystemReason(errno));
  }
  segment.address_ = static_cast<std::byte*>(address);
  segment.bytes_ = bytes;
  return segment;
}

Segment& Segment::operator=(Segment&& other) noexcept {
  std::swap(address_, other.address_);
  std::swap(bytes_, other.bytes_);
  std::swap(room_bytes_, other.room_bytes_);
  std::swap(descriptor_, other.descriptor_);
  std::swap(users_, other.users_);
  return *this;
}

Segment::~Segment() {
  users_.clear();
  if (address_ != nullptr) ::munmap(address_, bytes_);
  if (descriptor_ >= 0) ::close(descriptor_);
}

}  // namespace ucp
