#include "runtime/executor/state_digests.h"

#include <algorithm>

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
  first_of_tensor_.reserve(plan.tensors.size() + 1);
  ForEachTargetRange(plan, [&](const TargetRange& range) {
    const TensorId id = plan.writes[range.write].tensor;
    // Writes are sorted by tensor.
    if (first_of_tensor_.size() <= id.index()) first_of_tensor_.resize(id.index() + 1, states_.size());
    const std::size_t known = IndexOf(range);
    State& state = known < states_.size() ? states_[known] : states_.emplace_back();
    const Arithmetic& arithmetic = plan.tensor(id).arithmetic;
    const bool is_changed = range.dtype != range.source_dtype || arithmetic != Arithmetic{};
    state = {id, range.state, is_changed && arithmetic.terms == 1, range.dtype, range.source_dtype};
  });
  first_of_tensor_.resize(plan.tensors.size() + 1, states_.size());
  const auto by_name = [](const State& a, const State& b) { return a.name < b.name; };
  for (std::size_t t = 0; t < plan.tensors.size(); ++t) {
    const auto begin = states_.begin();
    std::sort(begin + static_cast<std::ptrdiff_t>(first_of_tensor_[t]),
              begin + static_cast<std::ptrdiff_t>(first_of_tensor_[t + 1]), by_name);
  }
  sums_ = std::vector<Sums>(states_.size());
}

// Of a range's tensor and state; behind the last one if there is none yet.
std::size_t StateDigests::IndexOf(const TargetRange& range) const {
  std::size_t index = first_of_tensor_[plan_.writes[range.write].tensor.index()];
  while (index < states_.size() && states_[index].name != range.state) ++index;
  return index;
}

void StateDigests::AddSource(const TargetRange& range, std::span<const std::byte> chunk) {
  const std::size_t index = IndexOf(range);
  if (states_[index].has_source) Add(range, range.source_dtype, chunk, sums_[index].source);
}

void StateDigests::AddTarget(const TargetRange& range, std::span<const std::byte> chunk) {
  Add(range, range.dtype, chunk, sums_[IndexOf(range)].target);
}

void StateDigests::Add(const TargetRange& range, DType dtype, std::span<const std::byte> chunk,
                       SharedKeyedSum& sum) const {
  const std::int64_t item = ItemBytes(dtype);
  KeyedSum chunk_sum{version_, {}};
  counted_.ForEachRun(range, [&](const CountedRun& run) {
    auto begin = static_cast<std::size_t>((run.local - range.begin) * item);
    auto bytes = static_cast<std::size_t>(run.elements * item);
    chunk_sum.AddElements(static_cast<std::uint64_t>(run.logical), static_cast<std::uint64_t>(item),
                          chunk.subspan(begin, bytes));
  });
  sum.Add(chunk_sum);
}

llvm::Expected<std::vector<StateDigest>> StateDigests::Get(unsigned threads) const {
  constexpr std::size_t kAtATime = 1024;
  std::vector<std::size_t> told;  // What is no model's is its files' affair.
  for (std::size_t s = 0; s < states_.size(); ++s) {
    if (plan_.tensor(states_[s].tensor).logical.kind != TensorKind::kCarried) told.push_back(s);
  }
  std::vector<StateDigest> digests(told.size());
  const std::size_t stretches = (told.size() + kAtATime - 1) / kAtATime;
  UCP_RETURN_IF_ERROR(
      ForEachInParallel(stretches, {threads, nullptr}, [&](unsigned, std::uint64_t stretch) -> llvm::Error {
        const std::size_t end = std::min(told.size(), (stretch + 1) * kAtATime);
        for (std::size_t s = stretch * kAtATime; s < end; ++s) digests[s] = DigestOf(told[s]);
        return llvm::Error::success();
      }));
  return digests;
}

StateDigest StateDigests::DigestOf(std::size_t index) const {
  const State& state = states_[index];
  const LogicalTensor& tensor = plan_.tensor(state.tensor).logical;
  auto digest = [&](const SharedKeyedSum& sum, DType dtype, const std::string& name) {
    return StateDigestOf(sum.Get(version_), {Name(dtype), tensor.shape, name});
  };
  const Sums& sums = sums_[index];
  StateDigest result{
      tensor.name,        state.name, state.dtype, tensor.shape, digest(sums.target, state.dtype, state.name),
      state.source_dtype, ""};
  if (state.has_source) {
    const bool is_of_master = state.name == kWeightState && have_master_[state.tensor.index()];
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
  return states * (sizeof(State) + sizeof(Sums) + 96 + kCopiesInEntry * 2 * sizeof(KeyedSum)) + plan.writes.size() * 64;
}

}  // namespace ucp
