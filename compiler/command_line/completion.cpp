// The choices for the last word follow from where the words before it end.
#include "compiler/command_line/completion.h"

#include <fmt/format.h>
#include <llvm/ADT/StringRef.h>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>

#include <algorithm>
#include <memory>

#include "compiler/catalogue/catalogue.h"
#include "compiler/command_line/command_words.h"
#include "compiler/command_line/completion_scripts.h"
#include "compiler/command_line/terminal.h"
#include "compiler/diagnostics/diagnostics.h"
#include "compiler/formats/format.h"
#include "compiler/support/error.h"

namespace ucp {
namespace {

std::string FirstLine(const std::string& text) { return text.substr(0, text.find('\n')); }

void AddCommands(const CLI::App& app, Completions& completions) {
  for (const CLI::App* command : CommandsOf(app)) {
    completions.candidates.push_back({command->get_name(), FirstLine(command->get_description())});
  }
}

// The name of a value says what it is; a word in small letters stands for itself.
void AddValues(const std::string& name, Completions& values) {
  if (name == "SPEC") {
    for (const std::string& spec : CatalogueNames()) values.candidates.push_back({spec, "catalogue"});
    values.paths = PathsWanted::kFiles;
  } else if (name == "KIND") {
    for (const DiagnosticKindInfo& info : AllDiagnosticKinds()) {
      values.candidates.push_back({std::string(info.name), std::string(info.summary)});
    }
  } else if (name == "STRATEGY") {
    for (const auto& format : AllFormats()) {
      values.candidates.push_back({std::string(format->name()), "format"});
    }
  } else if (name == "FILE" || name == "PLAN") {
    values.paths = PathsWanted::kFiles;
  } else if (name == "CHECKPOINT" || name == "DIR" || name == "OUT") {
    values.paths = PathsWanted::kFolders;
  } else if (llvm::StringRef(name).lower() == name) {
    values.candidates.push_back({name, ""});
  }
}

// Of the value of an option, or of an argument.
Completions ValuesOf(const CLI::Option& option) {
  std::string names = option.get_type_name();
  if (option.get_positional() && names.find('|') == std::string::npos) names = option.get_name();
  llvm::SmallVector<llvm::StringRef> alternatives;
  llvm::StringRef(names).split(alternatives, '|');
  Completions values;
  for (llvm::StringRef name : alternatives) AddValues(name.str(), values);
  return values;
}

Completions OptionsOf(const CLI::App& app) {
  Completions completions;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : NamesOf(*option)) {
      if (name.starts_with("--")) completions.candidates.push_back({name, FirstLine(option->get_description())});
    }
  }
  return completions;
}

// Subcommands, or the values of the next positional argument; of several (SPEC…), the last one is never used up.
Completions ArgumentsOf(const WordPosition& position) {
  Completions completions;
  AddCommands(*position.app, completions);
  if (!completions.candidates.empty()) return completions;
  std::size_t index = 0;
  for (const CLI::Option* option : position.app->get_options()) {
    if (!option->get_positional()) continue;
    bool repeats = option->get_items_expected_max() > 1;
    if (index++ != position.positionals && !repeats) continue;
    if (option->get_name() != "SUBCOMMAND") return ValuesOf(*option);
    AddCommands(*position.app->get_parent(), completions);
    return completions;
  }
  return completions;
}

}  // namespace

Completions CompleteWords(const CLI::App& app, std::span<const std::string> words) {
  std::string last = words.empty() ? "" : words.back();
  WordPosition position = WalkWords(app, words.subspan(0, words.empty() ? 0 : words.size() - 1));
  Completions completions;
  if (position.awaits_value != nullptr) {
    completions = ValuesOf(*position.awaits_value);
  } else if (last.starts_with('-')) {
    completions = OptionsOf(*position.app);
  } else {
    completions = ArgumentsOf(position);
  }
  std::erase_if(completions.candidates, [&](const Candidate& candidate) { return !candidate.word.starts_with(last); });
  return completions;
}

bool AnswerCompletion(const CLI::App& app, int argc, char** argv) {
  if (argc < 3 || std::string_view(argv[1]) != "completion" || std::string_view(argv[2]) != "words") return false;
  std::vector<std::string> words(argv + 3, argv + argc);
  Completions completions = CompleteWords(app, words);
  for (const Candidate& candidate : completions.candidates) {
    PrintVerbatim(candidate.word + "\t" + candidate.description + "\n");
  }
  if (completions.paths == PathsWanted::kFiles) PrintVerbatim(":files\t\n");
  if (completions.paths == PathsWanted::kFolders) PrintVerbatim(":folders\t\n");
  return true;
}

void AddCompletionCommand(CLI::App& app, const std::string& program, int& exit_code) {
  auto shell = std::make_shared<std::string>();
  CLI::App* command = app.add_subcommand("completion", "Print a script that completes command lines in a shell");
  command->footer(
      fmt::format("  bash:  source <({0} completion bash)    in ~/.bashrc\n"
                  "  zsh:   source <({0} completion zsh)     in ~/.zshrc, behind compinit\n"
                  "  fish:  {0} completion fish | source     in ~/.config/fish/config.fish",
                  program));
  command->add_option("SHELL", *shell, "The shell")->type_name("bash|zsh|fish")->required();
  command->callback([shell, program, &exit_code] {
    std::string script = CompletionScript(*shell, program);
    if (!script.empty()) return PrintVerbatim(script);
    exit_code = ShowError(program,
                          Fail(ErrorCode::kUsage, "there is no script for `{}`; there are bash, zsh and fish", *shell));
  });
}

}  // namespace ucp
