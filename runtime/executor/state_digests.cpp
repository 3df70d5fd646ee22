#include "runtime/executor/state_digests.h"

namespace ucp {

StateDigests::StateDigests(const Plan& plan) : plan_(plan), counted_(plan) {
  ForEachTargetRange(plan, [&](const TargetRange& range) {
    TensorId id = plan.writes[range.write].tensor;
    Sums& sums = sums_[{id, range.state}];
    const Arithmetic& arithmetic = plan.tensor(id).arithmetic;
    bool is_changed = range.dtype != range.source_dtype || arithmetic != Arithmetic{};
    sums.has_source = is_changed && arithmetic.terms == 1;
    sums.dtype = range.dtype;
    sums.source_dtype = range.source_dtype;
  });
}

void StateDigests::AddSource(const TargetRange& range, std::span<const std::byte> chunk) {
  Sums& sums = sums_.at({plan_.writes[range.write].tensor, range.state});
  if (sums.has_source) Add(range, range.source_dtype, chunk, sums.source);
}

void StateDigests::AddTarget(const TargetRange& range, std::span<const std::byte> chunk) {
  Add(range, range.dtype, chunk, sums_.at({plan_.writes[range.write].tensor, range.state}).target);
}

void StateDigests::Add(const TargetRange& range, DType dtype, std::span<const std::byte> chunk,
                       SharedKeyedSum& sum) const {
  const std::int64_t item = ItemBytes(dtype);
  KeyedSum chunk_sum;
  counted_.ForEachRun(range, [&](const CountedRun& run) {
    auto begin = static_cast<std::size_t>((run.local - range.begin) * item);
    auto bytes = static_cast<std::size_t>(run.elements * item);
    chunk_sum.Add(static_cast<std::uint64_t>(run.logical * item), chunk.subspan(begin, bytes));
  });
  sum.Add(chunk_sum);
}

std::vector<StateDigest> StateDigests::Get() const {
  std::vector<StateDigest> digests;
  for (const auto& [key, sums] : sums_) {
    const LogicalTensor& tensor = plan_.tensor(key.first).logical;
    auto elements = static_cast<std::uint64_t>(ProductSet::Whole(tensor.shape).local_elements());
    auto digest = [&](const SharedKeyedSum& sum, DType dtype) {
      return ElementsDigest(sum.Get(), Name(dtype), elements);
    };
    StateDigest entry{tensor.name, key.second, sums.dtype, digest(sums.target, sums.dtype), sums.source_dtype, ""};
    if (sums.has_source) entry.source_digest = digest(sums.source, sums.source_dtype);
    digests.push_back(std::move(entry));
  }
  return digests;
}

void StateDigests::Save(ProgressWriter& writer) const {
  for (const auto& [key, sums] : sums_) {
    writer.Add(sums.target.Get());
    writer.Add(sums.source.Get());
  }
}

void StateDigests::Restore(ProgressReader& reader) {
  for (auto& [key, sums] : sums_) {
    sums.target.Add(reader.Sum());
    sums.source.Add(reader.Sum());
  }
}

std::uint64_t StateDigests::Bytes(const Plan& plan) {
  constexpr std::uint64_t kCopiesInEntry = 3;  // While a journal's entry is made.
  std::uint64_t states = 0;
  for (const PlanTensor& tensor : plan.tensors) states += tensor.logical.states.size() + 1;
  return states * (sizeof(Sums) + 128 + kCopiesInEntry * 2 * sizeof(KeyedSum)) + plan.writes.size() * 64;
}

}  // namespace ucp
