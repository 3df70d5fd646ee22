// ucpc: the compiler. It reads specs and headers of checkpoints, and writes plans; it never reads the data of a tensor.
#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>

#include "compiler/command_line/command_line.h"
#include "compiler/command_line/completion.h"
#include "compiler/command_line/help_command.h"
#include "compiler/driver/commands.h"
#include "compiler/support/version.h"

int main(int argc, char** argv) {
  CLI::App app{
      "ucpc compiles a spec, a source checkpoint and a target into a verified plan.\n\n"
      "  ucpc check gpt.ucp\n"
      "  ucpc test gpt.ucp\n"
      "  ucpc explain gpt.ucp --from checkpoints/ --tensor '*.query_key_value.weight'\n"
      "  ucpc plan gpt.ucp --from checkpoints/ --to universal -o run.plan\n"
      "  ucpc dump run.plan\n\n"
      "Exit codes: 0 done, 1 wrong spec or usage, 2 the source or the system is at fault."};
  app.set_version_flag("-V,--version", std::string("ucpc ") + ucp::kVersion);
  app.require_subcommand(1);
  app.failure_message(CLI::FailureMessage::help);
  int exit_code = 0;
  ucp::AddCheckCommand(app, exit_code);
  ucp::AddExplainErrorCommand(app, exit_code);
  ucp::AddFmtCommand(app, exit_code);
  ucp::AddExplainCommand(app, exit_code);
  ucp::AddInferCommand(app, exit_code);
  ucp::AddTestCommand(app, exit_code);
  ucp::AddPlanCommand(app, exit_code);
  ucp::AddDumpCommand(app, exit_code);
  ucp::AddCompletionCommand(app, "ucpc", exit_code);
  ucp::AddHelpCommand(app, "ucpc", exit_code);
  return ucp::RunCommandLine(app, "ucpc", argc, argv, exit_code);
}
