// The options that every run has, with any sink, and what it says of itself on the way.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <string>

#include "runtime/comm/communicator.h"
#include "runtime/storage/open_file_limit.h"

namespace ucp {

struct ExecutionProgress {
  std::uint64_t bytes_done = 0;  // Of the elements that are written.
  std::uint64_t bytes_total = 0;
  std::uint64_t files_done = 0;  // Complete, headers included.
  std::uint64_t files_total = 0;
};

// A part of a tensor's state that was read, converted, and written.
struct FinishedChunk {
  const std::string& tensor;
  const std::string& state;
  std::uint64_t bytes = 0;
  std::chrono::steady_clock::time_point begin;
  std::chrono::steady_clock::time_point end;
};

inline constexpr std::uint64_t kDefaultChunkBytes = std::uint64_t{1} << 21;  // A core's cache should hold a chunk.

struct EngineOptions {
  unsigned threads = 1;
  std::uint64_t memory_bytes = std::uint64_t{1} << 30;  // Of the host, beyond memory that the caller fills.
  std::uint64_t most_chunk_bytes = kDefaultChunkBytes;  // At least 16.
  OpenFileShares open_files;
  // Called from any thread, one call at a time, a few times a second and once at the end.
  std::function<void(const ExecutionProgress&)> progress;
  // Called from any thread, many at a time, for each range of a chunk. Loads make elements in their place, without
  // chunks, and do not call it.
  std::function<void(const FinishedChunk&)> after_chunk;
  const std::atomic<bool>* cancelled = nullptr;
  // The ranks that run at the same time, each with the same plan or, in a load, with its part; null: this process
  // alone.
  Communicator* ranks = nullptr;
};

}  // namespace ucp
