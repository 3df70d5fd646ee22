// A piece of a file, and the blocks it covers:
//
//   file      |      block      |      block      |      block      |      block      |
//   piece              [ head   |     middle                        | tail ]
//
// It is read in one call, into three places: the first block and the last one aside, of which only the inner end is
// copied, and the middle into the piece's own memory. There it can stand only where memory is aligned, which is up to a
// block away from where it belongs; it is moved afterwards, in the processor's cache. If it then has no room at its
// end, the last block of the middle is read aside with the tail.
#include "runtime/storage/direct_file.h"

#include <fcntl.h>
#include <sys/uio.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "compiler/support/error.h"
#include "compiler/support/ongoing_calls.h"
#include "compiler/support/system_reason.h"

namespace ucp {
namespace {

constexpr std::uint64_t kBlock = kDirectBlockBytes;

std::uint64_t Down(std::uint64_t offset) { return offset / kBlock * kBlock; }
std::uint64_t Up(std::uint64_t offset) { return Down(offset + kBlock - 1); }

template <typename Byte>
std::uint64_t Address(Byte* place) {
  return reinterpret_cast<std::uintptr_t>(place);
}

// The operating system's words for "not in this way", which is not a failure of the device.
bool IsRefusal(int error_number) { return error_number == EINVAL || error_number == EOPNOTSUPP; }

bool IsInMemory(int descriptor) {
  constexpr std::int64_t kTmpfs = 0x01021994;
  constexpr std::int64_t kRamfs = 0x858458F6;
  struct statfs status{};
  return ::fstatfs(descriptor, &status) == 0 && (status.f_type == kTmpfs || status.f_type == kRamfs);
}

// Where the blocks of a piece go.
class Blocks {
 public:
  // The piece is kLeastDirectBytes at least.
  Blocks(std::uint64_t offset, std::span<std::byte> piece) : offset_(offset), piece_(piece) {
    const std::uint64_t end = offset + piece.size();
    begin_ = Up(offset);
    std::byte* const belongs = piece.data() + (begin_ - offset);
    const bool is_aligned = Address(belongs) % kBlock == 0;
    middle_ = is_aligned ? belongs : piece.data() + (Up(Address(piece.data())) - Address(piece.data()));
    const auto room = static_cast<std::uint64_t>(piece.data() + piece.size() - middle_);
    end_ = begin_ + std::min(Down(end) - begin_, Down(room));
  }

  std::uint64_t first_byte() const { return Down(offset_); }
  // Of the blocks, those that the piece needs: up to its end.
  std::uint64_t needed_bytes() const { return offset_ + piece_.size() - first_byte(); }

  // For preadv().
  std::span<const iovec> Places() {
    std::size_t count = 0;
    if (begin_ > offset_) places_[count++] = {Aside(0), kBlock};
    places_[count++] = {middle_, end_ - begin_};
    if (const std::uint64_t last = Up(offset_ + piece_.size()); last > end_) places_[count++] = {Aside(1), last - end_};
    return std::span(places_).first(count);
  }

  // When they are filled.
  void PutInPlace() {
    std::memmove(piece_.data() + (begin_ - offset_), middle_, end_ - begin_);
    const std::uint64_t head = begin_ - offset_;
    std::memcpy(piece_.data(), Aside(0) + (kBlock - head), head);
    const std::uint64_t tail = offset_ + piece_.size() - end_;
    std::memcpy(piece_.data() + piece_.size() - tail, Aside(1), tail);
  }

 private:
  std::byte* Aside(std::size_t block) { return aside_.data() + block * kBlock; }

  const std::uint64_t offset_;
  const std::span<std::byte> piece_;
  std::uint64_t begin_;  // Of the middle, in the file.
  std::uint64_t end_;
  std::byte* middle_;  // Where it is read to.
  std::array<iovec, 3> places_ = {};
  alignas(kBlock) std::array<std::byte, 3 * kBlock> aside_;  // One for the head, two for the tail.
};

}  // namespace

int DirectDescriptor::Number() const {
  if (is_refused_.load(std::memory_order_relaxed)) return -1;
  std::call_once(once_, [&] {
    descriptor_ = OpenDescriptor(path_, access_ | O_DIRECT);
    if (!descriptor_.is_open()) return NoteRefusal(errno == ENOENT ? "it is not on this machine" : SystemReason(errno));
    is_in_memory_ = IsInMemory(descriptor_.number());
  });
  return is_refused_.load(std::memory_order_relaxed) ? -1 : descriptor_.number();
}

void DirectDescriptor::NoteRefusal(std::string why) const {
  std::lock_guard lock(mutex_);
  refusal_ = std::move(why);
  is_refused_ = true;
}

std::optional<std::string> DirectDescriptor::refusal() const {
  std::lock_guard lock(mutex_);
  if (!is_refused_) return std::nullopt;
  return refusal_;
}

DirectReadableFile::DirectReadableFile(std::unique_ptr<ReadableFile> file)
    : file_(std::move(file)), direct_(file_->path(), O_RDONLY | O_NONBLOCK) {}

llvm::Error DirectReadableFile::ReadAt(std::uint64_t offset, std::span<std::byte> buffer) const {
  const int descriptor = buffer.size() < kLeastDirectBytes ? -1 : direct_.Number();
  if (descriptor < 0) return file_->ReadAt(offset, buffer);
  Blocks blocks(offset, buffer);
  const std::span<const iovec> places = blocks.Places();
  const Ongoing ongoing("reading", path());
  const ssize_t count = Uninterrupted([&] {
    return ::preadv(descriptor, places.data(), static_cast<int>(places.size()),
                    static_cast<off_t>(blocks.first_byte()));
  });
  if (count >= 0 && static_cast<std::uint64_t>(count) >= blocks.needed_bytes()) {
    blocks.PutInPlace();
    return llvm::Error::success();
  }
  if (count < 0 && !IsRefusal(errno)) return ReadingError(path(), offset, errno);
  if (count < 0) direct_.NoteRefusal(SystemReason(errno));
  return file_->ReadAt(offset, buffer);  // If there were fewer, its error says where the file ends.
}

DirectWritableFile::DirectWritableFile(std::unique_ptr<WritableFile> file, const std::string& path)
    : file_(std::move(file)), path_(path), direct_(path, O_WRONLY | O_NOFOLLOW) {}

llvm::Error DirectWritableFile::WriteBuffered(std::uint64_t offset, std::span<const std::byte> bytes) {
  if (bytes.empty()) return llvm::Error::success();
  UCP_RETURN_IF_ERROR(file_->WriteAt(offset, bytes));
  file_->StartWriteback(offset, bytes.size());
  return llvm::Error::success();
}

llvm::Error DirectWritableFile::WriteAt(std::uint64_t offset, std::span<const std::byte> bytes) {
  const std::uint64_t begin = Up(offset);
  const bool stands_as_in_file = Address(bytes.data()) % kBlock == offset % kBlock;
  const int descriptor = bytes.size() < kLeastDirectBytes || !stands_as_in_file ? -1 : direct_.Number();
  if (descriptor < 0) return WriteBuffered(offset, bytes);
  const std::uint64_t end = Down(offset + bytes.size());
  std::uint64_t done = begin;
  const Ongoing ongoing("writing", path_);
  while (done < end) {
    const ssize_t count = Uninterrupted(
        [&] { return ::pwrite(descriptor, bytes.data() + (done - offset), end - done, static_cast<off_t>(done)); });
    if (count < 0 && !IsRefusal(errno)) {
      return Fail(ErrorCode::kIo, "cannot write `{}` at byte {}: {}", path_, done, SystemReason(errno));
    }
    if (count < 0) direct_.NoteRefusal(SystemReason(errno));
    if (count <= 0) break;
    done += Down(static_cast<std::uint64_t>(count));
    if (static_cast<std::uint64_t>(count) % kBlock != 0) break;
  }
  UCP_RETURN_IF_ERROR(WriteBuffered(offset, bytes.first(begin - offset)));
  return WriteBuffered(done, bytes.subspan(done - offset));
}

}  // namespace ucp
