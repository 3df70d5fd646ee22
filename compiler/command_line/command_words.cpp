#include "compiler/command_line/command_words.h"

#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>

#include <algorithm>

namespace ucp {
namespace {

bool TakesValue(const CLI::Option& option) { return option.get_items_expected_max() > 0; }

// `--to=universal` and `-ofile` have the value in the same word.
bool Names(std::string_view word, const std::string& name) {
  if (!word.starts_with(name)) return false;
  return word.size() == name.size() || !name.starts_with("--") || word[name.size()] == '=';
}

const CLI::Option* FindOption(const CLI::App& app, std::string_view word) {
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : NamesOf(*option)) {
      if (Names(word, name)) return option;
    }
  }
  return nullptr;
}

// A single dash is standard input, and a number may be negative.
bool LooksLikeOption(const std::string& word) {
  return word.size() > 1 && word[0] == '-' && (word[1] < '0' || word[1] > '9');
}

}  // namespace

std::vector<std::string> NamesOf(const CLI::Option& option) {
  std::vector<std::string> names;
  for (const std::string& name : option.get_lnames()) names.push_back("--" + name);
  for (const std::string& name : option.get_snames()) names.push_back("-" + name);
  return names;
}

std::vector<const CLI::App*> CommandsOf(const CLI::App& app) {
  return app.get_subcommands([](const CLI::App* command) { return !command->get_group().empty(); });
}

const CLI::App* FindCommand(const CLI::App& app, const std::string& word) {
  for (const CLI::App* command : CommandsOf(app)) {
    if (command->get_name() == word) return command;
  }
  return nullptr;
}

WordPosition WalkWords(const CLI::App& app, std::span<const std::string> words) {
  WordPosition position{.app = &app, .unknown_option = {}, .unknown_command = {}};
  bool are_options_over = false;
  for (const std::string& word : words) {
    if (position.awaits_value != nullptr) {
      position.awaits_value = nullptr;
    } else if (word == "--" && !are_options_over) {
      are_options_over = true;
    } else if (LooksLikeOption(word) && !are_options_over) {
      const CLI::Option* option = FindOption(*position.app, word);
      if (option == nullptr && position.unknown_option.empty()) {
        position.unknown_option = word;
        position.unknown_to = position.app;
      }
      const auto names = option == nullptr ? std::vector<std::string>{} : NamesOf(*option);
      const bool is_alone = std::find(names.begin(), names.end(), word) != names.end();
      if (is_alone && TakesValue(*option)) position.awaits_value = option;
    } else if (const CLI::App* command = FindCommand(*position.app, word)) {
      position.app = command;
      position.positionals = 0;
    } else {
      const bool should_be_command = !CommandsOf(*position.app).empty() && position.unknown_option.empty();
      if (should_be_command && position.unknown_command.empty()) position.unknown_command = word;
      ++position.positionals;
    }
  }
  return position;
}

}  // namespace ucp
