#include "compiler/formats/dcp/nested.h"

#include <map>
#include <memory>
#include <optional>

namespace ucp::dcp {
namespace {

using pytorch::ValuePtr;

struct Node {
  ValuePtr value;  // Of a leaf.
  std::vector<std::pair<PathPart, std::unique_ptr<Node>>> children;
  std::map<PathPart, Node*> by_part;

  Node* Child(const PathPart& part) {
    const auto [known, is_new] = by_part.try_emplace(part, nullptr);
    if (is_new) {
      children.emplace_back(part, std::make_unique<Node>());
      known->second = children.back().second.get();
    }
    return known->second;
  }
};

bool IsList(const Node& node) {
  for (std::size_t i = 0; i < node.children.size(); ++i) {
    if (node.children[i].first != PathPart(static_cast<std::int64_t>(i))) return false;
  }
  return !node.children.empty();
}

std::vector<pytorch::Entry> EntriesOf(const Node& node);

// ReadMetadata() limits how deep paths are.
ValuePtr ValueOf(const Node& node) {  // NOLINT(misc-no-recursion)
  if (node.value) return node.value;
  std::vector<pytorch::Entry> entries = EntriesOf(node);
  if (!IsList(node)) return pytorch::MakeDict(std::move(entries));
  std::vector<ValuePtr> items;
  for (pytorch::Entry& entry : entries) items.push_back(std::move(entry.value));
  return pytorch::MakeList(std::move(items));
}

std::vector<pytorch::Entry> EntriesOf(const Node& node) {  // NOLINT(misc-no-recursion)
  std::vector<pytorch::Entry> entries;
  for (const auto& [part, child] : node.children) {
    const auto* text = std::get_if<std::string>(&part);
    entries.push_back({text != nullptr ? pytorch::MakeText(*text) : pytorch::MakeInteger(std::get<std::int64_t>(part)),
                       ValueOf(*child)});
  }
  return entries;
}

}  // namespace

std::vector<pytorch::Entry> Nest(std::vector<Leaf> leaves) {
  Node root;
  for (Leaf& leaf : leaves) {
    Node* node = &root;
    bool is_free = true;
    for (const PathPart& part : leaf.path) {
      is_free = is_free && !node->value;
      if (is_free) node = node->Child(part);
    }
    if (is_free && !node->value && node->children.empty()) node->value = std::move(leaf.value);
  }
  return EntriesOf(root);
}

}  // namespace ucp::dcp
