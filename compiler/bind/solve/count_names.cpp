#include "compiler/bind/solve/count_names.h"

#include <charconv>
#include <map>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "compiler/spec/variant.h"
#include "compiler/support/checked_math.h"

namespace ucp {
namespace {

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

// Of each group of digits, unless they are not a number that a pattern prints: one with a zero in front, or too large.
std::vector<std::optional<std::int64_t>> NumbersOf(std::string_view name) {
  std::vector<std::optional<std::int64_t>> numbers;
  for (std::size_t begin = 0; begin < name.size(); ++begin) {
    if (!IsDigit(name[begin])) continue;
    std::size_t end = begin;
    while (end < name.size() && IsDigit(name[end])) ++end;
    std::int64_t number = 0;
    const auto read = std::from_chars(name.data() + begin, name.data() + end, number);
    const bool is_printed = read.ec == std::errc() && (name[begin] != '0' || end == begin + 1);
    numbers.push_back(is_printed ? std::optional(number) : std::nullopt);
    begin = end;
  }
  return numbers;
}

class NameCounter {
 public:
  NameCounter(std::size_t dim, const Values& values, const InventoryIndex& found)
      : dim_(dim), values_(values), found_(found) {}

  std::optional<CountedNames> Run() {
    for (const TensorDeclaration& tensor : values_.spec.tensors) {
      for (Variant& variant : VariantsOf(tensor.name, *values_.spec.source)) {
        const std::optional<Place> place = PlaceIn(tensor.name, variant);
        std::string skeleton = variant.skeleton;
        by_skeleton_[std::move(skeleton)].push_back({std::move(variant), place});
      }
    }
    for (const FoundTensor& tensor : found_.tensors()) Count(tensor);
    if (shown_.empty()) return std::nullopt;
    CountedNames counted{std::ssize(shown_), shown_.begin()->second, shown_.rbegin()->second, {}};
    for (std::int64_t expected = 0; const auto& [value, tensor] : shown_) {
      if (value != expected++) return CountedNames{0, counted.first, counted.last, expected - 1};
    }
    return counted;
  }

 private:
  // Where a variant prints the counter, and how.
  struct Place {
    std::size_t slot = 0;
    std::int64_t low = 0;  // The number for 0.
    std::int64_t step = 1;

    bool operator==(const Place&) const = default;
  };
  struct Candidate {
    Variant variant;
    std::optional<Place> place;  // Nothing if it has no counter up to the dim.
  };

  std::optional<Place> PlaceIn(const Pattern& pattern, const Variant& variant) const {
    for (std::size_t slot = 0; slot < variant.slots.size(); ++slot) {
      const NumberSlot& number = variant.slots[slot];
      if (!number.counter || number.local) continue;
      const Formula& count = pattern.counters[*number.counter].count;
      if (count.kind != Formula::Kind::kDim || count.index != dim_ || !number.range.low) continue;
      if (const auto low = ValueOf(*number.range.low)) return Place{slot, *low, number.range.step};
    }
    return std::nullopt;
  }

  std::optional<std::int64_t> ValueOf(const Polynomial& polynomial) const {
    std::optional<std::int64_t> sum = 0;
    for (const auto& [dims, factor] : polynomial) {
      std::optional<std::int64_t> product = factor;
      for (std::size_t dim : dims) {
        product = product && values_.dims[dim] ? CheckedMultiply(*product, values_.dims[dim]->value) : std::nullopt;
      }
      sum = sum && product ? CheckedAdd(*sum, *product) : std::nullopt;
    }
    return sum;
  }

  void Count(const FoundTensor& tensor) {
    const auto candidates = by_skeleton_.find(SkeletonOf(tensor.name));
    if (candidates == by_skeleton_.end()) return;
    const Candidate* fit = nullptr;
    for (const Candidate& candidate : candidates->second) {
      if (!FitsLiterals(tensor.name, candidate.variant)) continue;
      if (fit != nullptr && fit->place != candidate.place) return;
      fit = &candidate;
    }
    if (fit == nullptr || !fit->place) return;
    const auto number = NumbersOf(tensor.name)[fit->place->slot];
    const auto above = number ? CheckedSubtract(*number, fit->place->low) : std::nullopt;
    if (!above || *above < 0 || *above % fit->place->step != 0) return;
    shown_.emplace(*above / fit->place->step, &tensor);
  }

  std::size_t dim_;
  const Values& values_;
  const InventoryIndex& found_;
  std::unordered_map<std::string, std::vector<Candidate>> by_skeleton_;
  std::map<std::int64_t, const FoundTensor*> shown_;  // By the value of the counter.
};

}  // namespace

std::optional<CountedNames> CountNames(std::size_t dim, const Values& values, const InventoryIndex& found) {
  return NameCounter(dim, values, found).Run();
}

}  // namespace ucp
