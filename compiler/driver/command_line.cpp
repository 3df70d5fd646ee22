#include "compiler/driver/command_line.h"

#include <fmt/format.h>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <CLI/Validators.hpp>

#include <cstdio>
#include <map>

#include "compiler/driver/terminal.h"
#include "compiler/support/error.h"
#include "compiler/support/spelling.h"

namespace ucp {
namespace {

std::string NearestCommand(const CLI::App& app, const std::string& word) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands({})) names.push_back(command->get_name());
  std::optional<std::string> nearest = NearestWord(word, names);
  return nearest ? fmt::format("; did you mean `{}`?", *nearest) : "";
}

}  // namespace

int RunCommandLine(CLI::App& app, const std::string& program, int argc, char** argv, const int& exit_code) {
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& success) {  // --help and --version
    return app.exit(success);
  } catch (const CLI::ParseError& error) {
    std::string hint = argc > 1 && app.get_subcommands().empty() ? NearestCommand(app, argv[1]) : "";
    std::fputs(fmt::format("{}: error: {}{}\nSee `{} --help`.\n", program, error.what(), hint, program).c_str(),
               stderr);
    return CLI::ExitCodes::Success == static_cast<CLI::ExitCodes>(error.get_exit_code()) ? 0 : 1;
  }
  if (llvm::Error error = FlushOutput()) return ShowError(program, std::move(error));
  return exit_code;
}

llvm::Expected<SourceRequest> SourceOptions::Request() const {
  SourceRequest request{path, spec, {}, unused};
  UCP_ASSIGN_OR_RETURN(request.set, ParseSettings(set));
  return request;
}

void AddSourceOptions(CLI::App& command, SourceOptions& options) {
  command.add_option("--set", options.set, "Give a dim of the spec a value; may be repeated")->type_name("DIM=NUMBER");
  command
      .add_option(
          "--unused", options.unused,
          "Without a spec: a tensor's copy on this pipeline stage is carried and not trained, so do not compare it")
      ->type_name("NAME=last");
}

void AddReplicasOption(CLI::App& command, ReplicaPolicy& replicas) {
  static const std::map<std::string, ReplicaPolicy> kPolicies = {{"compare", ReplicaPolicy::kCompare},
                                                                 {"trust", ReplicaPolicy::kTrust}};
  command
      .add_option("--replicas", replicas,
                  "compare (default): read every copy once, and refuse copies that differ; trust: read one copy only")
      ->transform(CLI::CheckedTransformer(kPolicies).description(""))
      ->type_name("compare|trust");
}

}  // namespace ucp
