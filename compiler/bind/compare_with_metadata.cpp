#include "compiler/bind/compare_with_metadata.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "compiler/layout/compare_layouts.h"

namespace ucp {
namespace {

// Shape, mean and scale; what the metadata does not speak of is left out.
std::string TextOfCut(TensorLayout tensor) {
  tensor.name.clear();
  tensor.axes.clear();
  tensor.stages.reset();
  tensor.unused_stages.clear();
  tensor.optional = false;
  tensor.buffer = false;
  tensor.aliases.clear();
  return ToString(tensor).substr(1);
}

bool AreAlike(const TensorLayout& ours, const TensorLayout& theirs, const Mesh& mesh) {
  auto alike = AreCutAlike(ours, theirs, mesh);
  if (alike) return *alike;
  llvm::consumeError(alike.takeError());  // Whoever uses a cut that does not fit reports it.
  return true;
}

// By name alone. Sorted by name, as the tensors of every layout are.
const TensorLayout* Named(const Layout& layout, const std::string& name) {
  auto found = std::lower_bound(layout.tensors.begin(), layout.tensors.end(), name,
                                [](const TensorLayout& tensor, const std::string& key) { return tensor.name < key; });
  return found != layout.tensors.end() && found->name == name ? &*found : nullptr;
}

struct Other {
  const TensorLayout* ours;
  const TensorLayout* theirs;
  std::size_t count = 0;
};

}  // namespace

void WarnWhereMetadataDiffers(const BoundSpec& bound, const Layout& layout, const Layout& metadata,
                              DiagnosticSink& sink) {
  std::map<std::size_t, Other> by_declaration;
  for (const BoundTensor& tensor : bound.tensors) {
    const TensorLayout* ours = Named(layout, tensor.name);
    const TensorLayout* theirs = Named(metadata, tensor.name);
    if (ours == nullptr || theirs == nullptr || !ours->only_at.empty()) continue;
    if (AreAlike(*ours, *theirs, layout.mesh)) continue;
    ++by_declaration.try_emplace(tensor.declaration, Other{ours, theirs}).first->second.count;
  }
  for (const auto& [declaration, other] : by_declaration) {
    std::string more = other.count > 1 ? fmt::format(", and {} more of this pattern,", other.count - 1) : "";
    sink.Report({.kind = DiagnosticKind::kMetadataDisagreement,
                 .place = bound.spec.tensors[declaration].name.range,
                 .message = fmt::format("the checkpoint's metadata reads tensor `{}`{} as `{}`, and the spec as `{}`",
                                        other.ours->name, more, TextOfCut(*other.theirs), TextOfCut(*other.ours)),
                 .notes = {{Place::Elsewhere(other.theirs->declared_at), "the other reading stands here"}},
                 .hint = "the spec counts; without a spec the metadata would"});
  }
}

}  // namespace ucp
