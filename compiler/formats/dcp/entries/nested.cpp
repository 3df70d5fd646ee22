#include "compiler/formats/dcp/entries/nested.h"

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

// Numbers in paths are places in lists: the keys of dicts become texts. Items that are not here, such as tensors in
// chunks, leave gaps, which nobody makes larger than this.
constexpr std::int64_t kMostMissing = 1000;

bool IsList(const Node& node) {
  std::int64_t last = -1;
  for (const auto& [part, child] : node.children) {
    const auto* number = std::get_if<std::int64_t>(&part);
    if (number == nullptr || *number <= last) return false;
    last = *number;
  }
  return last >= 0 && last < std::ssize(node.children) + kMostMissing;
}

std::vector<pytorch::Entry> EntriesOf(const Node& node);

// ReadMetadata() limits how deep paths are.
ValuePtr ValueOf(const Node& node) {  // NOLINT(misc-no-recursion)
  if (node.value) return node.value;
  std::vector<pytorch::Entry> entries = EntriesOf(node);
  if (!IsList(node)) return pytorch::MakeDict(std::move(entries));
  std::vector<ValuePtr> items;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const auto place = static_cast<std::size_t>(std::get<std::int64_t>(node.children[i].first));
    while (items.size() < place) items.push_back(pytorch::MakeNone());
    items.push_back(std::move(entries[i].value));
  }
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
