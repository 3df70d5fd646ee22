// The work of each thread over time, in the trace format of Chrome (chrome://tracing, Perfetto): an array of events,
// one for each phase of the run, chunk of elements and call on a file. They are written as they come; in memory is no
// more than one buffer of them.
#pragma once

#include <llvm/Support/Error.h>

#include <chrono>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>

#include "runtime/command_line/text_sink.h"

namespace ucp {

struct TimelineEvent {
  std::string_view name;
  std::string_view file;    // Empty: none.
  std::uint64_t bytes = 0;  // 0: bytes are not shown.
  std::chrono::steady_clock::time_point begin;
  std::chrono::steady_clock::time_point end;
};

// Safe to use from several threads.
class Timeline {
 public:
  // Where more events come than this, the rest is counted.
  explicit Timeline(TextSink sink, std::uint64_t most_events = 2'000'000);

  // Adds an event of the thread that calls; its row is the lowest number that no other living thread has.
  void Add(const TimelineEvent& event);
  static constexpr std::string_view kBeginning = "[\n{\"name\":\"thread_name\"";  // Of every file.

  // Adds an event in a row of its own, above the threads.
  void AddPhase(const TimelineEvent& event);

  // Call last.
  [[nodiscard]] llvm::Error Close();

 private:
  using Clock = std::chrono::steady_clock;

  void Write(const TimelineEvent& event, unsigned row);
  void NameRow(unsigned row, const std::string& name);

  const Clock::time_point start_ = Clock::now();
  std::mutex mutex_;  // Protects what follows.
  TextSink sink_;
  std::uint64_t events_left_;
  std::uint64_t left_out_ = 0;
  unsigned named_rows_ = 0;
};

}  // namespace ucp
