#include <fmt/format.h>

#include <memory>

#include "compiler/catalogue/catalogue.h"
#include "compiler/command_line/command_line.h"
#include "compiler/command_line/memory_job.h"
#include "compiler/command_line/terminal.h"
#include "compiler/describe/bound_source.h"
#include "compiler/diagnostics/render.h"
#include "compiler/driver/commands.h"
#include "compiler/support/error.h"

namespace ucp {
namespace {

struct CheckOptions {
  SourceTexts source;
  bool json = false;
};

// Shows the diagnostics of a spec; its errors are for ShowError() to print as JSON.
void Show(const SpecSession& session, bool json, bool failed) {
  if (json && !failed) {
    PrintJson(RenderJson(*session.source, session.sink));
  } else {
    ShowDiagnostics(session, json);
  }
}

llvm::Error CheckAlone(const CheckOptions& options) {
  UCP_ASSIGN_OR_RETURN(std::string path, FindSpec(options.source.spec));
  UCP_ASSIGN_OR_RETURN(OpenedSpec session, OpenSpec(path));
  Show(*session, options.json, session->sink.has_errors());
  if (session->sink.has_errors()) return SpecErrors(*session);
  if (!options.json) PrintReportLine(fmt::format("{}: no errors", path));
  return llvm::Error::success();
}

llvm::Error CheckOnCheckpoint(const CheckOptions& options) {
  UCP_ASSIGN_OR_RETURN(SourceRequest request, options.source.Request());
  OpenedSpec spec;
  request.opened = &spec;
  request.warns_of_unmatched = true;
  llvm::Error error = DescribeAndBind(RealFiles(), request).takeError();
  if (spec == nullptr) return error;
  Show(*spec, options.json, static_cast<bool>(error));
  if (error) return error;
  if (!options.json) PrintReportLine(fmt::format("{}: no errors on {}", spec->source->path(), request.path));
  return llvm::Error::success();
}

llvm::Error Check(const CheckOptions& options) {
  if (!options.source.path.empty()) return CheckOnCheckpoint(options);
  if (!options.source.set.empty() || !options.source.config.empty()) {
    return Fail(ErrorCode::kUsage, "--set and --config give values on a checkpoint; name one with --from");
  }
  return CheckAlone(options);
}

}  // namespace

void AddCheckCommand(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<CheckOptions>();
  CLI::App* command = app.add_subcommand("check", "Say what is wrong in a spec, alone or on a checkpoint");
  command->footer(
      "  ucpc check gpt.ucp\n"
      "  ucpc check gpt.ucp --from checkpoints/");
  command->add_option("SPEC", options->source.spec, "A .ucp file, or a name of the catalogue")->required();
  command
      ->add_option("--from", options->source.path, "Check it on this checkpoint too, and warn of what matches nothing")
      ->transform(MemoryJobs())
      ->type_name("DIR");
  AddSpecOptions(*command, options->source);
  command->add_flag("--json", options->json, "Diagnostics, and what else is wrong, as JSON on standard output");
  command->callback([options, &exit_code] {
    if (llvm::Error error = Check(*options)) exit_code = ShowError("ucpc", std::move(error), options->json);
  });
}

}  // namespace ucp
