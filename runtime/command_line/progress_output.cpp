#include "runtime/command_line/progress_output.h"

namespace ucp {

std::optional<std::string> ProgressOutput::Tell(ProgressNumbers numbers, Clock::time_point now) {
  constexpr std::size_t kColumnsOfPipe = 120;
  if (numbers.bytes_total == 0) return std::nullopt;
  if (!first_) first_ = {now, numbers.bytes_done};
  numbers.seconds = std::chrono::duration<double>(now - first_->first).count();
  numbers.bytes_before = first_->second;
  if (columns_) {
    if (now - start_ < kShort) return std::nullopt;
    is_shown_ = true;
    // In the last column a terminal may begin a new line.
    return "\r" + ProgressText(numbers, *columns_ - 1) + "\x1b[K";
  }
  if (now - last_line_ < kEvery) return std::nullopt;
  last_line_ = now;
  return ProgressText(numbers, kColumnsOfPipe) + "\n";
}

std::optional<std::string> ProgressOutput::Clear() {
  if (!is_shown_) return std::nullopt;
  is_shown_ = false;
  return "\r\x1b[K";
}

}  // namespace ucp
