// The times and the form of progress: a line that is written over again on a terminal; in a pipe whole lines, few of
// them, and none for a run that is soon over.
#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <utility>

#include "runtime/command_line/progress_text.h"

namespace ucp {

// One thread at a time.
class ProgressOutput {
 public:
  using Clock = std::chrono::steady_clock;

  // `columns`: of the terminal; nothing: it is none.
  ProgressOutput(std::optional<std::size_t> columns, Clock::time_point start) : columns_(columns), start_(start) {}

  // The terminal has another width now.
  void Resize(std::size_t columns) { columns_ = columns; }

  // Returns the text to write, if any. Rates are since the first call, whose bytes an earlier run may have moved.
  std::optional<std::string> Tell(ProgressNumbers numbers, Clock::time_point now);

  // Returns the text that clears the line, if there is one.
  std::optional<std::string> Clear();

  static constexpr std::chrono::milliseconds kShort{200};  // A run that is over by then shows nothing on a terminal,
  static constexpr std::chrono::seconds kEvery{10};        // and in a pipe one line each time that so much has passed.

 private:
  std::optional<std::size_t> columns_;
  const Clock::time_point start_;
  Clock::time_point last_line_ = start_;
  bool is_shown_ = false;
  std::optional<std::pair<Clock::time_point, std::uint64_t>> first_;  // When it was, and the bytes that were done.
};

}  // namespace ucp
