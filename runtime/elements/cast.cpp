// Block by block, and it may be in place: a block is taken out whole before anything is put where it was. Narrowing
// casts go from the front, so that a block is put where earlier ones have been taken from; widening ones from the back.
//
//     narrower   [aabbccdd]  ->  [abcd....]        wider   [abcd....]  ->  [aabbccdd]
//
// Blocks are of one size, so that the compiler knows it and can use vectors. All is compiled once for each kind of
// vector unit (Highway's dynamic dispatch): HWY_NAMESPACE is another name each time.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "runtime/elements/cast.cpp"
#include <hwy/foreach_target.h>  // must come before highway.h
#include <hwy/highway.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "runtime/elements/cast.h"
#include "runtime/elements/number_types.h"

HWY_BEFORE_NAMESPACE();
namespace ucp::HWY_NAMESPACE {
namespace {

constexpr std::int64_t kBlockElements = 256;

template <typename From, typename To>
struct CastOnly {
  typename To::Stored operator()(typename From::Stored stored) const { return CastNumber<From, To>(stored); }
};

template <typename From, typename To>
struct AddAndCast {
  using Computed = decltype(To::Load({}));
  using Sum = decltype(From::Load({}) + To::Load({}));
  Sum offset;

  typename To::Stored operator()(typename From::Stored stored) const {
    return To::Store(static_cast<Computed>(static_cast<Sum>(From::Load(stored)) + offset));
  }
};

template <typename From, typename To, typename Change>
void ChangeBlock(const std::byte* source, std::byte* target, std::int64_t begin, std::int64_t elements,
                 const Change& change) {
  std::array<typename From::Stored, kBlockElements> in{};
  std::array<typename To::Stored, kBlockElements> out;
  auto count = static_cast<std::size_t>(elements);
  std::memcpy(in.data(), source + begin * static_cast<std::int64_t>(sizeof in[0]), count * sizeof in[0]);
  for (std::size_t i = 0; i < in.size(); ++i) out[i] = change(in[i]);
  std::memcpy(target + begin * static_cast<std::int64_t>(sizeof out[0]), out.data(), count * sizeof out[0]);
}

template <typename From, typename To, typename Change>
void ChangeAll(const std::byte* source, std::byte* target, std::int64_t elements, const Change& change) {
  std::int64_t blocks = (elements + kBlockElements - 1) / kBlockElements;
  const bool from_the_back = source == target && sizeof(typename To::Stored) > sizeof(typename From::Stored);
  for (std::int64_t i = 0; i < blocks; ++i) {
    std::int64_t begin = (from_the_back ? blocks - 1 - i : i) * kBlockElements;
    ChangeBlock<From, To>(source, target, begin, std::min(kBlockElements, elements - begin), change);
  }
}

void CastElements(const std::byte* source, std::byte* target, std::int64_t elements, DType from, DType to,
                  std::int64_t offset) {
  WithNumberType(from, [&](auto taken) {
    WithNumberType(to, [&](auto put) {
      using From = decltype(taken);
      using To = decltype(put);
      if (offset == 0) return ChangeAll<From, To>(source, target, elements, CastOnly<From, To>());
      const AddAndCast<From, To> change{static_cast<typename AddAndCast<From, To>::Sum>(offset)};
      ChangeAll<From, To>(source, target, elements, change);
    });
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

void Cast(std::span<std::byte> bytes, std::int64_t elements, DType from, DType to, std::int64_t offset) {
  if (from == to && offset == 0) return;
  UCP_CHECK(elements * std::max(ItemBytes(from), ItemBytes(to)) <= static_cast<std::int64_t>(bytes.size()),
            "{} elements from {} to {} in {} bytes", elements, Name(from), Name(to), bytes.size());
  HWY_DYNAMIC_DISPATCH(CastElements)(bytes.data(), bytes.data(), elements, from, to, offset);
}

void CastInto(std::span<std::byte> target, std::span<const std::byte> source, std::int64_t elements, DType from,
              DType to, std::int64_t offset) {
  UCP_CHECK(elements * ItemBytes(from) <= std::ssize(source) && elements * ItemBytes(to) <= std::ssize(target),
            "{} elements from {} in {} bytes to {} in {}", elements, Name(from), source.size(), Name(to),
            target.size());
  HWY_DYNAMIC_DISPATCH(CastElements)(source.data(), target.data(), elements, from, to, offset);
}

}  // namespace ucp
#endif
