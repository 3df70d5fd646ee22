// Sets come one after the other, and a tree is built at once. So there are several trees, of sizes that double: what is
// new is put into a list, which becomes a tree when it is long, and trees of one size become one tree of twice the
// size.
#include "compiler/sets/box_index.h"

#include <algorithm>

#include "compiler/support/check.h"

namespace ucp {
namespace {

constexpr std::size_t kMostUnsorted = 32;
constexpr std::size_t kLeaf = 8;

bool Meet(const BoundingBox& a, const BoundingBox& b) {
  for (std::size_t d = 0; d < a.begin.size(); ++d) {
    if (std::max(a.begin[d], b.begin[d]) >= std::min(a.end[d], b.end[d])) return false;
  }
  return true;
}

}  // namespace

BoundingBox BoxAround(const ProductSet& set) {
  BoundingBox box;
  for (const Selection& dim : set.dims) {
    const bool is_empty = dim.runs().empty();
    box.begin.push_back(is_empty ? 0 : dim.runs().front().logical_begin);
    box.end.push_back(is_empty ? 0 : dim.runs().back().logical_begin + dim.runs().back().length);
  }
  return box;
}

BoundingBox BoxAround(const ProductSet& set, const LexBound& low, const LexBound& high) {
  BoundingBox box = BoxAround(set);
  if (low.place == LexBound::Place::kEnd) {
    box.end = box.begin;
    return box;
  }
  // As long as both bounds have one position in a dimension, so have all elements between them.
  for (std::size_t d = 0; d < set.dims.size(); ++d) {
    const bool is_open = high.place == LexBound::Place::kEnd;
    const std::int64_t last = is_open ? box.end[d] - 1 : high.index[d];
    box.begin[d] = std::max(box.begin[d], low.index[d]);
    box.end[d] = std::min(box.end[d], last + 1);
    if (is_open || low.index[d] != last) break;
  }
  return box;
}

void BoxIndex::Add(const BoundingBox& box) {
  UCP_CHECK(boxes_.empty() || boxes_.front().begin.size() == box.begin.size(), "a box of {} dimensions among {}",
            box.begin.size(), boxes_.front().begin.size());
  unsorted_.push_back(boxes_.size());
  boxes_.push_back(box);
  if (unsorted_.size() < kMostUnsorted) return;
  std::vector<std::size_t> members = std::move(unsorted_);
  unsorted_.clear();
  while (!trees_.empty() && trees_.back().members.size() <= members.size()) {
    members.insert(members.end(), trees_.back().members.begin(), trees_.back().members.end());
    trees_.pop_back();
  }
  trees_.push_back(Build(std::move(members)));
}

std::vector<std::size_t> BoxIndex::Meeting(const BoundingBox& box) const {
  std::vector<std::size_t> found;
  auto look_at = [&](std::size_t number) {
    if (Meet(boxes_[number], box)) found.push_back(number);
  };
  for (std::size_t number : unsorted_) look_at(number);
  for (const Tree& tree : trees_) {
    llvm::SmallVector<std::size_t, 32> open = {0};
    while (!open.empty()) {
      const std::size_t at = open.pop_back_val();
      const Node& node = tree.nodes[at];
      if (!Meet(node.box, box)) continue;
      if (node.right == 0) {
        for (std::size_t m = node.first; m < node.end; ++m) look_at(tree.members[m]);
        continue;
      }
      open.push_back(at + 1);
      open.push_back(node.right);
    }
  }
  std::sort(found.begin(), found.end());
  return found;
}

BoxIndex::Tree BoxIndex::Build(std::vector<std::size_t> members) const {
  Tree tree{std::move(members), {}};
  AddNode(tree, 0, tree.members.size());
  return tree;
}

void BoxIndex::AddNode(Tree& tree, std::size_t first, std::size_t end) const {
  Node node{boxes_[tree.members[first]], first, end, 0};
  for (std::size_t m = first + 1; m < end; ++m) {
    const BoundingBox& box = boxes_[tree.members[m]];
    for (std::size_t d = 0; d < box.begin.size(); ++d) {
      node.box.begin[d] = std::min(node.box.begin[d], box.begin[d]);
      node.box.end[d] = std::max(node.box.end[d], box.end[d]);
    }
  }
  const std::size_t at = tree.nodes.size();
  const bool is_leaf = end - first <= kLeaf || node.box.begin.empty();
  const std::size_t d = is_leaf ? 0 : WidestDimension(tree, node);
  tree.nodes.push_back(std::move(node));
  if (is_leaf) return;
  const std::size_t middle = first + (end - first) / 2;
  const auto begin = tree.members.begin();
  std::nth_element(begin + static_cast<std::ptrdiff_t>(first), begin + static_cast<std::ptrdiff_t>(middle),
                   begin + static_cast<std::ptrdiff_t>(end), [&](std::size_t a, std::size_t b) {
                     return boxes_[a].begin[d] + boxes_[a].end[d] < boxes_[b].begin[d] + boxes_[b].end[d];
                   });
  AddNode(tree, first, middle);
  tree.nodes[at].right = tree.nodes.size();
  AddNode(tree, middle, end);
}

// The dimension along which the most boxes lie beside one another.
std::size_t BoxIndex::WidestDimension(const Tree& tree, const Node& node) const {
  std::size_t widest = 0;
  double most = -1;
  for (std::size_t d = 0; d < node.box.begin.size(); ++d) {
    double lengths = 0;
    for (std::size_t m = node.first; m < node.end; ++m) {
      const BoundingBox& box = boxes_[tree.members[m]];
      lengths += static_cast<double>(box.end[d] - box.begin[d]);
    }
    const double mean = std::max(lengths / static_cast<double>(node.end - node.first), 1.0);
    const double beside = static_cast<double>(node.box.end[d] - node.box.begin[d]) / mean;
    if (beside > most) {
      most = beside;
      widest = d;
    }
  }
  return widest;
}

}  // namespace ucp
