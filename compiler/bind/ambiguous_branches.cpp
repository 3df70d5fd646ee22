// For two branches that exclude each other by a condition that rests on a default, the whole spec is read as if the
// other one had been taken. That reading stands only if it gives the same names and if all of its shapes fit: what a
// name or a shape can tell is not a doubt. Then the holders of each tensor are compared on a few small meshes, since on
// the source's own mesh, perhaps of one rank, two cuts can look alike.
#include "compiler/bind/ambiguous_branches.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "compiler/bind/lower/lower_dim.h"
#include "compiler/bind/values/evaluate_condition.h"
#include "compiler/bind/values/expand_pattern.h"
#include "compiler/bind/values/inventory_index.h"
#include "compiler/layout/holders.h"
#include "compiler/support/user_option.h"

namespace ucp {
namespace {

// One name as a declaration reads it.
struct Reading {
  std::size_t declaration = 0;
  std::vector<std::int64_t> counters;
};
using Names = std::map<std::string, Reading>;

// The declarations of one branch: they share all their guards.
struct Branch {
  const Guards* guards = nullptr;
  std::vector<std::size_t> declarations;
};

// Whether `guards` stand in the branch that the first `count` of `outer` say.
bool StandBehind(const Guards& guards, const Guards& outer, std::size_t count) {
  if (guards.size() < count) return false;
  for (std::size_t i = 0; i < count; ++i) {
    if (guards[i].condition != outer[i].condition || guards[i].holds != outer[i].holds) return false;
  }
  return true;
}

class ReadingComparer {
 public:
  ReadingComparer(const BoundSpec& bound, const InventoryIndex& found, const Header& header, DiagnosticSink& sink)
      : values_{bound.spec, bound.dims, *bound.source_mesh, bound.facts, &header, &bound.widths},
        found_(found),
        sink_(sink),
        taken_(bound.spec.tensors.size()) {
    for (const BoundTensor& tensor : bound.tensors) taken_[tensor.declaration].push_back(&tensor);
    std::map<std::pair<const Condition*, bool>, std::size_t> by_guard;
    for (std::size_t i = 0; i < taken_.size(); ++i) {
      const Guards& guards = bound.spec.tensors[i].guards;
      if (std::none_of(guards.begin(), guards.end(), [&](const Guard& guard) { return IsAssumed(guard); })) continue;
      auto [entry, added] =
          by_guard.try_emplace({guards.back().condition.get(), guards.back().holds}, branches_.size());
      if (added) branches_.push_back({&guards, {}});
      branches_[entry->second].declarations.push_back(i);
    }
  }

  void Run() {
    for (const Branch& branch : branches_) {
      bool is_taken = std::any_of(branch.declarations.begin(), branch.declarations.end(),
                                  [&](std::size_t declaration) { return !taken_[declaration].empty(); });
      if (!is_taken) continue;
      for (const Branch& other : branches_) Compare(*branch.guards, *other.guards);
    }
  }

 private:
  bool IsAssumed(const Guard& guard) {
    auto [entry, added] = assumed_.try_emplace(guard.condition.get(), false);
    if (!added) return entry->second;
    References references;
    references.Add(*guard.condition);
    return entry->second = references.names.empty() && values_.Assumes(references);
  }

  void Compare(const Guards& here, const Guards& there) {
    if (!ExcludeEachOther(here, there)) return;
    std::size_t fork = 0;
    while (here[fork].condition == there[fork].condition && here[fork].holds == there[fork].holds) ++fork;
    if (!IsAssumed(here[fork]) || !compared_.insert({here[fork].condition.get(), &there}).second) return;
    if (HasTiesOrDrops(here, fork + 1) || HasTiesOrDrops(there, fork + 1)) return;  // Their names tell.
    auto other = NamesBehind(there, fork);
    if (!other || other->empty()) return;
    Names own = NamesTaken(here, fork);
    bool same = std::equal(own.begin(), own.end(), other->begin(), other->end(),
                           [](const auto& a, const auto& b) { return a.first == b.first; });
    if (!same) return;
    for (const auto& [name, reading] : *other) {
      if (!Fits(name, reading)) return;
    }
    for (const auto& [name, reading] : own) {
      const Reading& second = other->at(name);
      if (HoldTheSame(reading, second)) continue;
      return Report(name, reading, second, *here[fork].condition);
    }
  }

  bool HasTiesOrDrops(const Guards& branch, std::size_t count) const {
    auto behind = [&](const auto& declaration) { return StandBehind(declaration.guards, branch, count); };
    return std::any_of(values_.spec.ties.begin(), values_.spec.ties.end(), behind) ||
           std::any_of(values_.spec.drops.begin(), values_.spec.drops.end(), behind);
  }

  Names NamesTaken(const Guards& branch, std::size_t fork) const {
    Names names;
    for (std::size_t i = 0; i < taken_.size(); ++i) {
      if (!StandBehind(values_.spec.tensors[i].guards, branch, fork + 1)) continue;
      for (const BoundTensor* tensor : taken_[i]) names.emplace(tensor->name, Reading{i, tensor->counters});
    }
    return names;
  }

  // Those that the branch would give if its doubtful conditions held. Nothing if that cannot be said.
  std::optional<Names> NamesBehind(const Guards& branch, std::size_t fork) {
    Names names;
    DiagnosticSink ignored;
    Expander expander(values_, ignored);
    for (std::size_t i = 0; i < taken_.size(); ++i) {
      const TensorDeclaration& tensor = values_.spec.tensors[i];
      if (!StandBehind(tensor.guards, branch, fork + 1)) continue;
      auto guards = GuardsLeft(tensor.guards, branch, fork);
      if (!guards) continue;
      auto expanded = expander.Expand(tensor.name, *guards);
      if (!expanded) return std::nullopt;
      for (ExpandedName& name : *expanded) {
        if (tensor.optional && found_.Find(name.name) == nullptr) continue;
        names.emplace(std::move(name.name), Reading{i, std::move(name.counters)});
      }
    }
    return names;
  }

  // The conditions that `guards` still ask if the doubtful ones of the branch are taken to hold; nothing if they
  // contradict it.
  std::optional<Guards> GuardsLeft(const Guards& guards, const Guards& branch, std::size_t fork) {
    Guards left(guards.begin(), guards.begin() + static_cast<std::ptrdiff_t>(fork));
    for (std::size_t i = fork; i < guards.size(); ++i) {
      auto taken = std::find_if(branch.begin(), branch.end(),
                                [&](const Guard& guard) { return guard.condition == guards[i].condition; });
      if (taken != branch.end() && taken->holds != guards[i].holds) return std::nullopt;
      if (taken == branch.end() || !IsAssumed(*taken)) left.push_back(guards[i]);
    }
    return left;
  }

  bool Fits(const std::string& name, const Reading& reading) const {
    const std::vector<Formula>& dims = values_.spec.tensors[reading.declaration].dims;
    const FoundTensor* found = found_.Find(name);
    if (found == nullptr) return false;
    std::vector<LocalLengths> lengths;
    for (const Formula& dim : dims) {
      auto lowered = Lower(dim, values_, reading);
      if (!lowered) return false;
      lengths.push_back(std::move(lowered->local));
    }
    return std::all_of(found->shards.begin(), found->shards.end(), [&](const Shard* shard) {
      if (shard->shape.size() != lengths.size()) return false;
      for (std::size_t i = 0; i < lengths.size(); ++i) {
        if (lengths[i].At(shard->coordinate) != shard->shape[i]) return false;
      }
      return true;
    });
  }

  static std::optional<LoweredDim> Lower(const Formula& dim, const Values& values, const Reading& reading) {
    if (!values.Knows(dim)) return std::nullopt;
    DiagnosticSink ignored;
    return LowerDim(dim, values, reading.counters, ignored);
  }

  bool HoldTheSame(const Reading& a, const Reading& b) const {
    std::set<std::string> axes;
    for (const Reading* reading : {&a, &b}) {
      for (const Formula& dim : values_.spec.tensors[reading->declaration].dims) {
        for (const Formula* cut : CutsOf(dim)) axes.insert(cut->axes.begin(), cut->axes.end());
      }
    }
    for (std::int64_t degree : {2, 3, 4, 6, 8}) {
      Mesh mesh;
      for (const std::string& axis : axes) mesh.axes.push_back({axis, degree});
      auto first = HoldersOn(mesh, a);
      auto second = HoldersOn(mesh, b);
      if (first && second && *first != *second) return false;
    }
    return true;
  }

  using Held = std::map<Coordinate, ProductSet>;
  std::optional<Held> HoldersOn(const Mesh& mesh, const Reading& reading) const {
    Values values{values_.spec, values_.dims, mesh, values_.facts, nullptr, values_.widths, values_.interleave};
    TensorLayout tensor;
    for (const Formula& dim : values_.spec.tensors[reading.declaration].dims) {
      auto lowered = Lower(dim, values, reading);
      if (!lowered) return std::nullopt;
      tensor.dims.push_back(std::move(lowered->expr));
    }
    auto holders = HoldersOf(tensor, mesh);
    if (!holders) {
      llvm::consumeError(holders.takeError());
      return std::nullopt;
    }
    Held held;
    for (Holder& holder : *holders) held.emplace(std::move(holder.at), std::move(holder.held));
    return held;
  }

  void Report(const std::string& name, const Reading& own, const Reading& other, const Condition& condition) {
    std::vector<Note> notes = NotesOf(condition, values_);
    notes.push_back({values_.spec.tensors[other.declaration].shape_range, "the other branch"});
    sink_.Report({.kind = DiagnosticKind::kTwoReadings,
                  .place = values_.spec.tensors[own.declaration].shape_range,
                  .message = fmt::format("`{}` fits another branch as well, which cuts it differently, and a default "
                                         "chose this one",
                                         name),
                  .notes = std::move(notes),
                  .hint = fmt::format("say with `{}` which one it is", OptionName(UserOption::kSets))});
  }

  Values values_;
  const InventoryIndex& found_;
  DiagnosticSink& sink_;
  std::vector<std::vector<const BoundTensor*>> taken_;  // By declaration.
  std::vector<Branch> branches_;                        // Those with a doubtful guard.
  std::map<const Condition*, bool> assumed_;
  std::set<std::pair<const Condition*, const Guards*>> compared_;
};

}  // namespace

void WarnOfAmbiguousBranches(const BoundSpec& bound, const Inventory& inventory, const Settings& set,
                             DiagnosticSink& sink) {
  InventoryIndex found(inventory);
  found.NameLayers(bound.shard_names);
  Header header(found, set);
  if (header.exists()) ReadingComparer(bound, found, header, sink).Run();
}

}  // namespace ucp
