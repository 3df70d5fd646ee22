#include "runtime/save/remote_memory.h"

#include <sys/uio.h>

#include <algorithm>
#include <cerrno>

#include "compiler/files/descriptor.h"
#include "compiler/support/error.h"
#include "compiler/support/system_reason.h"

namespace ucp {
namespace {

constexpr std::size_t kMostPieces = 512;  // Of one call; the system takes 1,024.

// All of these pieces, one behind the other, into `buffer`.
llvm::Error ReadPieces(pid_t process, std::span<iovec> pieces, std::span<std::byte> buffer) {
  while (!buffer.empty()) {
    const iovec local{buffer.data(), buffer.size()};
    const ssize_t read =
        Uninterrupted([&] { return ::process_vm_readv(process, &local, 1, pieces.data(), pieces.size(), 0); });
    if (read <= 0) {
      return Fail(ErrorCode::kIo, "the memory of process {} cannot be read: {}", process,
                  read < 0 ? SystemReason(errno) : "it has ended");
    }
    auto done = static_cast<std::size_t>(read);
    buffer = buffer.subspan(done);
    while (!pieces.empty() && done >= pieces.front().iov_len) {
      done -= pieces.front().iov_len;
      pieces = pieces.subspan(1);
    }
    if (done == 0) continue;
    pieces.front().iov_base = static_cast<std::byte*>(pieces.front().iov_base) + done;
    pieces.front().iov_len -= done;
  }
  return llvm::Error::success();
}

}  // namespace

RemoteMemory::RemoteMemory(pid_t process, std::span<const StagedBox> boxes, const BoxMemories& memories)
    : process_(process) {
  for (const StagedBox& box : boxes) {
    if (box.bytes > 0) places_.push_back({box.offset, box.bytes, memories[box.entry][box.box]});
  }
  std::ranges::sort(places_, {}, &Place::offset);
}

bool RemoteMemory::IsReadable() const {
  std::byte byte{};
  for (const Place& place : places_) {
    llvm::Error error = ReadBox(place, 0, {&byte, 1});
    const bool is_readable = !error;
    llvm::consumeError(std::move(error));
    if (!is_readable) return false;
  }
  return true;
}

llvm::Error RemoteMemory::Read(std::uint64_t offset, std::span<std::byte> buffer) const {
  auto place = std::ranges::upper_bound(places_, offset, {}, &Place::offset);
  if (place != places_.begin()) --place;
  while (!buffer.empty()) {
    while (place != places_.end() && offset >= place->offset + place->bytes) ++place;
    if (place == places_.end() || offset < place->offset) {  // Between boxes, which a reader of several may ask for.
      const std::uint64_t left = place == places_.end() ? buffer.size() : place->offset - offset;
      const std::size_t bytes = std::min<std::uint64_t>(buffer.size(), left);
      std::ranges::fill(buffer.first(bytes), std::byte());
      buffer = buffer.subspan(bytes);
      offset += bytes;
      continue;
    }
    const std::uint64_t begin = offset - place->offset;
    const std::size_t bytes = std::min<std::uint64_t>(buffer.size(), place->bytes - begin);
    UCP_RETURN_IF_ERROR(ReadBox(*place, begin, buffer.first(bytes)));
    buffer = buffer.subspan(bytes);
    offset += bytes;
    ++place;
  }
  return llvm::Error::success();
}

llvm::Error RemoteMemory::ReadBox(const Place& place, std::uint64_t begin, std::span<std::byte> buffer) const {
  const BoxRows rows = RowsOf(place.memory);
  std::vector<iovec> pieces;
  std::size_t bytes = 0;
  for (std::uint64_t at = begin; at < begin + buffer.size();) {
    const std::uint64_t within = at % rows.row_bytes;
    const std::uint64_t length = std::min(rows.row_bytes - within, begin + buffer.size() - at);
    const std::byte* from = BeginOfRow(place.memory, rows, at / rows.row_bytes) + within;
    pieces.push_back({const_cast<std::byte*>(from), length});  // It is only read there.
    bytes += length;
    at += length;
    if (pieces.size() < kMostPieces && at < begin + buffer.size()) continue;
    UCP_RETURN_IF_ERROR(ReadPieces(process_, pieces, buffer.subspan(at - begin - bytes, bytes)));
    pieces.clear();
    bytes = 0;
  }
  return llvm::Error::success();
}

}  // namespace ucp
