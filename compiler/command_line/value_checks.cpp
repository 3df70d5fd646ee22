#include "compiler/command_line/value_checks.h"

#include <fmt/format.h>

#include <charconv>
#include <system_error>

#include "compiler/formats/strategy_rules.h"

namespace ucp {

ValueCheck WholeNumber(std::int64_t least, std::int64_t most) {
  return [least, most](const std::string& text) {
    if (ParseCount(text, least, most)) return std::string();
    return fmt::format("takes a whole number from {} to {}, not `{}`", least, most, text);
  };
}

ValueCheck SomeSeconds() {
  return [](const std::string& text) {
    constexpr double kDay = 86400;
    double seconds = -1;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seconds);
    const bool is_number = error == std::errc() && end == text.data() + text.size();
    if (is_number && seconds >= 0 && seconds <= kDay) return std::string();
    return fmt::format("takes a number from 0 to {}, not `{}`", kDay, text);
  };
}

ValueCheck FolderName() {
  return [](const std::string& text) {
    constexpr std::size_t kLongest = 245;  // A universal one adds ten...
    const bool is_plain = !text.empty() && text != "." && text != ".." && text.find('/') == std::string::npos;
    if (is_plain && text.size() <= kLongest) return std::string();
    return fmt::format("takes the name of a folder, without `/` and of at most {} bytes, not `{}`", kLongest, text);
  };
}

}  // namespace ucp
