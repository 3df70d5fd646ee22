#include "compiler/command_line/speech.h"

#include <fmt/format.h>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>

#include <array>
#include <optional>
#include <string>
#include <string_view>

namespace ucp {
namespace {

constexpr std::array<std::pair<std::string_view, ColourUse>, 3> kUses = {
    {{"auto", ColourUse::kAuto}, {"always", ColourUse::kAlways}, {"never", ColourUse::kNever}}};

std::optional<ColourUse> UseOf(std::string_view word) {
  for (const auto& [name, use] : kUses) {
    if (name == word) return use;
  }
  return std::nullopt;
}

std::string CheckUse(const std::string& word) {
  return UseOf(word) ? "" : fmt::format("takes auto, always or never, not `{}`", word);
}

}  // namespace

void AddSpeechOptions(CLI::App& command) {
  command
      .add_option(
          "--color",
          "Colours for errors, warnings and notes; auto (default): on a terminal, unless NO_COLOR is set or TERM "
          "is dumb")
      ->check(CheckUse)
      ->type_name("auto|always|never");
  CLI::Option* quiet = command.add_flag("--quiet")->description(
      "Of messages and reports, print errors alone; --json prints its object all the same");
  if (CLI::Option* verbose = command.get_option_no_throw("--verbose")) quiet->excludes(verbose);
}

Speech SpeechOf(int argc, char** argv) {
  constexpr std::string_view kColour = "--color";
  Speech speech;
  for (int i = 1; i < argc && argv[i] != std::string_view("--"); ++i) {
    const std::string_view word = argv[i];
    if (word == "--quiet") speech.is_quiet = true;
    if (!word.starts_with(kColour)) continue;
    std::optional<ColourUse> use;
    if (word == kColour && i + 1 < argc) use = UseOf(argv[i + 1]);
    if (word.starts_with("--color=")) use = UseOf(word.substr(kColour.size() + 1));
    if (use) speech.colour = *use;
  }
  return speech;
}

}  // namespace ucp
