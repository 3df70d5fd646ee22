#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "compiler/bind/bind.h"
#include "compiler/catalogue/config_file.h"
#include "compiler/check/check_spec.h"
#include "compiler/command_line/memory_job.h"
#include "compiler/command_line/output_place.h"
#include "compiler/command_line/terminal.h"
#include "compiler/command_line/write_file.h"
#include "compiler/describe/bound_source.h"
#include "compiler/driver/commands.h"
#include "compiler/infer/infer.h"
#include "compiler/layout/seen_by_specs.h"
#include "compiler/parse/parse.h"
#include "compiler/pretty/pretty.h"
#include "compiler/support/error.h"
#include "compiler/support/units.h"

namespace ucp {
namespace {

struct InferOptions {
  std::string checkpoint;
  std::string elsewhere;
  std::string config;
  std::string output;
  bool force = false;
};

llvm::Expected<Checkpoint> DescribeFor(const std::string& path) {
  UCP_ASSIGN_OR_RETURN(Checkpoint checkpoint, DescribeSource(RealFiles(), path, {}));
  const auto* unread = std::get_if<UnreadStatement>(&checkpoint.inventory.cuts);
  if (unread != nullptr) return Fail(ErrorCode::kUnsupported, "{}", unread->why);
  return checkpoint;
}

void PrintLines(std::string_view text) {
  for (std::size_t begin = 0; begin < text.size();) {
    std::size_t end = text.find('\n', begin);
    if (!PrintLine(std::string(text.substr(begin, end - begin)))) return;
    begin = end + 1;
  }
}

// Where the draft goes; nothing for standard output. A draft is a spec, which is edited by hand: no older one is
// replaced.
llvm::Expected<std::optional<OutputPlace>> PlaceOf(const InferOptions& options) {
  if (options.output.empty()) return std::nullopt;
  return PlaceOutput({.path = options.output, .what = "the draft", .begins = "", .force = options.force, .inputs = {}});
}

// In the form of `ucpc fmt`, questions included.
llvm::Error Tidy(DraftSpec& draft) {
  UCP_ASSIGN_OR_RETURN(Source source, Source::FromText("<draft>", draft.text));
  DiagnosticSink sink;
  std::optional<ast::File> tree = ParseSpec(source, sink);
  if (!tree)
    return Fail(ErrorCode::kUnsupported, "no spec can be drafted from these names: {}", sink.Sorted().front().message);
  draft.text = Pretty(source, *tree);
  return llvm::Error::success();
}

// A draft without open questions describes the checkpoint it was drafted from: the compiler itself says so.
llvm::Error CheckDraft(const DraftSpec& draft, const std::string& path, const Inventory& inventory) {
  UCP_ASSIGN_OR_RETURN(Source source, Source::FromText(path, draft.text));
  SpecSession session;
  session.source = std::make_shared<const Source>(std::move(source));
  std::optional<ast::File> tree = ParseSpec(*session.source, session.sink);
  if (tree) session.checked = CheckSpec(*tree, *session.source, session.sink);
  std::optional<BoundSpec> bound;
  if (session.checked) bound = BindSpec(*session.checked, inventory, {}, session.sink);
  if (bound) return llvm::Error::success();
  ShowDiagnostics(session);
  return Fail(
      ErrorCode::kUnsupported,
      "the draft does not describe the checkpoint, as the messages above show; it is printed all the same, to be "
      "mended by hand");
}

llvm::Error Infer(const InferOptions& options) {
  UCP_ASSIGN_OR_RETURN(const std::optional<OutputPlace> place, PlaceOf(options));
  UCP_ASSIGN_OR_RETURN(Checkpoint checkpoint, DescribeFor(options.checkpoint));
  std::optional<Checkpoint> elsewhere;
  if (!options.elsewhere.empty()) {
    UCP_ASSIGN_OR_RETURN(elsewhere, DescribeFor(options.elsewhere));
  }
  Inventory& inventory = checkpoint.inventory;
  UCP_RETURN_IF_ERROR(options.config.empty()
                          ? AddConfigBeside(RealFiles(), {inventory.root, options.checkpoint}, inventory.facts)
                          : AddConfig(RealFiles(), options.config, inventory.facts));
  std::optional<Inventory> whole;
  std::optional<Inventory> whole_elsewhere;
  const Inventory& seen = SeenBySpecs(inventory, whole);
  const Inventory* other = elsewhere ? &SeenBySpecs(elsewhere->inventory, whole_elsewhere) : nullptr;
  UCP_ASSIGN_OR_RETURN(DraftSpec draft, InferSpec(seen, other));
  UCP_RETURN_IF_ERROR(Tidy(draft));
  if (place) {
    UCP_RETURN_IF_ERROR(WriteOutput(*place, draft.text));
  } else {
    PrintLines(draft.text);
  }
  ShowMessage(fmt::format("{}, {}{}", Counted(draft.tensors, "tensor"), Counted(draft.questions, "question"),
                          draft.open_questions == 0
                              ? ""
                              : fmt::format("; {} of them open: their tensors are comments", draft.open_questions)));
  const bool has_config = std::ranges::any_of(inventory.facts, [](const auto& fact) {
    return fact.first.starts_with("config.") || fact.first.starts_with("args.");
  });
  if (draft.questions != 0 && !has_config) {
    ShowMessage(
        "note: no config.json was found beside the checkpoint; `--config FILE` names one, and answers most questions");
  }
  if (draft.open_questions != 0) return llvm::Error::success();
  return CheckDraft(draft, options.output.empty() ? "<draft>" : options.output, seen);
}

}  // namespace

void AddInferCommand(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<InferOptions>();
  CLI::App* command = app.add_subcommand("infer",
                                         "Draft a spec from a checkpoint's headers. Where headers and embedded "
                                         "metadata do not decide, the draft has a question.");
  command->footer(
      "  ucpc infer checkpoints/ -o my_model.ucp\n"
      "  ucpc infer run_tp2/ --other run_tp4/ -o my_model.ucp\n"
      "\n"
      "Two tensor-parallel degrees of one model decide most cuts.");
  command->add_option("DIR", options->checkpoint, "The checkpoint")->transform(MemoryJobs())->required();
  command->add_option("--other", options->elsewhere, "The same model at another tensor-parallel degree")
      ->type_name("DIR");
  command->add_option("--config", options->config, "A model's config.json; default: the one in the checkpoint")
      ->type_name("FILE");
  command->add_option("-o,--output", options->output, "Where to write the draft (a new file); else standard output")
      ->type_name("SPEC");
  AddForceOption(*command, "-o", options->force);
  command->callback([options, &exit_code] {
    if (llvm::Error error = Infer(*options)) exit_code = ShowError("ucpc", std::move(error));
  });
}

}  // namespace ucp
