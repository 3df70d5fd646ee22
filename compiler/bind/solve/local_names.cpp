// Three steps. The patterns say which group of digits of a name is the layer (variant.h). The names of each stage then
// say how many layers it has, because they are counted from 0 without a hole; stages need not be even. And a layer's
// own number is its number there, and all layers of the stages before.
#include "compiler/bind/solve/local_names.h"

#include <fmt/format.h>

#include <charconv>
#include <map>
#include <set>
#include <unordered_map>

#include "compiler/spec/variant.h"

namespace ucp {
namespace {

// Counters with the same count, as it is written, count the same layers: those of one stack of a model.
struct Stack {
  const Counter* counter = nullptr;  // The first of them.
  std::int64_t layers = 0;
  std::map<std::int64_t, std::set<std::int64_t>> on_stage;  // The numbers that the stage's names have.
  std::map<std::int64_t, std::int64_t> before;              // How many layers the stages before it have.
};

// A group of digits that is the number of a layer on its stage.
struct LayerSlot {
  std::size_t stack = 0;
  std::size_t slot = 0;
  std::int64_t offset = 0;  // Added when it is printed.
  bool operator==(const LayerSlot&) const = default;
};

// Where the digits of group `slot` stand in a name.
std::pair<std::size_t, std::size_t> DigitsOf(std::string_view name, std::size_t slot) {
  constexpr std::string_view kDigits = "0123456789";
  std::size_t begin = name.find_first_of(kDigits);
  for (; slot > 0; --slot) begin = name.find_first_of(kDigits, name.find_first_not_of(kDigits, begin));
  std::size_t end = name.find_first_not_of(kDigits, begin);
  return {begin, (end == std::string_view::npos ? name.size() : end) - begin};
}

std::optional<std::int64_t> NumberAt(std::string_view name, std::size_t slot) {
  auto [begin, length] = DigitsOf(name, slot);
  std::int64_t number = 0;
  auto [end, error] = std::from_chars(name.data() + begin, name.data() + begin + length, number);
  if (error != std::errc()) return std::nullopt;
  return number;
}

template <typename Visit>
void ForEachPattern(const CheckedSpec& spec, const Visit& visit) {
  for (const TensorDeclaration& tensor : spec.tensors) visit(tensor.name);
  for (const TieDeclaration& tie : spec.ties) {
    visit(tie.first);
    visit(tie.second);
  }
  for (const DropDeclaration& drop : spec.drops) visit(drop.name);
}

// nullptr if there is none.
const PatternPiece* LocalPieceOf(const Pattern& pattern) {
  for (const PatternPiece& piece : pattern.pieces) {
    if (piece.counts && pattern.counters[piece.counter].local) return &piece;
  }
  return nullptr;
}

class LayerNamer {
 public:
  LayerNamer(const Values& values, const Inventory& inventory, DiagnosticSink& sink)
      : values_(values), inventory_(inventory), sink_(sink) {}

  std::optional<std::vector<std::string>> Run() {
    std::size_t errors_before = sink_.error_count();
    ForEachPattern(values_.spec, [&](const Pattern& pattern) { Add(pattern); });
    if (sink_.error_count() != errors_before) return std::nullopt;
    if (stacks_.empty()) return std::vector<std::string>{};
    for (const Shard& shard : inventory_.storage.shards) Note(shard);
    for (Stack& stack : stacks_) Count(stack);
    if (sink_.error_count() != errors_before) return std::nullopt;
    std::vector<std::string> names;
    for (const Shard& shard : inventory_.storage.shards) names.push_back(NameOf(shard));
    return names;
  }

 private:
  struct Candidate {
    Variant variant;
    LayerSlot slot;
  };

  void Add(const Pattern& pattern) {
    const PatternPiece* local = LocalPieceOf(pattern);
    if (local == nullptr) return;
    const Counter& counter = pattern.counters[local->counter];
    if (values_.interleave > 1) {
      return Report(
          DiagnosticKind::kBadStages, counter.range,
          fmt::format("the {} chunks of a stage all count from 0 here, and names alone do not tell them apart",
                      values_.interleave));
    }
    if (!values_.Knows(local->number) || !values_.Knows(counter.count)) return;  // No branch that is taken has it.
    auto offset = OffsetOf(*local);
    auto stack = StackOf(counter);
    if (!offset || !stack) return;
    for (Variant& variant : VariantsOf(pattern, *values_.spec.source)) {
      std::size_t slot = 0;
      while (slot < variant.slots.size() && !variant.slots[slot].local) ++slot;
      if (slot == variant.slots.size()) {
        return Report(DiagnosticKind::kBadNamePattern, counter.range,
                      fmt::format("digits stand beside `{}` in `{}`, so its number cannot be told from them",
                                  values_.spec.TextOf(counter.range), variant.shown));
      }
      std::string skeleton = variant.skeleton;
      by_skeleton_[std::move(skeleton)].push_back({std::move(variant), {*stack, slot, *offset}});
    }
  }

  // The text for the counter 0.
  std::optional<std::int64_t> OffsetOf(const PatternPiece& piece) {
    if (piece.number.kind == Formula::Kind::kCounter) return 0;
    const Formula& offset = piece.number.operands[1];
    if (HasCounter(offset)) {
      Report(DiagnosticKind::kBadExpression, offset.range, "what is added to a local counter depends on no counter");
      return std::nullopt;
    }
    return Evaluate(offset, values_, {}, sink_);
  }

  std::optional<std::size_t> StackOf(const Counter& counter) {
    std::string text(values_.spec.TextOf(counter.count.range));
    auto [entry, added] = stack_by_count_.emplace(std::move(text), stacks_.size());
    if (!added) return entry->second;
    auto layers = Evaluate(counter.count, values_, {}, sink_);
    if (!layers) return std::nullopt;
    Stack stack;
    stack.counter = &counter;
    stack.layers = *layers;
    stacks_.push_back(std::move(stack));
    return entry->second;
  }

  // Numbers that do not belong to a layer belong to another pattern, which may be a plain name.
  std::optional<LayerSlot> SlotOf(const std::string& name) const {
    auto candidates = by_skeleton_.find(SkeletonOf(name));
    if (candidates == by_skeleton_.end()) return std::nullopt;
    for (const Candidate& candidate : candidates->second) {
      auto number = NumberAt(name, candidate.slot.slot);
      if (!number || *number < candidate.slot.offset) continue;
      if (*number - candidate.slot.offset >= stacks_[candidate.slot.stack].layers) continue;
      if (FitsLiterals(name, candidate.variant)) return candidate.slot;
    }
    return std::nullopt;
  }

  void Note(const Shard& shard) {
    auto slot = SlotOf(shard.tensor);
    if (!slot) return;
    stacks_[slot->stack].on_stage[shard.coordinate.At("pp")].insert(*NumberAt(shard.tensor, slot->slot) - slot->offset);
  }

  void Count(Stack& stack) {
    std::int64_t total = 0;
    std::string sum;
    for (const auto& [stage, numbers] : stack.on_stage) {
      auto count = static_cast<std::int64_t>(numbers.size());
      if (*numbers.rbegin() != count - 1) {
        std::int64_t hole = 0;
        while (numbers.contains(hole)) ++hole;
        Report(DiagnosticKind::kMissingTensor, stack.counter->range,
               fmt::format("stage {} has a layer {} and no layer {}; they are counted from 0 on every stage", stage,
                           *numbers.rbegin(), hole));
      }
      stack.before[stage] = total;
      total += count;
      sum += fmt::format("{}{}", sum.empty() ? "" : " + ", count);
    }
    if (total == stack.layers || total == 0) return;  // Of none at all each name is missed.
    std::vector<ucp::Note> notes = NotesOf(stack.counter->count, values_);
    sink_.Report({.kind = DiagnosticKind::kStageLayers,
                  .place = stack.counter->count.range,
                  .message = fmt::format("`{}` is {}, and the stages of the checkpoint have {} = {} layers",
                                         values_.spec.TextOf(stack.counter->count.range), stack.layers, sum, total),
                  .notes = std::move(notes)});
  }

  std::string NameOf(const Shard& shard) const {
    auto slot = SlotOf(shard.tensor);
    if (!slot) return shard.tensor;
    std::string name = shard.tensor;
    auto [begin, length] = DigitsOf(name, slot->slot);
    std::int64_t number = *NumberAt(name, slot->slot) + stacks_[slot->stack].before.at(shard.coordinate.At("pp"));
    return name.replace(begin, length, std::to_string(number));
  }

  void Report(DiagnosticKind kind, SourceRange range, std::string message) {
    sink_.Report({.kind = kind, .place = range, .message = std::move(message)});
  }

  const Values& values_;
  const Inventory& inventory_;
  DiagnosticSink& sink_;
  std::vector<Stack> stacks_;
  std::unordered_map<std::string, std::size_t> stack_by_count_;
  std::unordered_map<std::string, std::vector<Candidate>> by_skeleton_;
};

}  // namespace

std::optional<std::vector<std::string>> NamesOfLayers(const Values& values, const Inventory& inventory,
                                                      DiagnosticSink& sink) {
  return LayerNamer(values, inventory, sink).Run();
}

bool KnowsLayers(const Values& values) {
  bool known = !values.spec.interleave || values.Knows(*values.spec.interleave);
  ForEachPattern(values.spec, [&](const Pattern& pattern) {
    const PatternPiece* local = LocalPieceOf(pattern);
    if (local == nullptr) return;
    known = known && values.Knows(local->number) && values.Knows(pattern.counters[local->counter].count);
  });
  return known;
}

}  // namespace ucp
