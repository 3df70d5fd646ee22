// How much a program says, and in which colours: --quiet and --color, which the program and all of its commands take.
// They also count for a command line that is wrong, so they are looked for before it is understood.
#pragma once

#include <CLI/App.hpp>
#include <cstdint>

namespace ucp {

enum class ColourUse : std::uint8_t { kAuto, kAlways, kNever };

struct Speech {
  bool is_quiet = false;  // No notes, warnings, progress, and no reports as text; what was asked for is shown.
  ColourUse colour = ColourUse::kAuto;
};

void AddSpeechOptions(CLI::App& command);

// Returns the settings among the words of a command line; a wrong value is left to the parser.
Speech SpeechOf(int argc, char** argv);

}  // namespace ucp
