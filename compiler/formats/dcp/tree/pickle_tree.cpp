#include "compiler/formats/dcp/tree/pickle_tree.h"

#include <algorithm>

namespace ucp::dcp {

bool PickleTree::HasObjects() const {
  return !calls_.empty() || std::ranges::any_of(nodes_, [](const Node& node) { return node.kind == Kind::kGlobal; });
}

std::optional<std::string_view> PickleTree::Text(Id id) const {
  return kind(id) == Kind::kText ? std::optional(TextOf(id)) : std::nullopt;
}

std::optional<std::int64_t> PickleTree::Integer(Id id) const {
  if (kind(id) != Kind::kInteger) return std::nullopt;
  const Node& node = nodes_[id];
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(node.b) << 32 | node.a);
}

void PickleTree::ForEach(Id id, llvm::function_ref<bool(Id)> visit) const {
  if (kind(id) == Kind::kTuple) {
    for (std::uint32_t i = 0; i < nodes_[id].b; ++i) {
      if (!visit(items_[nodes_[id].a + i])) return;
    }
    return;
  }
  for (std::uint32_t s = nodes_[id].a; s != kNothing; s = segments_[s].next) {
    for (std::uint32_t i = 0; i < segments_[s].count; ++i) {
      if (!visit(items_[segments_[s].first + i])) return;
    }
  }
}

void PickleTree::ForEachEntry(Id id, llvm::function_ref<bool(Id, Id)> visit) const {
  for (std::uint32_t s = nodes_[id].a; s != kNothing; s = segments_[s].next) {
    for (std::uint32_t i = 0; i + 1 < segments_[s].count; i += 2) {
      if (!visit(items_[segments_[s].first + i], items_[segments_[s].first + i + 1])) return;
    }
  }
}

std::size_t PickleTree::Count(Id id) const {
  if (kind(id) == Kind::kTuple) return nodes_[id].b;
  std::size_t count = 0;
  for (std::uint32_t s = nodes_[id].a; s != kNothing; s = segments_[s].next) count += segments_[s].count;
  return count;
}

}  // namespace ucp::dcp
