#include "runtime/storage/storage_speed.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>

#include "compiler/files/descriptor.h"
#include "compiler/support/error.h"
#include "compiler/support/parallel.h"
#include "compiler/support/system_reason.h"
#include "compiler/support/units.h"
#include "runtime/storage/file_system.h"

namespace ucp {
namespace {

constexpr std::uint64_t kBlockBytes = std::uint64_t{4} << 20;
constexpr std::size_t kAlignment = 4096;  // Direct input and output need it, of memory and of places.

using Clock = std::chrono::steady_clock;

double SecondsSince(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

struct Free {
  void operator()(std::byte* memory) const { std::free(memory); }
};
using Block = std::unique_ptr<std::byte[], Free>;

// Filled with what no storage can compress.
std::vector<Block> MakeBlocks(unsigned count, std::uint64_t bytes) {
  std::vector<Block> blocks;
  std::uint64_t state = 0x9E3779B97F4A7C15;
  for (unsigned i = 0; i < count; ++i) {
    blocks.emplace_back(static_cast<std::byte*>(std::aligned_alloc(kAlignment, bytes)));
    if (blocks.back() == nullptr) throw std::bad_alloc();
    for (std::uint64_t at = 0; at < bytes; at += sizeof(state)) {
      state ^= state << 13;
      state ^= state >> 7;
      state ^= state << 17;
      std::memcpy(blocks.back().get() + at, &state, sizeof(state));
    }
  }
  return blocks;
}

class StorageSpeed {
 public:
  StorageSpeed(std::string folder, const SpeedOptions& options, int file)
      : folder_(std::move(folder)),
        options_(options),
        parallel_{options.threads, options.cancelled},
        file_(file),
        blocks_(MakeBlocks(options.threads, kBlockBytes)),
        count_(std::max<std::uint64_t>(1, options.bytes / kBlockBytes)) {}

  llvm::Expected<std::vector<Speed>> Run() {
    UCP_RETURN_IF_ERROR(Buffered());
    UCP_RETURN_IF_ERROR(Direct());
    return std::move(speeds_);
  }

 private:
  enum class Way { kRead, kWrite };

  llvm::Error Buffered() {
    UCP_RETURN_IF_ERROR(ReserveAnew());
    const Clock::time_point start = Clock::now();
    UCP_ASSIGN_OR_RETURN(Speed written, Move(Way::kWrite, "write, buffered", file_));
    count_ = std::max<std::uint64_t>(1, written.bytes / kBlockBytes);  // The blocks that can be read.
    speeds_.push_back(written);
    if (::fdatasync(file_) != 0) return Failed("sync", errno);
    speeds_.push_back({std::string(kWriteWithSync), written.bytes, SecondsSince(start), ""});
    UCP_ASSIGN_OR_RETURN(Speed cached, Move(Way::kRead, std::string(kReadFromCache), file_));
    speeds_.push_back(cached);
    const int advised = ::posix_fadvise(file_, 0, 0, POSIX_FADV_DONTNEED);
    if (advised != 0) {
      speeds_.push_back({std::string(kReadFromStorage), 0, 0, SystemReason(advised)});
      return llvm::Error::success();
    }
    UCP_ASSIGN_OR_RETURN(Speed cold, Move(Way::kRead, std::string(kReadFromStorage), file_));
    speeds_.push_back(cold);
    return llvm::Error::success();
  }

  // An empty file with room for all blocks, as a conversion makes it: writing what was there before is another thing.
  llvm::Error ReserveAnew() {
    const auto bytes = static_cast<off_t>(count_ * kBlockBytes);
    if (::ftruncate(file_, 0) != 0 || ::ftruncate(file_, bytes) != 0) return Failed("size", errno);
    if (::fallocate(file_, 0, 0, bytes) == 0 || errno == EOPNOTSUPP) return llvm::Error::success();
    return Failed("reserve room for", errno);
  }

  llvm::Error Direct() {
    UCP_RETURN_IF_ERROR(ReserveAnew());
    const std::string again = "/proc/self/fd/" + std::to_string(file_);
    const Descriptor direct(::open(again.c_str(), O_RDWR | O_DIRECT | O_CLOEXEC));
    for (const auto& [way, name] : {std::pair(Way::kWrite, "write, direct"), std::pair(Way::kRead, "read, direct")}) {
      if (direct.number() < 0) {
        speeds_.push_back({name, 0, 0, "this file system has no direct input and output"});
        continue;
      }
      UCP_ASSIGN_OR_RETURN(Speed speed, Move(way, name, direct.number()));
      speeds_.push_back(speed);
    }
    return llvm::Error::success();
  }

  // All blocks in order, or as many as there is time for.
  llvm::Expected<Speed> Move(Way way, std::string of, int file) {
    std::atomic<std::uint64_t> bytes = 0;
    const Clock::time_point start = Clock::now();
    auto move = [&](unsigned thread, std::uint64_t number) -> llvm::Error {
      if (SecondsSince(start) > options_.seconds) return llvm::Error::success();
      UCP_RETURN_IF_ERROR(MoveBlock(way, file, blocks_[thread].get(), number * kBlockBytes));
      bytes += kBlockBytes;
      return llvm::Error::success();
    };
    UCP_RETURN_IF_ERROR(ForEachInParallel(count_, parallel_, move));
    return Speed{std::move(of), bytes, SecondsSince(start), ""};
  }

  llvm::Error MoveBlock(Way way, int file, std::byte* block, std::uint64_t offset) const {
    for (std::uint64_t done = 0; done < kBlockBytes;) {
      const auto place = static_cast<off_t>(offset + done);
      const ssize_t moved = way == Way::kRead ? ::pread(file, block + done, kBlockBytes - done, place)
                                              : ::pwrite(file, block + done, kBlockBytes - done, place);
      if (moved < 0 && errno == EINTR) continue;
      if (moved < 0) return Failed(way == Way::kRead ? "read" : "write", errno);
      if (moved == 0)
        return Fail(ErrorCode::kIo, "a file in `{}` ended at byte {} while it was measured", folder_, place);
      done += static_cast<std::uint64_t>(moved);
    }
    return llvm::Error::success();
  }

  llvm::Error Failed(std::string_view action, int error_number) const {
    return Fail(ErrorCode::kIo, "cannot {} a file in `{}`: {}", action, folder_, SystemReason(error_number));
  }

  const std::string folder_;
  const SpeedOptions options_;
  const ParallelOptions parallel_;
  const int file_;
  std::vector<Block> blocks_;  // By thread.
  std::uint64_t count_;        // Of blocks in the file.
  std::vector<Speed> speeds_;
};

}  // namespace

llvm::Expected<std::vector<Speed>> MeasureStorage(const std::string& folder, const SpeedOptions& options) {
  UCP_ASSIGN_OR_RETURN(std::uint64_t free_bytes, RealFileSystem().FreeBytes(folder));
  if (free_bytes < options.bytes) {
    return Fail(ErrorCode::kIo, "`{}` has {} free, and a file of {} is to be written there for a moment", folder,
                HumanBytes(free_bytes), HumanBytes(options.bytes));
  }
  std::string name = JoinPath(folder, ".ucp-bench-XXXXXX");
  const Descriptor file(::mkostemp(name.data(), O_CLOEXEC));
  if (file.number() < 0) return Fail(ErrorCode::kIo, "cannot write in `{}`: {}", folder, SystemReason(errno));
  if (::unlink(name.c_str()) != 0) return Fail(ErrorCode::kIo, "cannot remove `{}`: {}", name, SystemReason(errno));
  return StorageSpeed(folder, options, file.number()).Run();
}

Speed MeasureMemory(const SpeedOptions& options) {
  constexpr std::uint64_t kMovedBytes = std::uint64_t{64} << 20;  // More than caches hold.
  const std::vector<Block> blocks = MakeBlocks(2 * options.threads, kMovedBytes);
  const std::uint64_t times = std::max<std::uint64_t>(1, options.bytes / kMovedBytes) * options.threads;
  std::atomic<std::uint64_t> bytes = 0;
  const Clock::time_point start = Clock::now();
  llvm::consumeError(  // There is none: nothing here fails, and an interrupt only ends it early.
      ForEachInParallel(times, {options.threads, options.cancelled}, [&](unsigned thread, std::uint64_t) {
        if (SecondsSince(start) < options.seconds) {
          const std::size_t mine = std::size_t{2} * thread;
          std::memcpy(blocks[mine].get(), blocks[mine + 1].get(), kMovedBytes);
          bytes += kMovedBytes;
        }
        return llvm::Error::success();
      }));
  return {"copy, memory to memory", bytes, SecondsSince(start), ""};
}

}  // namespace ucp
