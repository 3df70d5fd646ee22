#include "compiler/describe/without_spec.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <charconv>

#include "compiler/bind/compare_with_metadata.h"
#include "compiler/catalogue/catalogue.h"
#include "compiler/catalogue/pick_spec.h"
#include "compiler/infer/embedded_cuts.h"
#include "compiler/layout/layout_index.h"
#include "compiler/support/error.h"
#include "compiler/support/user_option.h"

namespace ucp {
namespace {

std::optional<std::int64_t> ParseNumber(std::string_view text) {
  std::int64_t number = 0;
  auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || rest != text.data() + text.size() || text.empty()) return std::nullopt;
  return number;
}

// "NAME=last", "NAME=first", "NAME=2": the stage whose copy is not used.
llvm::Error ApplyUnused(const std::string& text, Layout& layout) {
  std::size_t equals = text.rfind('=');
  std::string name = text.substr(0, equals);
  std::string stage = equals == std::string::npos ? "" : text.substr(equals + 1);
  std::int64_t stages = layout.mesh.Size("pp");
  std::optional<std::int64_t> number = stage == "last" ? stages - 1 : stage == "first" ? 0 : ParseNumber(stage);
  if (!number || *number < 0 || *number >= stages) {
    return Fail(ErrorCode::kUsage, "{} takes NAME=first, NAME=last or NAME=STAGE with a stage below {}, not `{}`",
                OptionName(UserOption::kUnused), stages, text);
  }
  for (TensorLayout& tensor : layout.tensors) {
    if (tensor.name != name) continue;
    tensor.unused_stages.push_back(*number);
    tensor.declared_at = OptionName(UserOption::kUnused);
    return llvm::Error::success();
  }
  return Fail(ErrorCode::kUsage, "{} names tensor `{}`, which the checkpoint does not have",
              OptionName(UserOption::kUnused), name);
}

llvm::Error ApplyOptions(const SourceRequest& request, Layout& layout) {
  if (!request.config.empty() || !request.set.empty()) {
    return Fail(ErrorCode::kUsage, "{} gives values to the dims and facts of a spec, and no spec is named",
                OptionName(request.set.empty() ? UserOption::kConfig : UserOption::kSets));
  }
  for (const std::string& unused : request.unused) UCP_RETURN_IF_ERROR(ApplyUnused(unused, layout));
  return llvm::Error::success();
}

// A matrix that several tensor-parallel ranks hold, to show what the files do not say; any tensor if there is none.
const Shard* CutExample(const Inventory& inventory) {
  const Shard* example = nullptr;
  for (const Shard& shard : inventory.storage.shards) {
    if (shard.coordinate.At("tp") == 0) continue;
    if (shard.shape.size() == 2) return &shard;
    if (example == nullptr) example = &shard;
  }
  return example;
}

// The question that the files leave open: a tensor that the metadata does not describe, or, without metadata, any.
std::string OpenQuestion(const Inventory& inventory, const EmbeddedCuts* embedded) {
  if (embedded != nullptr && embedded->undescribed.empty()) {
    return fmt::format("`universal_checkpoint_info` in {} says how for these ranks, and not for other numbers of them",
                       inventory.embedded()->where);
  }
  if (embedded != nullptr) {
    return fmt::format(
        "`universal_checkpoint_info` in {} names no pattern for {} of its {} tensors, among them `{}`, which DeepSpeed "
        "would concatenate along dimension 0 without a word",
        inventory.embedded()->where, embedded->undescribed.size(),
        embedded->undescribed.size() + embedded->layout.tensors.size(), embedded->undescribed.front());
  }
  if (const Shard* shard = CutExample(inventory)) {
    return fmt::format(
        "its files do not say how; tensor `{}` is [{}] on each of them, which may be its rows, its columns, or all of "
        "it",
        shard->tensor, fmt::join(shard->shape, ", "));
  }
  return "its files do not say how";
}

// The missing information, and the catalogue's answer to it.
llvm::Error NeedsSpec(const Inventory& inventory, const EmbeddedCuts* embedded, llvm::Error catalogue) {
  return Fail(ErrorCode::kUsage,
              "the checkpoint is cut over {} tensor-parallel ranks, and {}; say it with {} (docs/language.md; "
              "`ucpc infer` drafts one), since the catalogue does not decide: {}",
              inventory.mesh.Size("tp"), OpenQuestion(inventory, embedded), OptionName(UserOption::kSpec, "FILE"),
              llvm::toString(std::move(catalogue)));
}

llvm::Error LayOutByMetadata(const SourceRequest& request, EmbeddedCuts embedded, BoundSource& phase) {
  Inventory& inventory = phase.checkpoint.inventory;
  std::size_t tensors = embedded.layout.tensors.size();
  inventory.remarks.push_back(
      fmt::format("the checkpoint's own metadata says how its {} tensors are cut over {} ranks, {} of them by affine "
                  "maps and {} by "
                  "patterns (`universal_checkpoint_info`, version {}, in {}); {} would outrank it",
                  tensors, inventory.mesh.Size("tp"), embedded.by_map, tensors - embedded.by_map,
                  inventory.embedded()->version, inventory.embedded()->where, OptionName(UserOption::kSpec)));
  phase.layout = std::move(embedded.layout);
  UCP_RETURN_IF_ERROR(ApplyOptions(request, phase.layout));
  return VerifyLayout(phase.layout);
}

// Metadata that describes only a part still has a say on that part.
llvm::Error CompareWithMetadata(const PickedSpec& picked, const EmbeddedCuts& embedded) {
  DiagnosticSink readings;
  WarnWhereMetadataDiffers(picked.bound, picked.layout, embedded.layout, readings);
  std::vector<Diagnostic> found = readings.Sorted();
  if (found.empty()) return llvm::Error::success();
  return Fail(ErrorCode::kUsage, "the spec `{}` of the catalogue fits, but {}; with {} you say that the spec counts",
              picked.name, found.front().message, OptionName(UserOption::kSpec));
}

// "…; the checkpoint's own metadata, which describes 12 of 21 tensors, agrees"
std::string Why(const PickedSpec& picked, const EmbeddedCuts* embedded) {
  if (embedded == nullptr) return picked.why;
  std::size_t described = embedded->layout.tensors.size();
  return fmt::format("{}; the checkpoint's own metadata, which describes {} of {} tensors, agrees", picked.why,
                     described, described + embedded->undescribed.size());
}

llvm::Error Take(const SourceRequest& request, PickedSpec picked, BoundSource& phase) {
  phase.spec = std::move(picked.session);
  if (request.opened != nullptr) *request.opened = phase.spec;
  phase.bound = std::move(picked.bound);
  phase.layout = std::move(picked.layout);
  TakeNames(*phase.bound, phase.checkpoint.inventory);
  return VerifyLayout(phase.layout);
}

// `embedded` may be null.
llvm::Error LayOutByCatalogue(const SourceRequest& request, const EmbeddedCuts* embedded, BoundSource& phase) {
  if (!request.unused.empty()) {
    return Fail(ErrorCode::kUsage, "{} is for checkpoints without a spec; write `unused` in the spec instead",
                OptionName(UserOption::kUnused));
  }
  Inventory& inventory = phase.checkpoint.inventory;
  llvm::Expected<PickedSpec> picked = PickSpec(CatalogueNames(), inventory, request.set, request.cut_over);
  if (!picked) return NeedsSpec(inventory, embedded, picked.takeError());
  if (embedded != nullptr) UCP_RETURN_IF_ERROR(CompareWithMetadata(*picked, *embedded));
  inventory.remarks.push_back(Why(*picked, embedded));
  return Take(request, std::move(*picked), phase);
}

// Megatron-DeepSpeed always names its vocabulary, but its row-parallel matrices only where there are several ranks.
bool IsOfMegatron(const EmbeddedLayout& embedded) {
  return !embedded.vocabulary.empty() && embedded.row_parallel.empty() && embedded.maps.empty();
}

// On one rank every tensor is whole. Beside that, the metadata says where other ranks would cut it, and how many of its
// rows are padding.
void TakeCuts(const Inventory& inventory, Layout& layout) {
  if (inventory.embedded() == nullptr) return;
  llvm::Expected<EmbeddedCuts> embedded = ReadEmbeddedCuts(inventory);
  if (!embedded) return llvm::consumeError(embedded.takeError());
  const LayoutIndex described(embedded->layout);
  for (TensorLayout& tensor : layout.tensors) {
    if (const TensorLayout* found = described.Find(tensor.name)) tensor.dims = found->dims;
  }
}

// Metadata that is there and cannot be believed is for the user to judge, and not for the catalogue.
llvm::Error Distrust(llvm::Error why) {
  FailureText failure = TakeFailure(std::move(why));
  return Fail(failure.code, "{}; say with {} how the tensors are cut (docs/language.md)", failure.message,
              OptionName(UserOption::kSpec, "FILE"));
}

}  // namespace

llvm::Error LayOutWhole(const SourceRequest& request, BoundSource& phase) {
  Inventory& inventory = phase.checkpoint.inventory;
  // Metadata of one rank that names cuts serves others; else the catalogue may know the model.
  const bool lacks_cuts = inventory.embedded() == nullptr || IsOfMegatron(*inventory.embedded());
  if (request.cut_over > 1 && lacks_cuts && request.unused.empty()) {
    llvm::Expected<PickedSpec> picked = PickSpec(CatalogueNames(), inventory, request.set, request.cut_over);
    if (picked) {
      inventory.remarks.push_back(picked->why);
      return Take(request, std::move(*picked), phase);
    }
    phase.why_no_spec = llvm::toString(picked.takeError());
  }
  UCP_ASSIGN_OR_RETURN(phase.layout, WholeLayout(inventory));
  TakeCuts(inventory, phase.layout);
  if (inventory.embedded() != nullptr && IsOfMegatron(*inventory.embedded())) {
    inventory.remarks.push_back(
        "a checkpoint of one tensor-parallel rank does not say which of its matrices are cut by columns, so the result "
        "serves targets of one such rank; for others name a spec with " +
        OptionName(UserOption::kSpec));
  }
  return ApplyOptions(request, phase.layout);
}

llvm::Error LayOutWithoutSpec(const SourceRequest& request, BoundSource& phase) {
  const Inventory& inventory = phase.checkpoint.inventory;
  if (const auto* unread = std::get_if<UnreadStatement>(&inventory.cuts)) {
    return Distrust(Fail(ErrorCode::kUnsupported, "{}", unread->why));
  }
  if (inventory.embedded() == nullptr) return LayOutByCatalogue(request, nullptr, phase);
  llvm::Expected<EmbeddedCuts> embedded = ReadEmbeddedCuts(inventory);
  if (!embedded) return Distrust(embedded.takeError());
  // Metadata is of the ranks that wrote it; how others would cut a tensor only a spec says.
  const bool is_recut = request.cut_over > 1 && request.cut_over != inventory.mesh.Size("tp");
  if (embedded->undescribed.empty() && !is_recut) return LayOutByMetadata(request, std::move(*embedded), phase);
  return LayOutByCatalogue(request, &*embedded, phase);
}

}  // namespace ucp
