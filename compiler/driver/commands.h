// The subcommands of ucpc, one file each. Each adds itself to the command line and, when chosen, sets the exit code.
#pragma once

#include <CLI/App.hpp>

namespace ucp {

void AddCheckCommand(CLI::App& app, int& exit_code);
void AddDumpCommand(CLI::App& app, int& exit_code);
void AddExplainCommand(CLI::App& app, int& exit_code);
void AddExplainErrorCommand(CLI::App& app, int& exit_code);
void AddFmtCommand(CLI::App& app, int& exit_code);
void AddInferCommand(CLI::App& app, int& exit_code);
void AddPlanCommand(CLI::App& app, int& exit_code);
void AddTestCommand(CLI::App& app, int& exit_code);

}  // namespace ucp
