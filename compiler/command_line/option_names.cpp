#include "compiler/command_line/option_names.h"

#include <fmt/format.h>

#include <array>

namespace ucp {
namespace {

constexpr std::array<const char*, kUserOptions> kOptions = {
    "--config",     "--device-memory", "--drop-state",  "--ds-config",   "--force",
    "--from",       "--ignore-crc",    "--io",          "--keep-opaque", "--memory",
    "--node-local", "--parameters",    "--prefer-rank", "--replicas",    "--resume",
    "--same",       "--set",           "--spec",        "--synth",       "--tag",
    "--threads",    "--tied-layer",    "--to",          "--trust-plan",  "--unused"};
static_assert(kOptions.back() != nullptr);

constexpr std::string_view kPlain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.,:=/+@%";

std::string Word(std::string_view value) {
  const bool is_plain = !value.empty() && value.find_first_not_of(kPlain) == std::string_view::npos;
  if (is_plain) return std::string(value);
  std::string word = "'";
  for (const char c : value) word += c == '\'' ? std::string(R"('\'')") : std::string(1, c);
  return word + "'";
}

}  // namespace

std::string CommandLineOption(UserOption option, std::optional<std::string_view> value) {
  const char* name = kOptions[static_cast<std::size_t>(option)];
  return value ? fmt::format("{} {}", name, Word(*value)) : name;
}

}  // namespace ucp
