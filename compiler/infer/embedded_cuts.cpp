#include "compiler/infer/embedded_cuts.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "compiler/infer/embedded_reading.h"
#include "compiler/infer/observed.h"
#include "compiler/layout/expert_cut.h"
#include "compiler/support/error.h"

namespace ucp {
namespace {

TensorLayout LayoutOf(const ObservedTensor& observed, Reading reading, const std::string& declared_at) {
  TensorLayout tensor;
  tensor.name = observed.name;
  tensor.dims = std::move(reading.dims);
  tensor.scale = reading.scale;
  tensor.buffer = observed.kind == TensorKind::kBuffer;
  if (reading.mean) tensor.mean_axes = {kCutAxis};
  tensor.declared_at = declared_at;
  return tensor;
}

// AutoTP, which alone writes maps, lists every parameter and cuts no buffer. The copies are compared when they are
// read.
bool IsBufferBesideMaps(const EmbeddedLayout& embedded, const ObservedTensor& tensor) {
  const auto& shapes = tensor.by_rank;
  return !embedded.maps.empty() && tensor.kind == TensorKind::kBuffer &&
         std::all_of(shapes.begin(), shapes.end(), [&](const LocalShape& shape) { return shape == shapes.front(); });
}

// AutoEP says which experts a rank has; the patterns of AutoTP beside it call them replicated.
std::optional<TensorLayout> LayoutOfExperts(const Inventory& inventory, const ObservedTensor& observed) {
  const auto places = inventory.expert_places.find(observed.name);
  if (places == inventory.expert_places.end()) return std::nullopt;
  TensorLayout tensor;
  tensor.name = observed.name;
  for (std::int64_t length : observed.by_rank.front()) tensor.dims.push_back(ShapeExpr::Length(length));
  tensor.dims.front() = CutByExperts(places->second);
  tensor.declared_at = "the checkpoint's own `ds_autoep_layers`";
  return tensor;
}

void AddAliases(const Inventory& inventory, Layout& layout) {
  std::map<std::string, std::vector<std::string>> aliases;
  for (const auto& [second, first] : inventory.aliases) aliases[first].push_back(second);
  if (aliases.empty()) return;
  for (TensorLayout& tensor : layout.tensors) {
    if (const auto found = aliases.find(tensor.name); found != aliases.end()) tensor.aliases = found->second;
  }
}

}  // namespace

llvm::Expected<EmbeddedCuts> ReadEmbeddedCuts(const Inventory& inventory) {
  const EmbeddedLayout& embedded = *inventory.embedded();
  UCP_ASSIGN_OR_RETURN(Observation observation, Observe(inventory, nullptr));
  UCP_ASSIGN_OR_RETURN(std::optional<EmbeddedReader> reader,
                       EmbeddedReader::Make(&embedded, observation.vocabulary_grain));
  const std::string declared_at = fmt::format("`universal_checkpoint_info` in {}", embedded.where);
  EmbeddedCuts cuts;
  cuts.layout.mesh = inventory.mesh;
  cuts.layout.tensors.reserve(observation.tensors.size());
  for (const ObservedTensor& tensor : observation.tensors) {
    if (std::optional<TensorLayout> experts = LayoutOfExperts(inventory, tensor)) {
      cuts.layout.tensors.push_back(std::move(*experts));
      continue;
    }
    UCP_ASSIGN_OR_RETURN(std::optional<Decision> decision, reader->Read(tensor));
    if (!decision && IsBufferBesideMaps(embedded, tensor)) {
      decision = Decision{&tensor, {WholeReading(tensor.by_rank.front())}, ""};
    }
    if (!decision) {
      if (auto why = reader->WhyUnsupported(tensor.name); !why.empty()) {
        return Fail(ErrorCode::kUnsupported,
                    "`universal_checkpoint_info` in {} says of `{}` that it cannot be described: {}", embedded.where,
                    tensor.name, why);
      }
      cuts.undescribed.push_back(tensor.name);
      continue;
    }
    if (decision->by_map) ++cuts.by_map;
    cuts.layout.tensors.push_back(LayoutOf(tensor, std::move(decision->readings.front()), declared_at));
  }
  AddAliases(inventory, cuts.layout);
  return cuts;
}

}  // namespace ucp
