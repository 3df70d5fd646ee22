#include "runtime/save/segment.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "compiler/support/error.h"
#include "compiler/support/system_reason.h"
#include "compiler/support/units.h"
#include "runtime/save/available_memory.h"

namespace ucp {

llvm::Expected<Segment> Segment::Create(std::uint64_t bytes) {
  if (bytes == 0) return Segment();
  // Else the system would find out by ending processes.
  if (const std::uint64_t available = AvailableMemory(); bytes > available) {
    return Fail(ErrorCode::kMemory, "a rank's state takes {} of shared memory, and {} of memory are available",
                HumanBytes(bytes), HumanBytes(available));
  }
  const int descriptor = ::memfd_create("ucp-save", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (descriptor < 0) {
    return Fail(ErrorCode::kMemory, "shared memory cannot be made (memfd_create): {}", SystemReason(errno));
  }
  const int failed = ::ftruncate(descriptor, static_cast<off_t>(bytes)) != 0
                         ? errno
                         : ::posix_fallocate(descriptor, 0, static_cast<off_t>(bytes));
  if (failed != 0) {
    ::close(descriptor);
    return Fail(ErrorCode::kMemory, "{} of shared memory cannot be taken for the state of a rank: {}",
                HumanBytes(bytes), SystemReason(failed));
  }
  ::fcntl(descriptor, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW);  // Else a reader could be killed by SIGBUS.
  return Open(descriptor, bytes);
}

llvm::Expected<Segment> Segment::Open(int descriptor, std::uint64_t bytes) {
  Segment segment;
  segment.descriptor_ = descriptor;
  if (bytes == 0) return segment;
  const int flags = MAP_SHARED | MAP_POPULATE;
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
  std::swap(descriptor_, other.descriptor_);
  return *this;
}

Segment::~Segment() {
  if (address_ != nullptr) ::munmap(address_, bytes_);
  if (descriptor_ >= 0) ::close(descriptor_);
}

}  // namespace ucp
