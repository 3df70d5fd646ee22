#include "compiler/command_line/command_line.h"

#include <fmt/format.h>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <CLI/Validators.hpp>

#include <algorithm>
#include <chrono>
#include <new>
#include <string_view>
#include <thread>

#include "compiler/command_line/command_words.h"
#include "compiler/command_line/completion.h"
#include "compiler/command_line/help_page.h"
#include "compiler/command_line/option_names.h"
#include "compiler/command_line/speech.h"
#include "compiler/command_line/terminal.h"
#include "compiler/command_line/usage_message.h"
#include "compiler/command_line/value_checks.h"
#include "compiler/support/error.h"
#include "compiler/support/out_of_memory.h"

namespace ucp {
namespace {

// When one of its ranks has failed.
constexpr std::chrono::seconds kUntilLauncherEndsRanks{2};

// Asked before the command line is understood, so that those who read JSON also get it for a wrong one.
bool WantsJson(int argc, char** argv) {
  char** end = std::find(argv, argv + argc, std::string_view("--"));
  return std::find(argv, end, std::string_view("--json")) != end;
}

// The parser gives an option the next word, whatever that is: in `--to --json` the strategy was forgotten.
void RefuseOptionsAsValues(CLI::App& command) {
  auto is_an_option = [&command](const std::string& word) {
    return std::ranges::any_of(command.get_options(), [&](const CLI::Option* option) {
      const std::vector<std::string> names = NamesOf(*option);
      return std::ranges::find(names, word) != names.end();
    });
  };
  for (CLI::Option* option : command.get_options()) {
    if (option->get_positional() || option->get_items_expected_max() == 0) continue;
    option->check([is_an_option](const std::string& value) {
      return is_an_option(value) ? fmt::format("takes a value, and `{}` is another option", value) : "";
    });
  }
}

// An empty word is a variable that was not set, and never what was meant: `--same ""` would compare nothing.
llvm::Error RefuseEmptyWords(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    if (word.empty()) {
      return Fail(ErrorCode::kUsage, "word {} of the command line is empty{}", i,
                  i == 1 ? "" : fmt::format(": what stands after `{}`", argv[i - 1]));
    }
    if (word.starts_with("--") && word.find('=') == word.size() - 1) {
      return Fail(ErrorCode::kUsage, "`{}` takes a value, and what stands behind its `=` is empty",
                  word.substr(0, word.size() - 1));
    }
  }
  return llvm::Error::success();
}

using Words = std::vector<std::string>;

// --help or --version: what they ask for, unless the command is misspelt whose help it would be.
llvm::Error Answer(const CLI::App& app, const CLI::Success& asked, const Words& words) {
  if (const std::string wrong = WalkWords(app, words).unknown_command; !wrong.empty()) {
    return Fail(ErrorCode::kUsage, "{}", UnknownCommand(app, wrong));
  }
  const bool is_help = asked.get_name() == "CallForHelp";
  PrintVerbatim(is_help ? app.help() : asked.what() + std::string("\n"));
  return FlushOutput();
}

// Throws for a wrong command line.
llvm::Error ParseAndRun(CLI::App& app, int argc, char** argv, const Words& words, bool is_later_rank) {
  try {
    app.parse(argc, argv);
    return FlushOutput();
  } catch (const CLI::Success& asked) {
    return is_later_rank ? llvm::Error::success() : Answer(app, asked, words);
  } catch (const std::bad_alloc&) {
    return OutOfMemory();
  }
}

int Refuse(const CLI::App& app, const std::string& program, const CLI::ParseError& error, const Words& words,
           bool json) {
  const UsageMessage message = ExplainUsage(app, program, error, words);
  const int code = ShowError(program, Fail(ErrorCode::kUsage, "{}", message.sentence), json);
  if (!message.command.empty()) ShowHint(fmt::format("See `{} --help`.", message.command));
  return code;
}

// Of all depths.
void PrepareCommands(CLI::App& app) {
  for (CLI::App* command : app.get_subcommands({})) {
    command->formatter(app.get_formatter());
    AddSpeechOptions(*command);
    RefuseOptionsAsValues(*command);
    PrepareCommands(*command);
  }
}

}  // namespace

int RunCommandLine(CLI::App& app, const std::string& program, int argc, char** argv, const int& exit_code,
                   bool is_later_rank) {
  SpellOptionsBy(CommandLineOption);
  app.name(program);  // And not by which path it was started.
  app.formatter(std::make_shared<HelpPage>());
  AddSpeechOptions(app);
  PrepareCommands(app);
  if (AnswerCompletion(app, argc, argv)) return 0;
  SpeakAs(SpeechOf(argc, argv));
  const bool json = WantsJson(argc, argv);
  const Words words(argv + std::min(argc, 1), argv + argc);
  if (llvm::Error error = RefuseEmptyWords(argc, argv)) {
    if (is_later_rank) std::this_thread::sleep_for(kUntilLauncherEndsRanks);
    return ShowError(program, std::move(error), json);
  }
  try {
    llvm::Error error = ParseAndRun(app, argc, argv, words, is_later_rank);
    return error ? ShowError(program, std::move(error), json) : exit_code;
  } catch (const CLI::ParseError& error) {
    if (is_later_rank) std::this_thread::sleep_for(kUntilLauncherEndsRanks);
    return Refuse(app, program, error, words, json);
  }
}

void AddSpecOptions(CLI::App& command, SourceTexts& options, bool has_checkpoint) {
  command
      .add_option("--set", options.set,
                  "Give a dim or a fact of the spec a value: 4, true, swiglu or [moe,dense]; may be repeated")
      ->type_name("NAME=VALUE")
      ->allow_extra_args(false);
  command
      .add_option("--config", options.config,
                  std::string("A model's config.json, for dims and facts `from config.…`") +
                      (has_checkpoint ? "; default: the one in the checkpoint" : ""))
      ->type_name("FILE");
}

void AddSourceOptions(CLI::App& command, SourceTexts& options) {
  AddSpecOptions(command, options);
  command
      .add_option("--unused", options.unused,
                  "Without a spec: this pipeline stage does not train its copy of the tensor, so do not compare it")
      ->type_name("NAME=last")
      ->allow_extra_args(false);
  command
      .add_option("--prefer-rank", options.prefer_rank,
                  "Where ranks contradict each other in the value of a copy or in a single number, believe this one, "
                  "and report what that decided: tp=1, or dp=0,tp=1")
      ->type_name("AXIS=PLACE");
}

void AddDropStateOption(CLI::App& command, SourceTexts& options) {
  command
      .add_option("--drop-state", options.drop_states,
                  "Leave a state of the optimizer out, such as one that is not one number for each element; may be "
                  "repeated")
      ->type_name("NAME")
      ->allow_extra_args(false);
}

void AddTargetOptions(CLI::App& command, TargetSettings& options) {
  command
      .add_option(
          "--tag", options.tag,
          "The target's tag, which is also the name of its folder (default: the source's, else global_step0, or "
          "release for megatron)")
      ->check(FolderName())
      ->type_name("NAME");
  command
      .add_option("--keep-opaque", options.keep_opaque,
                  "Keep objects of this class, or made by this function, which are left out otherwise, since loading "
                  "them runs code that no framework writes into checkpoints; may be repeated")
      ->type_name("MODULE.CLASS")
      ->allow_extra_args(false);
  command
      .add_option("--ds-config", options.job_config,
                  "For `deepspeed`: the JSON configuration of the job that will load the target; what the strategy "
                  "leaves open is taken from it (default: from the source's)")
      ->type_name("FILE");
}

void AddReplicasOption(CLI::App& command, ReplicaPolicy& replicas) {
  const auto policy = [](std::string& text) -> std::string {
    if (text != "compare" && text != "trust") return fmt::format("takes compare or trust, not `{}`", text);
    text = std::to_string(static_cast<int>(text == "compare" ? ReplicaPolicy::kCompare : ReplicaPolicy::kTrust));
    return "";
  };
  command
      .add_option("--replicas", replicas,
                  "compare (default): read every copy once, and refuse copies that differ; trust: read one copy only")
      ->transform(CLI::Validator(policy, ""))
      ->type_name("compare|trust");
}

}  // namespace ucp
