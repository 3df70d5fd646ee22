// `ucprun inspect`: what a checkpoint holds, from its headers. Without a spec, a tensor that tensor parallelism cuts is
// shown as its ranks hold it.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <llvm/Support/GlobPattern.h>

#include <map>
#include <memory>

#include "compiler/driver/command_line.h"
#include "compiler/driver/plan_report.h"
#include "compiler/driver/source_phase.h"
#include "compiler/driver/terminal.h"
#include "compiler/support/error.h"
#include "compiler/support/units.h"
#include "runtime/comm/launcher.h"
#include "runtime/driver/commands.h"

namespace ucp {
namespace {

struct InspectOptions {
  SourceOptions source;
  std::string tensor = "*";
  bool json = false;
};

// One tensor over all its shards.
struct Row {
  std::string name;
  TensorKind kind = TensorKind::kParameter;
  std::vector<std::int64_t> shape;
  std::uint64_t tensor_parallel_ranks = 1;    // How many ranks hold a shard of this shape.
  std::map<std::string, std::string> states;  // Name to dtype.
  std::uint64_t bytes = 0;
};

const char* KindName(TensorKind kind) {
  switch (kind) {
    case TensorKind::kParameter:
      return "parameter";
    case TensorKind::kFrozen:
      return "frozen";
    case TensorKind::kBuffer:
      return "buffer";
  }
  return "";
}

std::uint64_t ShardBytes(const Storage& storage, const Shard& shard) {
  std::uint64_t elements = 1;
  for (std::int64_t length : shard.shape) elements *= static_cast<std::uint64_t>(length);
  std::uint64_t bytes = 0;
  for (const StateBuffer& entry : storage.buffer_set(shard.states)) {
    bytes += elements * static_cast<std::uint64_t>(ItemBytes(storage.buffer(entry.buffer).dtype));
  }
  return bytes;
}

std::vector<Row> Rows(const Storage& storage) {
  std::map<std::string, Row> rows;
  for (const Shard& shard : storage.shards) {
    auto [entry, added] = rows.try_emplace(shard.tensor);
    Row& row = entry->second;
    if (added) {
      row.name = shard.tensor;
      row.kind = shard.kind;
      row.shape = shard.shape;
    }
    row.tensor_parallel_ranks =
        std::max(row.tensor_parallel_ranks, static_cast<std::uint64_t>(shard.coordinate.At("tp") + 1));
    for (const StateBuffer& state : storage.buffer_set(shard.states)) {
      row.states[state.state] = Name(storage.buffer(state.buffer).dtype);
    }
    row.bytes += ShardBytes(storage, shard);
  }
  std::vector<Row> sorted;
  for (auto& [name, row] : rows) sorted.push_back(std::move(row));
  return sorted;
}

std::string StatesText(const Row& row) {
  std::string text;
  for (const auto& [state, dtype] : row.states) text += fmt::format("{}{}:{}", text.empty() ? "" : " ", state, dtype);
  return text;
}

std::string ShapeText(const Row& row) {
  std::string shape = fmt::format("[{}]", fmt::join(row.shape, ", "));
  return row.tensor_parallel_ranks == 1 ? shape
                                        : fmt::format("{} on each of {} tp ranks", shape, row.tensor_parallel_ranks);
}

// With a spec, the whole shape takes the place of the local one.
llvm::Error UseWholeShapes(const Layout& layout, std::vector<Row>& rows) {
  for (Row& row : rows) {
    const TensorLayout* tensor = layout.Find(row.name);
    if (tensor == nullptr) continue;
    UCP_ASSIGN_OR_RETURN(row.shape, LogicalShape(*tensor));
    row.tensor_parallel_ranks = 1;
  }
  return llvm::Error::success();
}

std::uint64_t FileBytes(const Storage& storage) {
  std::uint64_t bytes = 0;
  for (const StoredFile& file : storage.files) bytes += file.bytes;
  return bytes;
}

void PrintText(const Inventory& inventory, const TrainingState& training, const std::vector<Row>& rows) {
  const Storage& storage = inventory.storage;
  PrintLine(fmt::format("format    {}", inventory.format));
  PrintLine(fmt::format("folder    {}", inventory.root));
  if (!inventory.mesh.axes.empty()) PrintLine(fmt::format("strategy  {}", ToString(inventory.mesh)));
  if (!training.groups.empty() && training.groups.front().step != nullptr) {
    if (std::optional<double> step = StepNumber(training, *training.groups.front().step)) {
      PrintLine(fmt::format("step      {:.0f}", *step));
    }
  }
  PrintLine(fmt::format("files     {}, {}", WithThousands(storage.files.size()), HumanBytes(FileBytes(storage))));
  for (const std::string& remark : inventory.remarks) PrintLine("note      " + remark);
  for (const std::string& note : DecisionNotes(inventory.preference, inventory.decisions)) {
    PrintLine("note      " + note);
  }
  PrintLine("");
  for (const Row& row : rows) {
    bool read = PrintLine(fmt::format("{:<9} {}  {}  {}  {}", KindName(row.kind), row.name, ShapeText(row),
                                      StatesText(row), HumanBytes(row.bytes)));
    if (!read) return;
  }
  PrintLine("");
  PrintLine(Counted(rows.size(), "tensor"));
}

void PrintJsonReport(const Inventory& inventory, const std::vector<Row>& rows) {
  llvm::json::Array tensors;
  for (const Row& row : rows) {
    llvm::json::Object states;
    for (const auto& [state, dtype] : row.states) states[state] = dtype;
    llvm::json::Array shape;
    for (std::int64_t length : row.shape) shape.push_back(length);
    tensors.push_back(llvm::json::Object{{"name", row.name},
                                         {"kind", KindName(row.kind)},
                                         {"shape", std::move(shape)},
                                         {"tp_ranks", row.tensor_parallel_ranks},
                                         {"states", std::move(states)},
                                         {"bytes", row.bytes}});
  }
  llvm::json::Object mesh;
  for (const Axis& axis : inventory.mesh.axes) mesh[axis.name] = axis.size;
  llvm::json::Array remarks;
  for (const std::string& remark : inventory.remarks) remarks.push_back(remark);
  PrintJson(llvm::json::Object{{"format", inventory.format},
                               {"folder", inventory.root},
                               {"mesh", std::move(mesh)},
                               {"files", inventory.storage.files.size()},
                               {"bytes", FileBytes(inventory.storage)},
                               {"remarks", std::move(remarks)},
                               {"decisions", DecisionsJson(inventory.decisions)},
                               {"tensors", std::move(tensors)}});
}

llvm::Error Inspect(const InspectOptions& options) {
  FileSystem& files = RealFileSystem();
  SourcePhase phase;
  if (options.source.spec.empty()) {
    if (!options.source.set.empty() || !options.source.config.empty() || !options.source.unused.empty()) {
      return Fail(ErrorCode::kUsage, "--set, --config and --unused say how to read a spec, and no --spec is named");
    }
    UCP_ASSIGN_OR_RETURN(RankPreference preference, ParseRankPreference(options.source.prefer_rank));
    UCP_ASSIGN_OR_RETURN(phase.checkpoint, DescribeSource(files, options.source.path, preference));
  } else {
    UCP_ASSIGN_OR_RETURN(SourceRequest request, options.source.Request());
    llvm::Error error = DescribeAndBind(files, request, phase);
    if (phase.spec != nullptr) ShowDiagnostics(*phase.spec, options.json);
    if (error) return error;
  }
  const Inventory& inventory = phase.checkpoint.inventory;
  llvm::Expected<llvm::GlobPattern> glob = llvm::GlobPattern::create(options.tensor);
  if (!glob) {
    return Fail(ErrorCode::kUsage, "`{}` is no pattern for names: {}", options.tensor,
                llvm::toString(glob.takeError()));
  }
  std::vector<Row> rows = Rows(inventory.storage);
  std::erase_if(rows, [&](const Row& row) { return !glob->match(row.name); });
  UCP_RETURN_IF_ERROR(UseWholeShapes(phase.layout, rows));
  if (options.json) {
    PrintJsonReport(inventory, rows);
  } else {
    PrintText(inventory, phase.checkpoint.training, rows);
  }
  return llvm::Error::success();
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
  command->add_option("--tensor", options->tensor, "Only tensors whose name fits")->type_name("GLOB");
  AddSourceOptions(*command, options->source);
  command->add_flag("--json", options->json, "As JSON");
  command->callback([options, &exit_code] {
    if (LeavesWorkToFirstRank()) return;
    if (llvm::Error error = Inspect(*options)) exit_code = ShowError("ucprun", std::move(error), options->json);
  });
}

}  // namespace ucp
