#include "compiler/support/user_option.h"

#include <fmt/format.h>

#include <array>

namespace ucp {
namespace {

constexpr std::array<const char*, kUserOptions> kNames = {
    "config",     "device_memory", "drop_states", "ds_config",   "force",
    "from",       "ignore_crc",    "io",          "keep_opaque", "memory",
    "node_local", "parameters",    "prefer_rank", "replicas",    "resume",
    "same",       "sets",          "spec",        "synth",       "tag",
    "threads",    "tied_layer",    "to",          "trust_plan",  "unused"};
static_assert(kNames.back() != nullptr);

std::string PlainName(UserOption option, std::optional<std::string_view> value) {
  const char* name = kNames[static_cast<std::size_t>(option)];
  return value ? fmt::format("{} {}", name, *value) : name;
}

OptionSpelling spelling_of_process = PlainName;

}  // namespace

std::string OptionName(UserOption option) { return spelling_of_process(option, std::nullopt); }

std::string OptionName(UserOption option, std::string_view value) { return spelling_of_process(option, value); }

void SpellOptionsBy(OptionSpelling spelling) { spelling_of_process = spelling; }

}  // namespace ucp
