#include "runtime/engine/state_digests.h"

#include <algorithm>
#include <tuple>

#include "compiler/plan/state_feeds.h"
#include "compiler/support/error.h"
#include "compiler/support/parallel.h"
#include "runtime/digest/sums_codec.h"

namespace ucp {
namespace {

// By TensorId.
std::vector<bool> HaveMaster(const Plan& plan) {
  std::vector<bool> have_master(plan.tensors.size(), false);
  for (const PlanRead& read : plan.reads) {
    const bool is_copied = read.role == ReadRole::kCopy;
    if (is_copied && FindState(plan.source.buffer_set(read.states), kMasterState)) {
      have_master[read.tensor.index()] = true;
    }
  }
  return have_master;
}

}  // namespace

StateDigests::StateDigests(const Plan& plan, DigestVersion version)
    : plan_(plan), version_(version), counted_(plan), have_master_(HaveMaster(plan)) {
  ListStates();
  // Of the same state of a tensor, what the last write says counts.
  const auto is_before = [](const State& a, const State& b) {
    return std::tie(a.tensor, a.name) < std::tie(b.tensor, b.name);
  };
  std::stable_sort(states_.begin(), states_.end(), is_before);
  const auto is_same = [](const State& a, const State& b) { return a.tensor == b.tensor && a.name == b.name; };
  states_.erase(states_.begin(), std::unique(states_.rbegin(), states_.rend(), is_same).base());
  first_of_tensor_.reserve(counted_.subjects().size() + 1);
  for (std::size_t s = 0; s < states_.size(); ++s) {
    if (first_of_tensor_.size() <= states_[s].tensor.index()) first_of_tensor_.resize(states_[s].tensor.index() + 1, s);
  }
  first_of_tensor_.resize(counted_.subjects().size() + 1, states_.size());
  sums_ = std::vector<Sums>(states_.size());
}

// Writes are sorted by tensor, but for the further tensors of fused shards: most states are listed once.
void StateDigests::ListStates() {
  const StateFeeds feeds(plan_);
  auto list = [&](TensorId id, const StateBuffer& entry) {
    std::size_t known = states_.size();
    while (known > 0 && states_[known - 1].tensor == id && states_[known - 1].name != entry.state) --known;
    const bool is_known = known > 0 && states_[known - 1].tensor == id;
    State& state = is_known ? states_[known - 1] : states_.emplace_back();
    const DType dtype = plan_.target.buffer(entry.buffer).dtype;
    const TensorId tensor = counted_.subjects().TensorOf(id);
    const DType source_dtype = feeds.SourceDType(tensor, entry.state).value_or(dtype);
    Arithmetic arithmetic = plan_.tensor(tensor).arithmetic;
    if (!FollowsOffset(entry.state)) arithmetic.offset = 0;
    const bool is_changed = dtype != source_dtype || arithmetic != Arithmetic{};
    state = {id, entry.state, is_changed && arithmetic.terms == 1, dtype, source_dtype};
  };
  for (std::size_t w = 0; w < plan_.writes.size(); ++w) {
    const PlanWrite& write = plan_.writes[w];
    if (plan_.LocalElements(write) == 0) continue;
    if (const std::optional<TensorId> own = counted_.subjects().OwnOf(w)) {
      for (const StateBuffer& entry : plan_.target.buffer_set(write.states)) list(*own, entry);
      continue;
    }
    for (std::size_t p = 0; p < write.pieces.size(); ++p) {
      if (p > 0 && write.pieces[p].tensor == write.pieces[p - 1].tensor) continue;
      for (const StateBuffer& entry : plan_.target.buffer_set(write.states)) list(write.pieces[p].tensor, entry);
    }
  }
}

std::size_t StateDigests::IndexOf(TensorId tensor, const std::string& state) const {
  std::size_t index = first_of_tensor_[tensor.index()];
  while (states_[index].name != state) ++index;
  return index;
}

TensorId StateDigests::FirstOf(const TargetRange& range) const {
  return counted_.subjects().OwnOf(range.write).value_or(plan_.writes[range.write].first_tensor());
}

void StateDigests::AddSource(const TargetRange& range, std::span<const std::byte> chunk) {
  // The same for all tensors of a shard.
  const TensorId first = FirstOf(range);
  if (states_[IndexOf(first, range.state)].has_source) Add(range, range.source_dtype, chunk, &Sums::source);
}

void StateDigests::AddTarget(const TargetRange& range, std::span<const std::byte> chunk) {
  Add(range, range.dtype, chunk, &Sums::target);
}

void StateDigests::Add(const TargetRange& range, DType dtype, std::span<const std::byte> chunk,
                       SharedKeyedSum Sums::* sum) {
  const std::int64_t item = ItemBytes(dtype);
  TensorId tensor = FirstOf(range);
  KeyedSum chunk_sum{version_, {}};
  auto add_sum = [&] { (sums_[IndexOf(tensor, range.state)].*sum).Add(chunk_sum); };
  counted_.ForEachRun(range, [&](const CountedRun& run) {
    if (run.tensor != tensor) {
      add_sum();
      chunk_sum = {version_, {}};
      tensor = run.tensor;
    }
    auto begin = static_cast<std::size_t>((run.local - range.begin) * item);
    auto bytes = static_cast<std::size_t>(run.elements * item);
    chunk_sum.AddElements(static_cast<std::uint64_t>(run.logical), static_cast<std::uint64_t>(item),
                          chunk.subspan(begin, bytes));
  });
  add_sum();
}

llvm::Expected<std::vector<StateDigest>> StateDigests::Get(unsigned threads) const {
  constexpr std::size_t kAtATime = 1024;
  std::vector<std::size_t> of_model;  // Other tensors belong to their files' digests.
  for (std::size_t s = 0; s < states_.size(); ++s) {
    const TensorId tensor = counted_.subjects().TensorOf(states_[s].tensor);
    if (plan_.tensor(tensor).logical.kind != TensorKind::kCarried) of_model.push_back(s);
  }
  std::vector<StateDigest> digests(of_model.size());
  const std::size_t stretches = (of_model.size() + kAtATime - 1) / kAtATime;
  UCP_RETURN_IF_ERROR(
      ForEachInParallel(stretches, {threads, nullptr}, [&](unsigned, std::uint64_t stretch) -> llvm::Error {
        const std::size_t end = std::min(of_model.size(), (stretch + 1) * kAtATime);
        for (std::size_t s = stretch * kAtATime; s < end; ++s) digests[s] = DigestOf(of_model[s]);
        return llvm::Error::success();
      }));
  return digests;
}

StateDigest StateDigests::DigestOf(std::size_t index) const {
  const State& state = states_[index];
  const DigestSubjects& subjects = counted_.subjects();
  const std::vector<std::int64_t>& shape = subjects.ShapeOf(state.tensor);
  auto digest = [&](const SharedKeyedSum& sum, DType dtype, const std::string& name) {
    return StateDigestOf(sum.Get(version_), {Name(dtype), shape, name});
  };
  const Sums& sums = sums_[index];
  StateDigest result{subjects.NameOf(state.tensor),
                     state.name,
                     state.dtype,
                     shape,
                     digest(sums.target, state.dtype, state.name),
                     state.source_dtype,
                     ""};
  if (state.has_source) {
    const bool is_of_master = state.name == kWeightState && have_master_[subjects.TensorOf(state.tensor).index()];
    result.source_digest = digest(sums.source, state.source_dtype, is_of_master ? kMasterState : state.name);
  }
  return result;
}

void StateDigests::Save(wire::ByteWriter& writer) const {
  for (std::size_t s = 0; s < states_.size(); ++s) {
    ucp::Add(sums_[s].target.Get(version_), writer);
    if (states_[s].has_source) ucp::Add(sums_[s].source.Get(version_), writer);
  }
}

void StateDigests::Restore(wire::ByteReader& reader) {
  for (std::size_t s = 0; s < states_.size(); ++s) {
    sums_[s].target.Add(TakeSum(reader, version_));
    if (states_[s].has_source) sums_[s].source.Add(TakeSum(reader, version_));
  }
}

std::uint64_t StateDigests::Bytes(const Plan& plan) {
  constexpr std::uint64_t kCopiesInEntry = 3;  // While a journal's entry is made.
  std::uint64_t states = 0;
  for (const PlanTensor& tensor : plan.tensors) states += tensor.logical.states.size() + 1;
  for (const PlanWrite& write : plan.writes) {
    if (write.fused && write.fused->is_tensor) states += plan.target.buffer_set(write.states).size();
  }
  return states * (sizeof(State) + sizeof(Sums) + 96 + kCopiesInEntry * 2 * sizeof(KeyedSum)) + plan.writes.size() * 64;
}

}  // namespace ucp
