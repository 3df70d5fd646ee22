// Names are cut at dots. The first part that is a number is where a counter could stand; what is before it is its
// prefix:
//
//   model.layers . 3 . mlp.experts.0.w1        prefix "model.layers", number 3, rest "mlp.experts.0.w1"
//
// Under one prefix every (rest, declaration) has the set of numbers where it occurs. If the numbers are 0..n without a
// hole, the prefix is a block with a counter, and rests that are not there for all numbers stand under a condition. The
// rests are grouped in the same way again. Where the numbers are not a counter (a pipeline's "1.weight" among layers 3
// to 26), neighbours that are alike get a counter of their own.
#include "compiler/infer/group_names.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <set>

#include "compiler/infer/number_names.h"

namespace ucp {
namespace {

using Numbers = std::set<std::int64_t>;

struct Place {
  std::string prefix;  // Without the dot before the number.
  std::int64_t number = 0;
  std::string rest;  // Without the dot behind it.
};

// The first part that is a number, written without a leading zero.
std::optional<Place> FirstNumber(const std::string& name) {
  for (std::size_t begin = 0; begin <= name.size();) {
    std::size_t end = std::min(name.find('.', begin), name.size());
    std::int64_t number = 0;
    auto [rest, error] = std::from_chars(name.data() + begin, name.data() + end, number);
    bool plain = error == std::errc() && rest == name.data() + end && number >= 0 &&
                 std::to_string(number).size() == end - begin;
    if (plain) {
      return Place{begin == 0 ? "" : name.substr(0, begin - 1), number, end == name.size() ? "" : name.substr(end + 1)};
    }
    begin = end + 1;
  }
  return std::nullopt;
}

std::string Declared(const DraftTensor& tensor) {
  return tensor.marker + tensor.shape + (tensor.open ? "?" : "") + tensor.question;
}

bool Contiguous(const Numbers& numbers) {
  return *numbers.rbegin() - *numbers.begin() + 1 == static_cast<std::int64_t>(numbers.size());
}

std::string CounterName(const std::string& prefix, int depth) {
  if (depth == 0) return "i";
  if (prefix.ends_with("experts")) return "e";
  return depth == 1 ? "j" : fmt::format("j{}", depth);
}

class Grouper {
 public:
  Grouper(std::int64_t stages, NumberNames& names) : stages_(stages), names_(names) {}

  // `tensors` have the names that are left below the blocks around them.
  std::vector<DraftNode> Group(const std::vector<DraftTensor>& tensors, int depth, bool on_one_stage) {
    std::vector<DraftNode> nodes;
    std::vector<std::string> order;
    std::map<std::string, std::vector<std::pair<Place, const DraftTensor*>>> prefixes;
    std::map<std::string, std::size_t> before;  // How many nodes stand before the prefix's first tensor.
    for (const DraftTensor& tensor : tensors) {
      auto place = FirstNumber(tensor.name);
      if (!place) {
        nodes.push_back(Leaf(tensor, tensor.name, on_one_stage));
        continue;
      }
      if (!prefixes.contains(place->prefix)) order.push_back(place->prefix);
      prefixes[place->prefix].push_back({*place, &tensor});
    }
    for (const std::string& prefix : order) GroupPrefix(prefix, prefixes.at(prefix), depth, on_one_stage, nodes);
    return nodes;
  }

 private:
  using Members = std::vector<std::pair<Place, const DraftTensor*>>;

  static DraftNode Leaf(const DraftTensor& tensor, std::string name, bool on_one_stage) {
    DraftNode leaf;
    leaf.text = std::move(name);
    leaf.tensor = tensor;
    if (on_one_stage) leaf.tensor.stages.clear();
    return leaf;
  }

  void GroupPrefix(const std::string& prefix, const Members& members, int depth, bool on_one_stage,
                   std::vector<DraftNode>& nodes) {
    Numbers all;
    std::map<std::int64_t, std::set<std::pair<std::string, std::string>>> alike;
    for (const auto& [place, tensor] : members) {
      all.insert(place.number);
      alike[place.number].insert({place.rest, Declared(*tensor)});
    }
    if (!prefix.empty() && all.size() > 1 && Contiguous(all)) {
      AddCounter(prefix, members, all, depth, on_one_stage, nodes);
      return;
    }
    // Runs of neighbours that are alike.
    for (auto number = all.begin(); number != all.end();) {
      Numbers run = {*number};
      auto next = std::next(number);
      while (next != all.end() && *next == *run.rbegin() + 1 && alike.at(*next) == alike.at(*number))
        run.insert(*next++);
      Members part;
      for (const auto& member : members) {
        if (run.contains(member.first.number)) part.push_back(member);
      }
      if (run.size() == 1) {
        for (const auto& [place, tensor] : part) AddLiteral(prefix, place, *tensor, depth, on_one_stage, nodes);
      } else {
        AddCounter(prefix, part, run, depth, on_one_stage, nodes);
      }
      number = next;
    }
  }

  void AddLiteral(const std::string& prefix, const Place& place, const DraftTensor& tensor, int depth,
                  bool on_one_stage, std::vector<DraftNode>& nodes) {
    std::string head = prefix.empty() ? std::to_string(place.number) : fmt::format("{}.{}", prefix, place.number);
    if (place.rest.empty()) {
      nodes.push_back(Leaf(tensor, head, on_one_stage));
      return;
    }
    DraftTensor below = tensor;
    below.name = place.rest;
    for (DraftNode& node : Group({below}, depth, on_one_stage)) {
      node.text = head + "." + node.text;
      nodes.push_back(std::move(node));
    }
  }

  void AddCounter(const std::string& prefix, const Members& members, const Numbers& all, int depth, bool on_one_stage,
                  std::vector<DraftNode>& nodes) {
    bool over_stages = depth == 0 && !on_one_stage && EachOnOneStage(members);
    std::int64_t low = *all.begin();
    std::string counter = CounterName(prefix, depth);
    std::string capture = fmt::format("{{{}{}: {}{}}}", counter, low == 0 ? "" : fmt::format(" + {}", low),
                                      names_.Count(static_cast<std::int64_t>(all.size())), over_stages ? "@pp" : "");
    DraftNode block;
    block.kind = DraftNode::Kind::kBlock;
    block.text = prefix.empty() ? capture : prefix + "." + capture;
    bool below_one = on_one_stage || over_stages;

    // Each (rest, declaration) once, in the order of its first tensor, by the set of numbers that have it.
    std::map<std::pair<std::string, std::string>, Numbers> where;
    std::vector<std::pair<std::pair<std::string, std::string>, const DraftTensor*>> firsts;
    for (const auto& [place, tensor] : members) {
      auto key = std::make_pair(place.rest, Declared(*tensor));
      if (where[key].empty()) firsts.emplace_back(key, tensor);
      where[key].insert(place.number);
    }
    std::vector<std::pair<Numbers, std::vector<DraftTensor>>> sets;
    for (const auto& [key, tensor] : firsts) {
      if (key.first.empty()) {  // The number is the end of the name.
        nodes.push_back(Leaf(*tensor, block.text, below_one));
        continue;
      }
      const Numbers& numbers = where.at(key);
      auto found = std::find_if(sets.begin(), sets.end(), [&](const auto& set) { return set.first == numbers; });
      if (found == sets.end()) found = sets.insert(sets.end(), {numbers, {}});
      DraftTensor below = *tensor;
      below.name = key.first;
      found->second.push_back(std::move(below));
    }
    std::stable_partition(sets.begin(), sets.end(), [&](const auto& set) { return set.first == all; });
    for (const auto& [numbers, below] : sets) {
      std::vector<DraftNode> items = Group(below, depth + 1, below_one);
      if (numbers == all) {
        std::move(items.begin(), items.end(), std::back_inserter(block.items));
        continue;
      }
      DraftNode when;
      when.kind = DraftNode::Kind::kWhen;
      when.text = Condition(numbers, all, counter);
      when.items = std::move(items);
      block.items.push_back(std::move(when));
    }
    if (!block.items.empty()) nodes.push_back(std::move(block));
  }

  bool EachOnOneStage(const Members& members) const {
    if (stages_ == 1) return false;
    std::map<std::int64_t, std::set<std::int64_t>> stages;
    for (const auto& [place, tensor] : members)
      stages[place.number].insert(tensor->on_stages.begin(), tensor->on_stages.end());
    std::int64_t last = 0;
    for (const auto& [number, on] : stages) {
      if (on.size() != 1 || *on.begin() < last) return false;
      last = *on.begin();
    }
    return true;
  }

  // In the counter's own numbers, which begin at 0.
  static std::string Condition(const Numbers& numbers, const Numbers& all, const std::string& counter) {
    std::int64_t low = *all.begin();
    std::int64_t first = *numbers.begin() - low;
    std::int64_t end = *numbers.rbegin() - low + 1;
    std::int64_t size = static_cast<std::int64_t>(all.size());
    if (Contiguous(numbers)) {
      if (numbers.size() == 1) return fmt::format("{} == {}", counter, first);
      if (first == 0) return fmt::format("{} < {}", counter, end);
      if (end == size) return fmt::format("{} >= {}", counter, first);
      return fmt::format("{0} >= {1} and {0} < {2}", counter, first, end);
    }
    std::int64_t step = *std::next(numbers.begin()) - *numbers.begin();
    Numbers regular;
    for (std::int64_t number = first % step; number < size; number += step) regular.insert(number + low);
    if (regular == numbers) return fmt::format("{} % {} == {}", counter, step, first % step);
    std::vector<std::string> each;
    for (std::int64_t number : numbers) each.push_back(fmt::format("{} == {}", counter, number - low));
    return fmt::format("{}", fmt::join(each, " or "));
  }

  std::int64_t stages_;
  NumberNames& names_;
};

}  // namespace

std::vector<DraftNode> GroupNames(const std::vector<DraftTensor>& tensors, std::int64_t pipeline_stages,
                                  NumberNames& names) {
  return Grouper(pipeline_stages, names).Group(tensors, 0, false);
}

}  // namespace ucp
