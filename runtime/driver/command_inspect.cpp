// `ucprun inspect`: what a checkpoint holds, from its headers.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <memory>

#include "compiler/command_line/command_line.h"
#include "compiler/command_line/terminal.h"
#include "compiler/plan/plan_report.h"
#include "compiler/support/error.h"
#include "compiler/support/units.h"
#include "runtime/comm/launcher.h"
#include "runtime/convert/many_ranks.h"
#include "runtime/convert/node_local.h"
#include "runtime/driver/commands.h"
#include "runtime/inspect/inspection.h"

namespace ucp {
namespace {

struct InspectOptions {
  SourceOptions source;
  std::string tensor = "*";
  NodeLocal node_local;
  bool json = false;
};

std::string StatesText(const InspectedTensor& row) {
  std::string text;
  for (const auto& [state, dtype] : row.states) text += fmt::format("{}{}:{}", text.empty() ? "" : " ", state, dtype);
  return text;
}

std::string ShapeText(const InspectedTensor& row) {
  std::string shape = fmt::format("[{}]", fmt::join(row.shape, ", "));
  return row.tensor_parallel_ranks == 1 ? shape
                                        : fmt::format("{} on each of {} tp ranks", shape, row.tensor_parallel_ranks);
}

void PrintText(const Inventory& inventory, const TrainingState& training, const std::vector<InspectedTensor>& rows) {
  const Storage& storage = inventory.storage;
  PrintLine(fmt::format("format    {}", inventory.format));
  PrintLine(fmt::format("folder    {}", inventory.root));
  if (!inventory.mesh.axes.empty()) PrintLine(fmt::format("strategy  {}", ToString(inventory.mesh)));
  if (std::optional<double> step = StepOf(training)) PrintLine(fmt::format("step      {:.0f}", *step));
  PrintLine(fmt::format("files     {}, {}", WithThousands(storage.files.size()), HumanBytes(FileBytes(storage))));
  for (const std::string& remark : inventory.remarks) PrintLine("note      " + remark);
  for (const std::string& note : DecisionNotes(inventory.preference, inventory.decisions)) {
    PrintLine("note      " + note);
  }
  PrintLine("");
  for (const InspectedTensor& row : rows) {
    bool read = PrintLine(fmt::format("{:<9} {}  {}  {}  {}", KindName(row.kind), row.name, ShapeText(row),
                                      StatesText(row), HumanBytes(row.bytes)));
    if (!read) return;
  }
  PrintLine("");
  PrintLine(Counted(rows.size(), "tensor"));
}

llvm::Error Inspect(FileSystem& files, const InspectOptions& options) {
  Inspection inspection;
  llvm::Error error = Inspect(files, options.source, options.tensor, inspection);
  if (inspection.source.spec != nullptr) ShowDiagnostics(*inspection.source.spec, options.json);
  if (error) return error;
  if (options.json) {
    return PrintJsonBy([&](llvm::json::OStream& json) { WriteInspection(inspection, json); });
  }
  const Checkpoint& checkpoint = inspection.source.checkpoint;
  PrintText(checkpoint.inventory, checkpoint.training, inspection.tensors);
  return llvm::Error::success();
}

// Rank 0 looks at all nodes' files, and the others serve theirs.
int InspectNodes(const InspectOptions& options) {
  llvm::Expected<Communicator*> ranks = RanksOfThisRun();
  if (!ranks) return ShowError("ucprun", ranks.takeError(), options.json);
  auto inspect = [&]() -> llvm::Error {
    UCP_ASSIGN_OR_RETURN(
        const std::unique_ptr<FilesOfAllRanks> nodes,
        NodesOfSource(RealFileSystem(), options.node_local, NodeLocalUse::kReads, options.source.path, **ranks));
    return OutcomeOfFirstRank(**ranks,
                              (*ranks)->rank() == 0 ? Inspect(nodes->files(), options) : llvm::Error::success());
  };
  llvm::Error error = inspect();
  return error ? EndWith(std::move(error), options.json) : 0;
}

}  // namespace

void AddInspectCommand(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<InspectOptions>();
  CLI::App* command = app.add_subcommand("inspect",
                                         "Show what a checkpoint of any known format holds, from its headers alone: "
                                         "tensors, shapes, dtypes, states, strategy, bytes.");
  command->footer(
      "  ucprun inspect checkpoints/\n"
      "  ucprun inspect out/ --tensor '*.bias' --json");
  command
      ->add_option("CHECKPOINT", options->source.path,
                   "A checkpoint's folder, one tag's folder in it, or a file in that")
      ->required();
  command->add_option("--spec", options->source.spec, "Show whole shapes of what tensor parallelism cuts")
      ->type_name("SPEC");
  command->add_option("--tensor", options->tensor, "Only tensors whose name fits; one must")->type_name("GLOB");
  AddSourceOptions(*command, options->source);
  AddNodeLocalOption(*command, options->node_local, NodeLocalUse::kReads);
  command->add_flag("--json", options->json, "As JSON");
  command->callback([options, &exit_code] {
    if (!options->node_local.words.empty()) {
      exit_code = InspectNodes(*options);
      return;
    }
    if (LeavesWorkToFirstRank()) return;
    if (llvm::Error error = Inspect(RealFileSystem(), *options))
      exit_code = ShowError("ucprun", std::move(error), options->json);
  });
}

}  // namespace ucp
