#include "runtime/elements/arithmetic.h"

#include <cstdint>
#include <cstring>

#include "compiler/support/check.h"
#include "runtime/elements/number_types.h"

namespace ucp {
namespace {

// values[i] = change(values[i], i)
template <typename Type, typename Change>
void ForEachElement(std::span<std::byte> values, Change change) {
  using Stored = typename Type::Stored;
  for (std::size_t at = 0; at < values.size(); at += sizeof(Stored)) {
    Stored stored;
    std::memcpy(&stored, values.data() + at, sizeof stored);
    stored = Type::Store(change(Type::Load(stored), at));
    std::memcpy(values.data() + at, &stored, sizeof stored);
  }
}

}  // namespace

void Add(DType dtype, std::span<std::byte> sum, std::span<const std::byte> term) {
  UCP_CHECK(sum.size() == term.size(), "{} bytes and {}", sum.size(), term.size());
  WithNumberType(dtype, [&](auto type) {
    using Type = decltype(type);
    ForEachElement<Type>(sum, [&](auto value, std::size_t at) {
      typename Type::Stored other;
      std::memcpy(&other, term.data() + at, sizeof other);
      return value + Type::Load(other);
    });
  });
}

void Divide(DType dtype, std::span<std::byte> values, double divisor) {
  WithNumberType(dtype, [&](auto type) {
    ForEachElement<decltype(type)>(
        values, [&](auto value, std::size_t) { return value / static_cast<decltype(value)>(divisor); });
  });
}

void Multiply(DType dtype, std::span<std::byte> values, double factor) {
  WithNumberType(dtype, [&](auto type) {
    ForEachElement<decltype(type)>(
        values, [&](auto value, std::size_t) { return value * static_cast<decltype(value)>(factor); });
  });
}

}  // namespace ucp
