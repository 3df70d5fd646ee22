// A command line word by word, as the parser takes it: a subcommand descends, an option takes the word behind it, and
// everything else is the next positional argument. Completion and messages both ask where a word stands.
#pragma once

#include <CLI/App.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ucp {

// Where a walk along the words has come to.
struct WordPosition {
  const CLI::App* app = nullptr;
  const CLI::Option* awaits_value = nullptr;  // The option that the next word belongs to.
  std::size_t positionals = 0;                // How many have been given.
  std::string unknown_option;                 // The first word that looks like an option and is none; empty if all are.
  const CLI::App* unknown_to = nullptr;       // Whose option it would be.
  std::string unknown_command;                // The word where a subcommand should stand, before any such option.
};
WordPosition WalkWords(const CLI::App& app, std::span<const std::string> words);

// Returns the names of an option as they are typed; none for a positional argument.
std::vector<std::string> NamesOf(const CLI::Option& option);

std::vector<const CLI::App*> CommandsOf(const CLI::App& app);
const CLI::App* FindCommand(const CLI::App& app, const std::string& word);  // Null if there is none.

}  // namespace ucp
