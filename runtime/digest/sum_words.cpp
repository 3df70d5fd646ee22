// Compiled once for each kind of vector unit (Highway's dynamic dispatch): below, HWY_NAMESPACE is another name each
// time.
//
// A vector unit multiplies the even 32-bit words of a vector into 64-bit products. So two words are one 64-bit number,
// the odd one is shifted down, and the keys of even and odd words lie apart, each in 64 bits.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "runtime/digest/sum_words.cpp"
#include <hwy/foreach_target.h>  // must come before highway.h
#include <hwy/highway.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>

#include "runtime/digest/sum_words.h"
#include "runtime/digest/sum_words_keys.h"

HWY_BEFORE_NAMESPACE();
namespace ucp::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

// Adds `pairs` pairs of words from pair `first` of a block on; without the block's own factor.
void SumPairs(const std::byte* bytes, std::size_t first, std::size_t pairs, SumLanes& sums) {
  std::size_t done = 0;
#if HWY_TARGET != HWY_SCALAR
  const hn::ScalableTag<std::uint64_t> d;
  const hn::Repartition<std::uint8_t, decltype(d)> d_bytes;
  const hn::Repartition<std::uint32_t, decltype(d)> d_words;
  const std::size_t width = hn::Lanes(d);
  auto sum0 = hn::Zero(d);
  auto sum1 = hn::Zero(d);
  auto sum2 = hn::Zero(d);
  auto sum3 = hn::Zero(d);
  // Not SumOfLanes(): g++'s own header adds signed numbers there, which must not overflow.
  auto total = [&](auto sum) HWY_ATTR {
    std::array<std::uint64_t, hn::MaxLanes(d)> lanes{};
    hn::StoreU(sum, d, lanes.data());
    return std::accumulate(lanes.begin(), lanes.end(), std::uint64_t{0});
  };
  auto term = [&](auto even, auto odd, const PairKeys& keys, std::size_t pair) HWY_ATTR {
    auto even_key = hn::BitCast(d_words, hn::LoadU(d, keys.even.data() + pair));
    auto odd_key = hn::BitCast(d_words, hn::LoadU(d, keys.odd.data() + pair));
    return hn::Add(hn::MulEven(even, even_key), hn::MulEven(odd, odd_key));
  };
  for (; done + width <= pairs; done += width) {
    auto both = hn::BitCast(d, hn::LoadU(d_bytes, reinterpret_cast<const std::uint8_t*>(bytes) + done * 8));
    auto even = hn::BitCast(d_words, both);
    auto odd = hn::BitCast(d_words, hn::ShiftRight<32>(both));
    sum0 = hn::Add(sum0, term(even, odd, kPairKeys[0], first + done));
    sum1 = hn::Add(sum1, term(even, odd, kPairKeys[1], first + done));
    sum2 = hn::Add(sum2, term(even, odd, kPairKeys[2], first + done));
    sum3 = hn::Add(sum3, term(even, odd, kPairKeys[3], first + done));
  }
  sums[0] += total(sum0);
  sums[1] += total(sum1);
  sums[2] += total(sum2);
  sums[3] += total(sum3);
#endif
  for (; done < pairs; ++done) {
    std::array<std::uint32_t, 2> words{};
    std::memcpy(words.data(), bytes + done * 8, 8);
    for (std::size_t lane = 0; lane < sums.size(); ++lane) {
      sums[lane] += words[0] * kPairKeys[lane].even[first + done] + words[1] * kPairKeys[lane].odd[first + done];
    }
  }
}

}  // namespace
}  // namespace ucp::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ucp {
namespace {

HWY_EXPORT(SumPairs);

std::uint64_t WordKey(std::size_t lane, std::size_t place) {
  return place % 2 == 0 ? kPairKeys[lane].even[place / 2] : kPairKeys[lane].odd[place / 2];
}

}  // namespace

void AddWord(std::uint64_t place, std::uint32_t word, SumLanes& lanes) {
  for (std::size_t lane = 0; lane < lanes.size(); ++lane) {
    lanes[lane] += word * WordKey(lane, place % kBlockWords) * BlockKey(lane, place / kBlockWords);
  }
}

void AddWords(std::uint64_t place, std::span<const std::byte> bytes, SumLanes& lanes) {
  while (bytes.size() >= 4) {
    std::uint64_t in_block = place % kBlockWords;
    std::size_t words = std::min<std::size_t>(kBlockWords - in_block, bytes.size() / 4);
    if (in_block % 2 != 0 || words == 1) {
      std::uint32_t word = 0;
      std::memcpy(&word, bytes.data(), sizeof(word));
      AddWord(place, word, lanes);
      words = 1;
    } else {
      words -= words % 2;
      SumLanes sums{};
      HWY_DYNAMIC_DISPATCH(SumPairs)(bytes.data(), in_block / 2, words / 2, sums);
      for (std::size_t lane = 0; lane < lanes.size(); ++lane) {
        lanes[lane] += sums[lane] * BlockKey(lane, place / kBlockWords);
      }
    }
    place += words;
    bytes = bytes.subspan(words * 4);
  }
}

}  // namespace ucp
#endif
