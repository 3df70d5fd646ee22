#include <fmt/format.h>

#include <charconv>
#include <memory>

#include "compiler/driver/catalogue.h"
#include "compiler/driver/command_line.h"
#include "compiler/driver/commands.h"
#include "compiler/driver/config_file.h"
#include "compiler/driver/explain.h"
#include "compiler/driver/terminal.h"
#include "compiler/support/error.h"

namespace ucp {
namespace {

struct ExplainOptions {
  SourceOptions source;
  std::string mesh;
  std::string tensor = "*";
};

// "pp=2,tp=4"
llvm::Expected<Mesh> ParseMesh(const std::string& text) {
  Mesh mesh;
  for (std::size_t at = 0; at < text.size();) {
    std::size_t comma = std::min(text.find(',', at), text.size());
    std::string_view part = std::string_view(text).substr(at, comma - at);
    std::size_t equals = part.find('=');
    std::int64_t size = 0;
    if (equals != std::string_view::npos) std::from_chars(part.data() + equals + 1, part.data() + part.size(), size);
    std::string axis(part.substr(0, equals));
    if (size < 1 || size > 1'000'000 || !IsKnownAxis(axis)) {
      return Fail(ErrorCode::kUsage, "--mesh takes axes and sizes such as pp=2,tp=4, not `{}`", std::string(part));
    }
    mesh.axes.push_back({axis, size});
    at = comma + 1;
  }
  return mesh;
}

llvm::Error ExplainCheckpoint(const ExplainOptions& options) {
  UCP_ASSIGN_OR_RETURN(SourceRequest request, options.source.Request());
  SourcePhase phase;
  llvm::Error error = DescribeAndBind(RealFileSystem(), request, phase);
  if (phase.spec != nullptr) ShowDiagnostics(*phase.spec);
  if (error) return error;
  return Explain({phase.layout, phase.bound ? &*phase.bound : nullptr, &phase.checkpoint.inventory, options.tensor},
                 PrintLine);
}

llvm::Error ExplainSpec(const ExplainOptions& options) {
  UCP_ASSIGN_OR_RETURN(SourceRequest request, options.source.Request());
  UCP_ASSIGN_OR_RETURN(Mesh mesh, ParseMesh(options.mesh));
  UCP_ASSIGN_OR_RETURN(std::string path, FindSpec(request.spec));
  UCP_ASSIGN_OR_RETURN(std::unique_ptr<SpecSession> session, OpenSpec(path));
  std::optional<BoundSpec> bound;
  std::optional<Layout> layout;
  Inventory nothing;
  if (!request.config.empty()) UCP_RETURN_IF_ERROR(AddConfig(RealFileSystem(), request.config, nothing.facts));
  if (session->checked) bound = BindSpec(*session->checked, nothing, request.set, session->sink);
  if (bound) layout = LowerToMesh(*bound, mesh, session->sink);
  ShowDiagnostics(*session);
  if (!layout) return SpecErrors(*session);
  UCP_RETURN_IF_ERROR(VerifyLayout(*layout));
  return Explain({*layout, &*bound, nullptr, options.tensor}, PrintLine);
}

llvm::Error RunExplain(const ExplainOptions& options) {
  if (!options.source.path.empty()) return ExplainCheckpoint(options);
  if (options.source.spec.empty()) return Fail(ErrorCode::kUsage, "name a spec, or a checkpoint with --from");
  return ExplainSpec(options);
}

}  // namespace

void AddExplainCommand(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<ExplainOptions>();
  CLI::App* command = app.add_subcommand(
      "explain",
      "Say what a spec means: every dim's value and where it came from, and for each tensor who holds which part.");
  command->footer(
      "  ucpc explain gpt.ucp --from checkpoints/ --tensor '*.query_key_value.weight'\n"
      "  ucpc explain gpt.ucp --mesh tp=4,pp=2 --set layers=2 --set hidden=64 …");
  command->add_option("SPEC", options->source.spec, "A .ucp file, or a name of the catalogue");
  command->add_option("--from", options->source.path, "A checkpoint that gives the dims and the degrees")
      ->type_name("DIR");
  command->add_option("--mesh", options->mesh, "Degrees, where there is no checkpoint")->type_name("tp=4,pp=2");
  command->add_option("--tensor", options->tensor, "Only tensors whose name fits; `*` and `?` stand for anything")
      ->type_name("GLOB");
  AddSourceOptions(*command, options->source);
  command->callback([options, &exit_code] {
    if (llvm::Error error = RunExplain(*options)) exit_code = ShowError("ucpc", std::move(error));
  });
}

}  // namespace ucp
