// How large a bucket may grow depends on settings that are not saved. The sizes of the buckets say where each ends:
// with a parameter, or, before a copy of a tied embedding, with the place where that would have begun.
#include "compiler/formats/megatron/rules/buckets.h"

#include <fmt/format.h>

namespace ucp::megatron {
namespace {

constexpr std::int64_t kAlignment = 64;

std::int64_t Aligned(std::int64_t at) { return (at + kAlignment - 1) / kAlignment * kAlignment; }

}  // namespace

Placing FillBuckets(llvm::ArrayRef<std::int64_t> elements, llvm::ArrayRef<std::int64_t> buckets) {
  Placing placing;
  placing.places.resize(elements.size());
  std::size_t bucket = 0;
  std::int64_t end = 0;
  for (std::size_t i = elements.size(); i-- > 0;) {
    std::int64_t begin = Aligned(end);
    const bool is_full = bucket < buckets.size() && end > 0 && (end == buckets[bucket] || begin == buckets[bucket]);
    if (is_full) {
      ++bucket;
      begin = 0;
    }
    if (bucket == buckets.size()) {
      placing.unread = fmt::format("{} buckets are stored, and the parameters fill more", buckets.size());
      return placing;
    }
    if (elements[i] > buckets[bucket] - begin) {
      placing.unread =
          fmt::format("bucket {} would have a parameter of {} elements from element {} on, and {} elements are stored",
                      bucket, elements[i], begin, buckets[bucket]);
      return placing;
    }
    end = begin + elements[i];
    placing.places[i] = {bucket, begin};
  }
  const bool are_all_full = bucket + 1 == buckets.size() && end == buckets[bucket];
  if (!are_all_full) {
    placing.unread = fmt::format(
        "the parameters end at element {} of bucket {}, and {} buckets are stored, the last of "
        "{} elements",
        end, bucket, buckets.size(), buckets.empty() ? 0 : buckets.back());
  }
  return placing;
}

Buckets DealIntoBuckets(llvm::ArrayRef<std::int64_t> elements, const std::vector<bool>& are_alone,
                        std::optional<std::int64_t> most) {
  Buckets dealt;
  dealt.places.resize(elements.size());
  std::int64_t end = 0;
  for (std::size_t i = elements.size(); i-- > 0;) {
    std::int64_t begin = Aligned(end);
    if (are_alone[i] && end > 0) {
      dealt.sizes.push_back(begin);
      begin = 0;
    }
    dealt.places[i] = {dealt.sizes.size(), begin};
    end = begin + elements[i];
    if (!are_alone[i] && (!most || end < *most)) continue;
    dealt.sizes.push_back(end);
    end = 0;
  }
  if (end > 0) dealt.sizes.push_back(end);
  return dealt;
}

}  // namespace ucp::megatron
