// A misspelt option makes the parser complain of whatever it misses then, such as the option that was meant. So the
// words are looked at again, and an option that does not exist is named before all else.
#include "compiler/command_line/usage_message.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>

#include <algorithm>
#include <optional>
#include <vector>

#include "compiler/command_line/command_words.h"
#include "compiler/support/spelling.h"

namespace ucp {
namespace {

// "--to STRATEGY", "CHECKPOINT"
std::string Typed(const CLI::Option& option) {
  const std::vector<std::string> names = NamesOf(option);
  if (names.empty()) return option.get_name();
  return option.get_type_name().empty() ? names.front() : names.front() + " " + option.get_type_name();
}

std::vector<std::string> NamesOfCommands(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : CommandsOf(app)) names.push_back(command->get_name());
  return names;
}

bool HasOption(const CLI::App& app, const std::string& word) {
  const std::string one[] = {word};
  return WalkWords(app, one).unknown_option.empty();
}

std::string UnknownOption(const CLI::App& app, const std::string& command, const std::string& word) {
  const std::vector<const CLI::App*> commands = CommandsOf(app);
  const bool is_of_a_command =
      std::any_of(commands.begin(), commands.end(), [&](const CLI::App* one) { return HasOption(*one, word); });
  if (is_of_a_command) {
    return fmt::format("`{}` is an option of a subcommand, and stands behind it: `{} SUBCOMMAND {}`", word, command,
                       word);
  }
  std::vector<std::string> known;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : NamesOf(*option)) known.push_back(name);
  }
  const std::string name = word.substr(0, word.find('='));
  std::optional<std::string> nearest = NearestWord(name, known);
  return fmt::format("`{}` has no option `{}`{}", command, name,
                     nearest ? fmt::format("; did you mean `{}`?", *nearest) : "");
}

// All that is missing, since whoever forgets one may forget two.
std::string Missing(const CLI::App& app, const std::string& command) {
  std::vector<std::string> missing;
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_required() && option->count() == 0) missing.push_back(Typed(*option));
  }
  return fmt::format("`{}` needs {}", command, fmt::join(missing, " and "));
}

std::string NoPlace(const CLI::App& app, const std::string& command) {
  std::vector<std::string> places;
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_positional()) places.push_back(option->get_name());
  }
  const std::vector<std::string> left = app.remaining();
  return fmt::format("`{}` has no place for `{}`; it takes {}", command, left.empty() ? "" : left.front(),
                     places.empty() ? "options only" : fmt::format("{}", fmt::join(places, " ")));
}

const CLI::Option* GivenTwice(const CLI::App& app) {
  for (const CLI::Option* option : app.get_options()) {
    const auto most = static_cast<std::size_t>(std::max(option->get_items_expected_max(), 0));
    if (most > 0 && option->count() > most) return option;
  }
  return nullptr;
}

// "--rank: takes …" of a check of ours, as a sentence.
std::string OfCheck(std::string text) {
  const std::size_t colon = text.find(": ");
  return colon == std::string::npos ? text : text.erase(colon, 1);
}

std::string Sentence(const CLI::App& app, const std::string& command, const WordPosition& end,
                     const CLI::ParseError& error) {
  if (dynamic_cast<const CLI::RequiredError*>(&error) != nullptr) return Missing(app, command);
  if (dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr) return NoPlace(app, command);
  if (end.awaits_value != nullptr) return fmt::format("a value is missing: {}", Typed(*end.awaits_value));
  if (const CLI::Option* option = GivenTwice(app)) {
    return fmt::format("{} is given {} times, and takes one value", NamesOf(*option).front(), option->count());
  }
  if (dynamic_cast<const CLI::ExcludesError*>(&error) != nullptr) {  // "--verbose excludes --quiet"
    const std::string_view text = error.what();
    const std::string_view first = text.substr(0, text.find(' '));
    return fmt::format("{} and {} contradict each other", first, text.substr(text.rfind(' ') + 1));
  }
  return error.what();
}

}  // namespace

std::string UnknownCommand(const CLI::App& app, const std::string& word) {
  const std::vector<std::string> names = NamesOfCommands(app);
  std::optional<std::string> nearest = NearestWord(word, names);
  std::string rest =
      nearest ? fmt::format("did you mean `{}`?", *nearest) : fmt::format("there are {}", fmt::join(names, ", "));
  return fmt::format("there is no subcommand `{}`; {}", word, rest);
}

UsageMessage ExplainUsage(const CLI::App& app, const std::string& program, const CLI::ParseError& error,
                          std::span<const std::string> words) {
  if (words.empty() || words[0].empty()) {
    return {fmt::format("name what to do: {}", fmt::join(NamesOfCommands(app), ", ")), program};
  }
  const WordPosition end = WalkWords(app, words);
  if (!end.unknown_command.empty()) return {UnknownCommand(app, end.unknown_command), program};
  const bool is_of_program = end.app == &app;
  const std::string command = is_of_program ? program : program + " " + end.app->get_name();
  if (!end.unknown_option.empty()) {
    const std::string whose = end.unknown_to == &app ? program : command;
    return {UnknownOption(*end.unknown_to, whose, end.unknown_option), whose};
  }
  const auto* wrong_value = dynamic_cast<const CLI::ValidationError*>(&error);
  if (wrong_value != nullptr) return {OfCheck(wrong_value->what()), ""};
  return {Sentence(*end.app, command, end, error), command};
}

}  // namespace ucp
