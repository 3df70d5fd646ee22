// In place, block by block: a block is taken out whole before anything is put where it was. What becomes narrower is
// done from the front, so that a block is put where earlier ones have been taken from; what becomes wider from the
// back.
//
//     narrower   [aabbccdd]  ->  [abcd....]        wider   [abcd....]  ->  [aabbccdd]
//
// Blocks are of one size, so that the compiler knows it and can use vectors. All is compiled once for each kind of
// vector unit (Highway's dynamic dispatch): HWY_NAMESPACE is another name each time.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "runtime/executor/cast.cpp"
#include <hwy/foreach_target.h>  // must come before highway.h
#include <hwy/highway.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "runtime/executor/cast.h"
#include "runtime/executor/number_types.h"

HWY_BEFORE_NAMESPACE();
namespace ucp::HWY_NAMESPACE {
namespace {

constexpr std::int64_t kBlockElements = 256;

template <typename From, typename To>
void CastBlock(std::byte* bytes, std::int64_t begin, std::int64_t elements) {
  std::array<typename From::Stored, kBlockElements> in{};
  std::array<typename To::Stored, kBlockElements> out;
  auto count = static_cast<std::size_t>(elements);
  std::memcpy(in.data(), bytes + begin * static_cast<std::int64_t>(sizeof in[0]), count * sizeof in[0]);
  for (std::size_t i = 0; i < in.size(); ++i) out[i] = CastNumber<From, To>(in[i]);
  std::memcpy(bytes + begin * static_cast<std::int64_t>(sizeof out[0]), out.data(), count * sizeof out[0]);
}

template <typename From, typename To>
void CastAll(std::byte* bytes, std::int64_t elements) {
  std::int64_t blocks = (elements + kBlockElements - 1) / kBlockElements;
  constexpr bool kGrows = sizeof(typename To::Stored) > sizeof(typename From::Stored);
  for (std::int64_t i = 0; i < blocks; ++i) {
    std::int64_t begin = (kGrows ? blocks - 1 - i : i) * kBlockElements;
    CastBlock<From, To>(bytes, begin, std::min(kBlockElements, elements - begin));
  }
}

void CastElements(std::byte* bytes, std::int64_t elements, DType from, DType to) {
  WithNumberType(from, [&](auto source) {
    WithNumberType(to, [&](auto target) { CastAll<decltype(source), decltype(target)>(bytes, elements); });
  });
}

}  // namespace
}  // namespace ucp::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ucp {
namespace {

HWY_EXPORT(CastElements);

}  // namespace

void Cast(std::span<std::byte> bytes, std::int64_t elements, DType from, DType to) {
  if (from == to) return;
  UCP_CHECK(elements * std::max(ItemBytes(from), ItemBytes(to)) <= static_cast<std::int64_t>(bytes.size()),
            "{} elements from {} to {} in {} bytes", elements, Name(from), Name(to), bytes.size());
  HWY_DYNAMIC_DISPATCH(CastElements)(bytes.data(), elements, from, to);
}

}  // namespace ucp
#endif
