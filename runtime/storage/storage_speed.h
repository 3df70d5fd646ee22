// Measures the speed of a folder's storage and of this machine's memory: a file of bounded size is written and read in
// bounded time, by the means that a conversion could use.
#pragma once

#include <llvm/Support/Error.h>

#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ucp {

struct SpeedOptions {
  std::uint64_t bytes = std::uint64_t{1} << 29;  // Of the file.
  double seconds = 3;                            // The most that each measurement takes.
  unsigned threads = 1;
  const std::atomic<bool>* cancelled = nullptr;
};

// The rates that runs are compared with.
inline constexpr std::string_view kWriteWithSync = "write, buffered, with sync";
inline constexpr std::string_view kReadFromCache = "read, buffered, from the page cache";
inline constexpr std::string_view kReadFromStorage = "read, buffered, from storage";

struct Speed {
  std::string of;           // "write, buffered, with sync"
  std::uint64_t bytes = 0;  // That were moved.
  double seconds = 0;
  std::string why_not;  // In words, if it could not be measured.

  double bytes_per_second() const { return seconds > 0 ? static_cast<double>(bytes) / seconds : 0; }
};

// The file has no name, so nothing is left, even after a crash. Fails with kIo if the folder cannot be written, or has
// not that much room; kCancelled.
llvm::Expected<std::vector<Speed>> MeasureStorage(const std::string& folder, const SpeedOptions& options);

// Measures copies from one place of memory to another, over all threads. Reads and writes `bytes`.
Speed MeasureMemory(const SpeedOptions& options);

}  // namespace ucp
