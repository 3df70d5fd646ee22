#include "runtime/command_line/progress_text.h"

#include <fmt/format.h>

#include <vector>

#include "compiler/support/units.h"

namespace ucp {
namespace {

// "45 s", "3 min 20 s", "2 h 5 min".
std::string DurationText(double seconds) {
  const auto whole = static_cast<std::uint64_t>(seconds + 0.5);
  if (whole < 60) return fmt::format("{} s", whole);
  if (whole < 3600) return fmt::format("{} min {} s", whole / 60, whole % 60);
  return fmt::format("{} h {} min", whole / 3600, whole % 3600 / 60);
}

}  // namespace

std::string ProgressText(const ProgressNumbers& numbers, std::size_t columns) {
  const auto done = static_cast<double>(numbers.bytes_done);
  const auto total = static_cast<double>(numbers.bytes_total);
  const auto moved = static_cast<double>(numbers.bytes_done - numbers.bytes_before);
  const double rate = numbers.seconds > 0 ? moved / numbers.seconds : 0;
  const std::string percentage = fmt::format("{:3.0f} %", 100 * done / total);
  const std::string bytes = fmt::format("{} of {}", HumanBytes(numbers.bytes_done), HumanBytes(numbers.bytes_total));
  const std::string speed = HumanRate(rate);
  const std::string left = rate > 0 ? fmt::format("{} left", DurationText((total - done) / rate)) : "";
  const std::string files =
      numbers.files_total == 0 ? "" : fmt::format("{} of {} files", numbers.files_done, numbers.files_total);

  // The least important part goes first.
  const std::vector<std::vector<std::string>> choices{
      {bytes, speed, left, files}, {bytes, speed, left}, {bytes, left}, {left}};
  for (const std::vector<std::string>& parts : choices) {
    std::string text;
    for (const std::string& part : parts) {
      if (!part.empty()) text += (text.empty() ? "  " : ", ") + part;
    }
    if (percentage.size() + text.size() <= columns) return percentage + text;
  }
  return percentage;
}

}  // namespace ucp
