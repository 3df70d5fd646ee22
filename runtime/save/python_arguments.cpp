#include "runtime/save/python_arguments.h"

#include <fmt/format.h>

#include <array>

namespace ucp {
namespace {

constexpr std::array<const char*, kUserOptions> kArguments = {
    "config",     "device_memory", "drop_states", "ds_config",   "force",
    "source",     "ignore_crc",    "io",          "keep_opaque", "memory",
    "node_local", "parameters",    "prefer_rank", "verify",      "resume",
    "same",       "sets",          "spec",        "synth",       "tag",
    "threads",    "tied_layer",    "to",          "trust_plan",  "unused"};
static_assert(kArguments.back() != nullptr);

}  // namespace

std::string PythonArgument(UserOption option, std::optional<std::string_view> value) {
  const char* name = kArguments[static_cast<std::size_t>(option)];
  if (option == UserOption::kReplicas) return fmt::format("{}={}", name, value == "trust" ? "False" : "True");
  if (option == UserOption::kForce || option == UserOption::kResume || option == UserOption::kNodeLocal) {
    return fmt::format("{}=True", name);
  }
  return value ? fmt::format("{}=\"{}\"", name, *value) : fmt::format("{}=", name);
}

}  // namespace ucp
