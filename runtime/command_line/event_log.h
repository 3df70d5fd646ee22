// A run as lines of JSON, one event each, for programs that watch it (docs/json.md, "Events").
#pragma once

#include <llvm/Support/Error.h>
#include <llvm/Support/JSON.h>

#include <chrono>
#include <mutex>
#include <string_view>

#include "runtime/command_line/text_sink.h"

namespace ucp {

// Safe to use from several threads.
class EventLog {
 public:
  explicit EventLog(TextSink sink) : sink_(std::move(sink)), start_(Clock::now()) {}

  // Writes one line: `{"event": name, "at": seconds since the start, …}`, flushed.
  void Add(const char* name, llvm::json::Object fields);

  static constexpr std::string_view kBeginning = "{\"at\":";  // Of every file: keys are sorted.

  // Call last.
  [[nodiscard]] llvm::Error Close();

 private:
  using Clock = std::chrono::steady_clock;

  std::mutex mutex_;  // Protects what follows.
  TextSink sink_;
  const Clock::time_point start_;
};

}  // namespace ucp
