// `ucprun help convert`: what `ucprun convert --help` prints.
#pragma once

#include <CLI/App.hpp>
#include <string>

namespace ucp {

void AddHelpCommand(CLI::App& app, const std::string& program, int& exit_code);

}  // namespace ucp
