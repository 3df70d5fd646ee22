#include "compiler/command_line/help_command.h"

#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>

#include <memory>

#include "compiler/command_line/command_words.h"
#include "compiler/command_line/terminal.h"
#include "compiler/command_line/usage_message.h"
#include "compiler/support/error.h"

namespace ucp {

void AddHelpCommand(CLI::App& app, const std::string& program, int& exit_code) {
  auto name = std::make_shared<std::string>();
  CLI::App* command = app.add_subcommand("help", "Print what `--help` of a subcommand prints");
  command->footer("  " + program + " help completion");
  command->add_option("SUBCOMMAND", *name, "Whose; without it, the program's");
  command->callback([&app, name, program, &exit_code] {
    // App::help() of the program would be that of the command that was chosen, which is this one.
    if (name->empty()) return PrintVerbatim(app.get_formatter()->make_help(&app, program, CLI::AppFormatMode::Normal));
    if (const CLI::App* found = FindCommand(app, *name)) return PrintVerbatim(found->help(program));
    exit_code = ShowError(program, Fail(ErrorCode::kUsage, "{}", UnknownCommand(app, *name)));
  });
}

}  // namespace ucp
