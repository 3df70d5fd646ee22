// The subcommands of `ucprun cluster` that have a file of their own, and what they and `ucprun coordinate` share.
#pragma once

#include <llvm/Support/Error.h>
#include <CLI/App.hpp>

#include <string>

namespace ucp {

// Fails (kUnsupported), naming the option, in a program without OpenSSL.
[[nodiscard]] llvm::Error CheckHasTls(const std::string& option);

void AddClusterNodesCommands(CLI::App& cluster, int& exit_code);

}  // namespace ucp
