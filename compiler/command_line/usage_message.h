// The fault of a command line, in one sentence; the library's own would often name something else.
#pragma once

#include <CLI/App.hpp>
#include <span>
#include <string>

namespace ucp {

struct UsageMessage {
  std::string sentence;
  std::string command;  // Whose `--help` says more, "ucprun load"; empty where the sentence says all.
};

// Explains the words behind the program's name, which `app` refused with `error`.
UsageMessage ExplainUsage(const CLI::App& app, const std::string& program, const CLI::ParseError& error,
                          std::span<const std::string> words);

// "there is no subcommand `conver`; did you mean `convert`?"
std::string UnknownCommand(const CLI::App& app, const std::string& word);

}  // namespace ucp
