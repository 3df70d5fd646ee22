#include "compiler/formats/dcp/entries/parameter_names.h"

#include <algorithm>
#include <array>
#include <charconv>

namespace ucp::dcp {
namespace {

constexpr std::array<std::string_view, 3> kWrappers = {"_orig_mod.", "_fsdp_wrapped_module.",
                                                       "_checkpoint_wrapped_module."};

}  // namespace

std::string WithoutWrappers(std::string_view name) {
  std::string plain(name);
  for (const std::string_view wrapper : kWrappers) {
    for (std::size_t at = plain.find(wrapper); at != std::string::npos; at = plain.find(wrapper, at)) {
      if (at > 0 && plain[at - 1] != '.') {
        ++at;
      } else {
        plain.erase(at, wrapper.size());
      }
    }
  }
  return plain;
}

bool AllStandBelowModule(std::span<const std::string> names) {
  return !names.empty() &&
         std::ranges::all_of(names, [](const std::string& name) { return name.starts_with(kModulePrefix); });
}

std::optional<std::int64_t> AsNumber(std::string_view digits) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  const bool is_one = error == std::errc() && end == digits.data() + digits.size() && number >= 0 && !digits.empty();
  return is_one ? std::optional(number) : std::nullopt;
}

}  // namespace ucp::dcp
