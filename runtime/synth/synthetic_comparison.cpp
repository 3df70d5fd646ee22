#include "runtime/synth/synthetic_comparison.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "compiler/support/error.h"

namespace ucp {
namespace {

constexpr std::size_t kComparedBytes = 4096;  // Whole elements of any dtype.

// Elements of `is` that differ from `should_be`; the first of both is element `first` of the tensor.
WrongElements WrongIn(std::int64_t first, std::size_t item_bytes, std::span<const std::byte> is,
                      std::span<const std::byte> should_be) {
  WrongElements wrong;
  for (std::size_t i = 0; i + item_bytes <= is.size(); i += item_bytes) {
    const auto a = is.subspan(i, item_bytes);
    const auto b = should_be.subspan(i, item_bytes);
    if (std::ranges::equal(a, b) || wrong.count++ > 0) continue;
    wrong.first = first + static_cast<std::int64_t>(i / item_bytes);
    wrong.was.assign(a.begin(), a.end());
    wrong.should_be.assign(b.begin(), b.end());
  }
  return wrong;
}

}  // namespace

llvm::Expected<SyntheticComparison> SyntheticComparison::Make(const Plan& plan) {
  SyntheticComparison comparison;
  comparison.values_.resize(plan.target.records.size());
  for (const PlanWrite& write : plan.writes) {
    const std::string& tensor = plan.tensor(write.first_tensor()).logical.name;
    for (const StateBuffer& entry : plan.target.buffer_set(write.states)) {
      const Buffer& buffer = plan.target.buffer(entry.buffer);
      UCP_ASSIGN_OR_RETURN(SyntheticValues values, SyntheticValues::Make(tensor, entry.state, buffer.dtype));
      comparison.values_[buffer.parts.front().record.index()] = values;
    }
  }
  return comparison;
}

void SyntheticComparison::Compare(const TargetRange& range, std::span<const std::byte> bytes) {
  const SyntheticValues& values = *values_[range.record.index()];
  const auto item_bytes = static_cast<std::size_t>(ItemBytes(range.dtype));
  std::array<std::byte, kComparedBytes> block;
  for (std::size_t at = 0; at < bytes.size(); at += kComparedBytes) {
    const std::span<const std::byte> is = bytes.subspan(at, std::min(kComparedBytes, bytes.size() - at));
    const std::span<std::byte> should_be = std::span(block).first(is.size());
    const std::int64_t first = range.record_element + static_cast<std::int64_t>(at / item_bytes);
    values.Fill(first, should_be);
    if (std::memcmp(is.data(), should_be.data(), is.size()) == 0) continue;
    WrongElements here = WrongIn(first, item_bytes, is, should_be);
    std::scoped_lock lock(*mutex_);
    WrongElements& all = (*wrong_)[range.record];
    const std::uint64_t count = all.count + here.count;
    if (all.count == 0 || here.first < all.first) all = std::move(here);
    all.count = count;
  }
}

}  // namespace ucp
