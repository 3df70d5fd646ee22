// Completion of command lines in shells. The scripts are a few lines: at each Tab they ask the program itself, which
// answers from the definition of its own options, so no script can be out of date.
#pragma once

#include <CLI/App.hpp>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ucp {

struct Candidate {
  std::string word;
  std::string description;
};

// The paths that may also stand there; the shell lists them.
enum class PathsWanted : std::uint8_t { kNone, kFiles, kFolders };

struct Completions {
  std::vector<Candidate> candidates;  // Those that begin with the last word.
  PathsWanted paths = PathsWanted::kNone;
};

// Returns the completions of a command line. `words` are those behind the program's name; the last one, perhaps empty,
// is completed.
Completions CompleteWords(const CLI::App& app, std::span<const std::string> words);

// If the command line is the question of a script (`ucpc completion words …`), answers it on standard output and
// returns true. One candidate a line, a tab, its description; a line `:files` or `:folders` at the end asks for these.
bool AnswerCompletion(const CLI::App& app, int argc, char** argv);

// Adds the subcommand that prints the script for a shell.
void AddCompletionCommand(CLI::App& app, const std::string& program, int& exit_code);

}  // namespace ucp
