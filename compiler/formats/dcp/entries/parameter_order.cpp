#include "compiler/formats/dcp/entries/parameter_order.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string_view>

#include "compiler/formats/dcp/entries/parameter_names.h"

namespace ucp::dcp {
namespace {

// "layers" and 3 of "layers.3.norm.weight".
std::optional<std::pair<std::string_view, std::int64_t>> LayerOf(std::string_view name) {
  for (std::size_t begin = 0; begin < name.size();) {
    const std::size_t end = std::min(name.find('.', begin), name.size());
    if (const auto number = AsNumber(name.substr(begin, end - begin))) return std::pair(name.substr(0, begin), *number);
    begin = end + 1;
  }
  return std::nullopt;
}

// The first tensor of a layer that stands behind a later layer of the same list; null if there is none.
const ModelEntry* FindDescent(const std::vector<ModelEntry>& tensors) {
  std::map<std::string_view, std::int64_t> last;
  for (const ModelEntry& tensor : tensors) {
    const auto layer = LayerOf(tensor.name);
    if (!layer) continue;
    const auto [known, is_new] = last.try_emplace(layer->first, layer->second);
    if (!is_new && layer->second < known->second) return &tensor;
    known->second = layer->second;
  }
  return nullptr;
}

// The stretches of which each was saved before all that come before it, the last one first.
std::vector<ModelEntry> WithEarlierRanksFirst(const std::vector<ModelEntry>& tensors) {
  std::vector<ModelEntry> ordered;
  std::vector<std::size_t> latest_behind(tensors.size() + 1, 0);  // Of those from here on, with 1 added.
  for (std::size_t i = tensors.size(); i-- > 0;) {
    latest_behind[i] = std::max(latest_behind[i + 1], tensors[i].entry->saved + 1);
  }
  std::size_t end = tensors.size();
  std::vector<std::size_t> begins = {0};
  std::size_t earliest = tensors.empty() ? 0 : tensors.front().entry->saved;
  for (std::size_t i = 1; i < tensors.size(); ++i) {
    if (latest_behind[i] <= earliest) begins.push_back(i);
    earliest = std::min(earliest, tensors[i].entry->saved);
  }
  for (std::size_t b = begins.size(); b-- > 0;) {
    ordered.insert(ordered.end(), tensors.begin() + static_cast<std::ptrdiff_t>(begins[b]),
                   tensors.begin() + static_cast<std::ptrdiff_t>(end));
    end = begins[b];
  }
  return ordered;
}

}  // namespace

std::string PutInOrder(std::vector<ModelEntry>& tensors) {
  if (FindDescent(tensors) == nullptr) return "";
  std::vector<ModelEntry> ordered = WithEarlierRanksFirst(tensors);
  if (const ModelEntry* odd = FindDescent(ordered)) {
    return fmt::format(
        "ranks saved different tensors, as the stages of a pipeline do, and `{}` stands behind a later layer",
        odd->name);
  }
  tensors = std::move(ordered);
  return "";
}

}  // namespace ucp::dcp
