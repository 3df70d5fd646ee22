// `ucprun help convert`: prints the same as `ucprun convert --help`.
#pragma once

#include <CLI/App.hpp>
#include <string>

namespace ucp {

void AddHelpCommand(CLI::App& app, const std::string& program, int& exit_code);

}  // namespace ucp
