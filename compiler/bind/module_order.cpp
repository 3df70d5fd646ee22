#include "compiler/bind/module_order.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <string>

namespace ucp {
namespace {

// For each counter of a name, all of the name up to it.
std::vector<std::string> NamesOfLists(const Pattern& name) {
  std::vector<std::string> lists;
  std::string text;
  for (const PatternPiece& piece : name.pieces) {
    if (piece.counts) lists.push_back(text);
    text += piece.kind == PatternPiece::Kind::kNumber ? "{}" : fmt::format("{}", fmt::join(piece.options, "|"));
  }
  return lists;
}

}  // namespace

std::vector<std::size_t> ModuleOrder(const BoundSpec& bound) {
  std::vector<std::vector<std::string>> lists;
  std::map<std::string, std::size_t> first_line;
  for (std::size_t d = 0; d < bound.spec.tensors.size(); ++d) {
    lists.push_back(NamesOfLists(bound.spec.tensors[d].name));
    for (const std::string& list : lists.back()) first_line.try_emplace(list, d);
  }
  std::vector<std::vector<std::size_t>> keys;
  for (const BoundTensor& tensor : bound.tensors) {
    std::vector<std::size_t>& key = keys.emplace_back();
    for (std::size_t c = 0; c < tensor.counters.size(); ++c) {
      key.push_back(first_line.at(lists[tensor.declaration][c]));
      key.push_back(static_cast<std::size_t>(tensor.counters[c]));
    }
    key.push_back(tensor.declaration);
    key.push_back(tensor.place);
  }
  std::vector<std::size_t> order(bound.tensors.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::sort(order, {}, [&](std::size_t t) -> const std::vector<std::size_t>& { return keys[t]; });
  return order;
}

}  // namespace ucp
