// The subcommands of ucprun, one file each. Each adds itself to the command line and, when chosen, sets the exit code.
#pragma once

#include <CLI/App.hpp>

namespace ucp {

inline constexpr int kFoundDifference = 3;  // Exit code of those that compare.

void AddConvertCommand(CLI::App& app, int& exit_code);
void AddDiffCommand(CLI::App& app, int& exit_code);
void AddInspectCommand(CLI::App& app, int& exit_code);
void AddVerifyCommand(CLI::App& app, int& exit_code);
void AddBenchCommand(CLI::App& app, int& exit_code);
void AddWriteSavesCommand(CLI::App& app, int& exit_code);
void AddTraceCommand(CLI::App& app, int& exit_code);
void AddSynthCommand(CLI::App& app, int& exit_code);
void AddMemoryCommand(CLI::App& app, int& exit_code);
void AddClusterCommand(CLI::App& app, int& exit_code);
void AddCoordinateCommand(CLI::App& app, int& exit_code);
void AddSimulateCommand(CLI::App& app, int& exit_code);
void AddLoadCommand(CLI::App& app, int& exit_code);
void AddRunCommand(CLI::App& app, int& exit_code);

}  // namespace ucp
