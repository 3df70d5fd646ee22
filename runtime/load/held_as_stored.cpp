// The layouts are compared tensor by tensor. Both sides have it as it is if
//
//   - it is held whole, and its one shard in the source is whole: every dimension of the layout is a plain length, the
//     shard has all of it, row-major, and no number of it is a mean or scaled;
//   - the state that is wanted lies in one stretch of one record, in the dtype that is wanted.
//
// Then element i of the one is element i of the other, and both have as many bytes: reading the stretch fills each
// element of the tensor exactly once. No step has to be derived for that, and none has to be proved. A state that two
// tensors want is left to the planner, and so is everything else that is not plainly so.
#include "runtime/load/held_as_stored.h"

#include <algorithm>
#include <limits>
#include <set>
#include <utility>

#include "compiler/layout/compare_layouts.h"
#include "compiler/layout/layout_index.h"
#include "compiler/plan/plan.h"
#include "compiler/support/checked_math.h"
#include "runtime/load/match_held.h"

namespace ucp {
namespace {

// A tensor of the source.
struct Stored {
  const Shard* shard = nullptr;
  std::uint64_t held_states = 0;  // Bit i: state i of its buffer set.
};

bool IsWhole(const TensorLayout& layout, const std::vector<std::int64_t>& shape) {
  return IsUncut(layout) && std::equal(layout.dims.begin(), layout.dims.end(), shape.begin(), shape.end(),
                                       [](const ShapeExpr& dim, std::int64_t length) { return dim.number == length; });
}

bool IsHeldWhole(const HeldTensor& held) {
  return std::equal(held.holds.begin(), held.holds.end(), held.shape.begin(), held.shape.end(),
                    [](const HeldPositions& positions, std::int64_t length) {
                      if (length == 0) return positions.empty();
                      return positions.size() == 1 && positions.front() == HeldRange{0, length};
                    });
}

std::optional<std::int64_t> ElementsOf(const std::vector<std::int64_t>& shape) {
  std::optional<std::int64_t> elements = 1;
  for (std::int64_t length : shape) elements = elements ? CheckedMultiply(*elements, length) : std::nullopt;
  return elements;
}

class Finder {
 public:
  Finder(const SourcePhase& source, const HeldByRank& held, bool all_tensors, std::span<const std::string> kept)
      : source_(source),
        storage_(source.checkpoint.inventory.storage),
        held_(held),
        all_tensors_(all_tensors),
        kept_(KeptTensors(source.layout, kept)),
        stored_(source.layout.tensors.size()) {}

  std::optional<HeldAsStored> Run() {
    if (!source_.layout.dropped.empty() || source_.held.tensors.size() != stored_.size()) return std::nullopt;
    const LayoutIndex index(source_.layout);
    for (const Shard& shard : storage_.shards) {
      Stored* stored = Find(index, shard.tensor);
      if (stored == nullptr || std::exchange(stored->shard, &shard) != nullptr) return std::nullopt;
    }
    found_.records.reserve(held_.size());
    for (const HeldTensor& held : held_) {
      Stored* stored = Find(index, held.tensor);
      for (const std::string& name : held.second_names) {
        if (stored == nullptr) stored = Find(index, name);
      }
      if (stored == nullptr || stored->shard == nullptr || !Take(held, *stored)) return std::nullopt;
    }
    if (found_.load.as_stored.empty() || !ListOthers()) return std::nullopt;
    FillTables();
    return std::move(found_);
  }

 private:
  Stored* Find(const LayoutIndex& index, const std::string& name) {
    const TensorLayout* layout = index.Find(name);
    return layout == nullptr ? nullptr : &stored_[static_cast<std::size_t>(layout - source_.layout.tensors.data())];
  }

  bool Take(const HeldTensor& held, Stored& stored) {
    const Shard& shard = *stored.shard;
    const TensorLayout& layout = source_.held.tensors[static_cast<std::size_t>(&stored - stored_.data())];
    const bool is_whole = shard.shape == held.shape && shard.strides.empty() && IsWhole(layout, held.shape);
    if (!is_whole || !IsHeldWhole(held)) return false;
    const BufferSet& states = storage_.buffer_set(shard.states);
    const std::optional<std::size_t> state = StateFor(states, held.state);
    if (!state || ((stored.held_states >> *state) & 1) != 0) return false;
    stored.held_states |= std::uint64_t{1} << *state;
    return AddRecord(shard, storage_.buffer(states[*state].buffer), held);
  }

  // As MatchHeld() has it; but nothing where a weight stands beside its master.
  static std::optional<std::size_t> StateFor(const BufferSet& states, const std::string& wanted) {
    if (states.size() > std::numeric_limits<std::uint64_t>::digits) return std::nullopt;
    auto place_of = [&](std::string_view name) {
      return std::find_if(states.begin(), states.end(), [&](const StateBuffer& state) { return state.state == name; });
    };
    const auto weight = place_of(kWeightState);
    const auto master = place_of(kMasterState);
    if (weight != states.end() && master != states.end()) return std::nullopt;
    const auto found = wanted == kWeightState && weight == states.end() ? master : place_of(wanted);
    if (found == states.end()) return std::nullopt;
    return static_cast<std::size_t>(found - states.begin());
  }

  bool AddRecord(const Shard& shard, const Buffer& buffer, const HeldTensor& held) {
    const std::optional<std::int64_t> elements = ElementsOf(shard.shape);
    if (buffer.dtype != held.dtype || !elements) return false;
    if (*elements == 0) {
      found_.records.emplace_back();
      return true;
    }
    const std::vector<Fragment> fragments = FragmentsOf(shard.spread, shard.base, *elements, buffer, 0, *elements);
    if (fragments.size() != 1) return false;
    const Fragment& fragment = fragments.front();
    const BufferPart& part = buffer.parts[fragment.part];
    const std::optional<std::int64_t> end = CheckedAdd(fragment.place, *elements);
    if (fragment.begin != 0 || fragment.end != *elements || !end || *end > part.elements) return false;
    const std::optional<std::int64_t> first = CheckedAdd(part.first_element, fragment.place);
    const std::int64_t item_bytes = ItemBytes(held.dtype);
    const std::optional<std::int64_t> offset = first ? CheckedMultiply(*first, item_bytes) : std::nullopt;
    const std::optional<std::int64_t> bytes = CheckedMultiply(*elements, item_bytes);
    if (!offset || !bytes) return false;
    found_.records.emplace_back(found_.load.as_stored.size());
    const StoredBytes& stored = found_.load.as_stored.emplace_back(
        StoredBytes{held.tensor, part.record, static_cast<std::uint64_t>(*offset), static_cast<std::uint64_t>(*bytes)});
    return IsInFile(stored);
  }

  bool IsInFile(const StoredBytes& stored) const {
    const Record& record = storage_.record(stored.record);
    const std::uint64_t file_bytes = storage_.file(stored.record).bytes;
    return stored.offset <= record.bytes && stored.bytes <= record.bytes - stored.offset &&
           record.begin <= file_bytes && record.bytes <= file_bytes - record.begin;
  }

  // By name, as the layout's tensors are.
  bool ListOthers() {
    for (std::size_t tensor = 0; tensor < stored_.size(); ++tensor) {
      if (stored_[tensor].shard == nullptr) continue;  // An optional one.
      const BufferSet& states = storage_.buffer_set(stored_[tensor].shard->states);
      if (states.size() > std::numeric_limits<std::uint64_t>::digits) return false;
      NotLoaded entry{source_.layout.tensors[tensor].name, {}};
      for (std::size_t state = 0; state < states.size(); ++state) {
        if (((stored_[tensor].held_states >> state) & 1) == 0) entry.states.push_back(states[state].state);
      }
      if (entry.states.empty()) continue;
      if (all_tensors_ && stored_[tensor].held_states == 0 && !kept_.contains(entry.tensor)) return false;
      found_.not_loaded.push_back(std::move(entry));
    }
    return true;
  }

  void FillTables() {
    const Inventory& inventory = source_.checkpoint.inventory;
    Plan& plan = found_.load.plan;
    plan.source_format = inventory.format;
    plan.target_format = "memory";
    plan.source.files = storage_.files;
    plan.source.records = storage_.records;
    plan.remarks = inventory.remarks;
    found_.load.source_folder = source_.folder;
  }

  const SourcePhase& source_;
  const Storage& storage_;
  const HeldByRank& held_;
  const bool all_tensors_;
  const std::set<std::string> kept_;
  std::vector<Stored> stored_;  // As the layout's tensors.
  HeldAsStored found_;
};

}  // namespace

std::optional<HeldAsStored> FindAsStored(const SourcePhase& source, const HeldByRank& held, bool all_tensors,
                                         std::span<const std::string> kept) {
  return Finder(source, held, all_tensors, kept).Run();
}

}  // namespace ucp
