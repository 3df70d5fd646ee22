#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "compiler/command_line/command_line.h"
#include "compiler/command_line/memory_job.h"
#include "compiler/command_line/terminal.h"
#include "compiler/command_line/write_file.h"
#include "compiler/compile/both_sides.h"
#include "compiler/driver/commands.h"
#include "compiler/explain/explain.h"
#include "compiler/explain/explain_affine.h"
#include "compiler/explain/explain_json.h"
#include "compiler/explain/explain_page.h"
#include "compiler/explain/explain_text.h"
#include "compiler/page/page.h"
#include "compiler/support/error.h"

namespace ucp {
namespace {

struct ExplainOptions {
  SourceTexts source;  // Its path is a checkpoint's folder or a strategy.
  std::string target;
  std::string tensor;
  std::string page;  // Where to write it; empty for none.
  bool force = false;
  bool json = false;
  bool affine = false;
};

// Where the page goes, if anywhere.
llvm::Expected<std::optional<OutputPlace>> PlaceOf(const ExplainOptions& options) {
  if (options.page.empty()) return std::nullopt;
  return PlaceOutput({.path = options.page,
                      .what = "the page",
                      .begins = PageBegins(PageKind::kExplain),
                      .force = options.force,
                      .inputs = {options.source.spec, options.source.config}});
}

llvm::Error WritePage(const OutputPlace& place, const std::string& name, const Explanation& explanation) {
  UCP_RETURN_IF_ERROR(WriteOutput(place, ExplainAsPage(explanation)));
  if (place.kind != OutputPlace::Kind::kStandardOutput) PrintReportLine(fmt::format("wrote {}", name));
  return llvm::Error::success();
}

llvm::Error Show(const ExplainOptions& options, const std::optional<OutputPlace>& place, const BothSides& sides) {
  const BoundSource& phase = sides.source;
  bool has_checkpoint = !phase.checkpoint.inventory.format.empty();
  ExplainRequest request{.source = phase.layout,
                         .source_name = sides.source_name,
                         .target = sides.target ? &*sides.target : nullptr,
                         .target_name = sides.target_name,
                         .bound = phase.bound ? &*phase.bound : nullptr,
                         .inventory = has_checkpoint ? &phase.checkpoint.inventory : nullptr,
                         .tensor_glob = options.tensor.empty() ? "*" : options.tensor};
  UCP_ASSIGN_OR_RETURN(Explanation explanation, Explain(request));
  if (place) return WritePage(*place, options.page, explanation);
  if (options.affine) return PrintBy([&](llvm::raw_ostream& out) { ExplainAsAffine(explanation, out); });
  if (options.json) return PrintBy([&](llvm::raw_ostream& out) { ExplainAsJson(explanation, out); });
  ExplainAsText(explanation, options.tensor.empty() ? Detail::kGroups : Detail::kTensors, PrintLine);
  return llvm::Error::success();
}

llvm::Error RunExplain(const ExplainOptions& options) {
  UCP_ASSIGN_OR_RETURN(const std::optional<OutputPlace> place, PlaceOf(options));
  UCP_ASSIGN_OR_RETURN(SourceRequest request, options.source.Request());
  OpenedSpec spec;
  request.opened = &spec;
  llvm::Expected<BothSides> sides = LayOutBothSides(RealFiles(), request, options.target);
  if (sides) {
    const Inventory& inventory = sides->source.checkpoint.inventory;
    for (const std::string& remark : inventory.remarks) ShowMessage("ucpc: note: " + remark);
    for (const std::string& note : DecisionNotes(inventory.preference, inventory.decisions)) {
      ShowMessage("ucpc: note: " + note);
    }
  }
  if (spec != nullptr) ShowDiagnostics(*spec, options.json);
  if (!sides) return sides.takeError();
  return Show(options, place, *sides);
}

}  // namespace

void AddExplainCommand(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<ExplainOptions>();
  CLI::App* command = app.add_subcommand("explain",
                                         "Say what a spec means: every dim's value and where it came from, and for "
                                         "each tensor its pattern, its shape, and who holds which part.");
  command->footer(
      "  ucpc explain gpt.ucp --from checkpoints/ --tensor '*.query_key_value.weight'\n"
      "  ucpc explain gpt.ucp --from deepspeed:tp=4,pp=2 --set layers=2 …\n"
      "  ucpc explain gpt.ucp --from checkpoints/ --to deepspeed:tp=8 --html gpt.html");
  command->add_option("SPEC", options->source.spec, "A .ucp file, or a name of the catalogue");
  command
      ->add_option("--from", options->source.path,
                   "A checkpoint that gives the dims and the degrees, or a strategy that gives the degrees")
      ->transform(MemoryJobs())
      ->type_name("DIR|STRATEGY");
  command->add_option("--to", options->target, "Show the holders of a target beside those of the source")
      ->type_name("STRATEGY");
  command
      ->add_option("--tensor", options->tensor,
                   "Only tensors whose name fits, each by itself and with its files; `*` and `?` stand for anything")
      ->type_name("GLOB");
  AddSourceOptions(*command, options->source);
  CLI::Option* json = command->add_flag("--json", options->json, "The explanation as one JSON value");
  CLI::Option* affine = command->add_flag("--affine", options->affine,
                                          "The layout as the affine maps that DeepSpeed would write for it, as JSON");
  command->add_option("--html", options->page, "Write a page with pictures, to be opened in a browser")
      ->type_name("FILE")
      ->excludes(json)
      ->excludes(affine);
  AddForceOption(*command, "--html", options->force);
  affine->excludes(json);
  command->callback([options, &exit_code] {
    if (llvm::Error error = RunExplain(*options)) exit_code = ShowError("ucpc", std::move(error), options->json);
  });
}

}  // namespace ucp
