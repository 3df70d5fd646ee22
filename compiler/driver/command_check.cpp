#include <fmt/format.h>

#include <memory>

#include "compiler/diagnostics/render.h"
#include "compiler/driver/catalogue.h"
#include "compiler/driver/commands.h"
#include "compiler/driver/spec_phase.h"
#include "compiler/driver/terminal.h"
#include "compiler/support/error.h"

namespace ucp {
namespace {

struct CheckOptions {
  std::string spec;
  bool json = false;
};

llvm::Error Check(const CheckOptions& options) {
  UCP_ASSIGN_OR_RETURN(std::string path, FindSpec(options.spec));
  UCP_ASSIGN_OR_RETURN(std::unique_ptr<SpecSession> session, OpenSpec(path));
  if (options.json) {
    PrintJson(RenderJson(*session->source, session->sink));
  } else {
    ShowDiagnostics(*session);
  }
  if (session->sink.has_errors()) return SpecErrors(*session);
  if (!options.json) PrintLine(fmt::format("{}: no errors", path));
  return llvm::Error::success();
}

}  // namespace

void AddCheckCommand(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<CheckOptions>();
  CLI::App* command = app.add_subcommand("check", "Say what is wrong in a spec; needs no checkpoint");
  command->add_option("SPEC", options->spec, "A .ucp file, or a name of the catalogue")->required();
  command->add_flag("--json", options->json, "Diagnostics as JSON on standard output");
  command->callback([options, &exit_code] {
    if (llvm::Error error = Check(*options)) exit_code = ShowError("ucpc", std::move(error));
  });
}

}  // namespace ucp
