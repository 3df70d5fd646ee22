// `ucprun inspect`: what a checkpoint holds, from its headers.
#include <fmt/format.h>

#include <memory>
#include <optional>

#include "compiler/command_line/command_line.h"
#include "compiler/command_line/memory_job.h"
#include "compiler/command_line/terminal.h"
#include "compiler/command_line/write_file.h"
#include "compiler/page/page.h"
#include "compiler/support/error.h"
#include "compiler/support/units.h"
#include "runtime/comm/launcher.h"
#include "runtime/command_line/watched_ranks.h"
#include "runtime/command_line/work_options.h"
#include "runtime/destination/many_ranks.h"
#include "runtime/driver/commands.h"
#include "runtime/driver/inspect_page.h"
#include "runtime/driver/inspect_report.h"
#include "runtime/driver/objects_report.h"
#include "runtime/inspect/inspection.h"
#include "runtime/inspect/scan_objects.h"
#include "runtime/peer_files/node_local.h"

namespace ucp {
namespace {

struct InspectOptions {
  SourceTexts source;
  std::string tensor = "*";
  NodeLocal node_local;
  std::string page;  // Where to write it; empty for none.
  bool force = false;
  bool all = false;
  bool objects = false;
  bool json = false;
};

void PrintText(const Inspection& inspection, bool grouped) {
  for (const std::string& line : InspectHeader(inspection)) PrintLine(line);
  PrintLine("");
  for (const std::string& line : TensorLines(inspection.tensors, grouped)) {
    if (!PrintLine(line)) return;
  }
}

llvm::Error WritePage(const OutputPlace& place, const std::string& name, const Inspection& inspection) {
  UCP_RETURN_IF_ERROR(WriteOutput(place, InspectionAsPage(inspection)));
  if (place.kind != OutputPlace::Kind::kStandardOutput) PrintReportLine(fmt::format("wrote {}", name));
  return llvm::Error::success();
}

// Where the page goes, if anywhere.
llvm::Expected<std::optional<OutputPlace>> PlaceOf(const InspectOptions& options) {
  if (options.page.empty()) return std::nullopt;
  return PlaceOutput({.path = options.page,
                      .what = "the page",
                      .begins = PageBegins(PageKind::kInspect),
                      .force = options.force,
                      .inputs = {options.source.spec, options.source.config}});
}

llvm::Error Inspect(ReadableFileSystem& files, const InspectOptions& options) {
  UCP_ASSIGN_OR_RETURN(const std::optional<OutputPlace> place, PlaceOf(options));
  OpenedSpec spec;
  llvm::Expected<Inspection> inspection = Inspect(files, options.source, options.tensor, spec);
  if (spec != nullptr) ShowDiagnostics(*spec, options.json);
  if (!inspection) return inspection.takeError();
  if (place) return WritePage(*place, options.page, *inspection);
  if (options.json) {
    return PrintJsonBy([&](llvm::json::OStream& json) { WriteInspection(*inspection, json); });
  }
  PrintText(*inspection, !options.all && options.tensor == "*");
  return llvm::Error::success();
}

// Of any file or folder, whether it is a checkpoint or not.
llvm::Expected<int> InspectObjects(const InspectOptions& options) {
  UCP_ASSIGN_OR_RETURN(const ObjectScan scan, ScanObjects(RealFileSystem(), options.source.path));
  if (options.json) PrintJson(ObjectsJson(scan));
  if (!options.json) {
    for (const std::string& line : ObjectLines(scan)) PrintLine(line);
  }
  return IsSafe(scan) ? 0 : kFoundDifference;
}

// Rank 0 looks at all nodes' files, and the others serve theirs.
int InspectNodes(const InspectOptions& options) {
  llvm::Expected<Communicator*> ranks = WatchedRanks(kRankPatience, false);
  if (!ranks) return ShowError("ucprun", ranks.takeError(), options.json);
  auto inspect = [&]() -> llvm::Error {
    UCP_ASSIGN_OR_RETURN(const std::unique_ptr<FilesOfAllRanks> nodes,
                         NodesOfSource(RealFileSystem(), options.node_local, options.source.path, **ranks));
    return OutcomeOfFirstRank(**ranks,
                              (*ranks)->rank() == 0 ? Inspect(nodes->files(), options) : llvm::Error::success());
  };
  llvm::Error error = inspect();
  return error ? EndWith(std::move(error), options.json) : 0;
}

int RunInspect(const InspectOptions& options) {
  if (options.node_local.source) return InspectNodes(options);
  if (LeavesWorkToFirstRank()) return 0;
  if (options.objects) {
    llvm::Expected<int> code = InspectObjects(options);
    return code ? *code : ShowError("ucprun", code.takeError(), options.json);
  }
  llvm::Error error = Inspect(RealFileSystem(), options);
  return error ? ShowError("ucprun", std::move(error), options.json) : 0;
}

}  // namespace

void AddInspectCommand(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<InspectOptions>();
  CLI::App* command = app.add_subcommand("inspect",
                                         "Show what a checkpoint of any known format holds, from its headers alone: "
                                         "tensors, shapes, dtypes, states, strategy, bytes.");
  command->footer(
      "  ucprun inspect checkpoints/\n"
      "  ucprun inspect out/ --tensor '*.bias' --json\n"
      "  ucprun inspect checkpoints/ --html page.html\n"
      "  ucprun inspect downloaded/ --objects      what loading its pickles would run");
  command
      ->add_option("CHECKPOINT", options->source.path,
                   "A checkpoint's folder, one tag's folder in it, or a file in that")
      ->transform(MemoryJobs())
      ->required();
  command->add_option("--spec", options->source.spec, "Show whole shapes of what tensor parallelism cuts")
      ->type_name("SPEC");
  command->add_option("--tensor", options->tensor, "Only tensors whose name fits; one must")->type_name("GLOB");
  AddSourceOptions(*command, options->source);
  AddNodeLocalOption(*command, options->node_local, NodeLocalUse::kReads);
  command->add_flag("--all", options->all, "A line for each tensor, also of layers that are alike");
  CLI::Option* objects =
      command->add_flag("--objects", options->objects,
                        "Instead, every class and function that the pickles of any file or folder name; exit code 3 if "
                        "loading them would "
                        "run one that no framework writes into checkpoints, or if a pickle cannot be read");
  CLI::Option* page = command
                          ->add_option("--html", options->page,
                                       "Write a page with a map of ranks and layers, to be opened in a browser")
                          ->type_name("FILE")
                          ->excludes(objects);
  AddForceOption(*command, "--html", options->force);
  for (const char* other : {"--spec", "--tensor", "--node-local", "--set", "--config", "--unused", "--prefer-rank"}) {
    objects->excludes(other);
  }
  command->add_flag("--json", options->json, "As JSON")->excludes(page);
  command->callback([options, &exit_code] { exit_code = RunInspect(*options); });
}

}  // namespace ucp
