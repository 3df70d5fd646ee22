// A file system beside another one: every call goes there, and observers are notified of it. How bandwidth is bounded
// and how a timeline is drawn, without the executor knowing.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>

#include "runtime/storage/file_system.h"

namespace ucp {

struct FileCall {
  std::string_view what;  // "read", "write", "sync", "open", "create", "close", "list", "rename", …
  std::string_view path;
  std::uint64_t bytes = 0;  // Of a read or a write.
  std::chrono::steady_clock::time_point begin;
  std::chrono::steady_clock::time_point end;
};

// Called from any thread, many at a time.
struct FileWatchers {
  std::function<void(std::uint64_t bytes)> before_moving;  // Before each read and write; may take its time.
  std::function<void(const FileCall&)> after_call;
};

// `files` must outlive it and everything that was opened by it.
std::unique_ptr<FileSystem> WatchFiles(FileSystem& files, FileWatchers watchers);

}  // namespace ucp
