#include "runtime/difference/difference_sum.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "runtime/difference/widen.h"
#include "runtime/elements/cast.h"

namespace ucp {
namespace {

using Numbers = std::array<double, DifferenceSum::kBlockElements>;

template <typename Lanes>
double SumOf(const Lanes& lanes) {
  double sum = 0;
  for (double lane : lanes) sum += lane;
  return sum;
}

// Without branches, so that loops become vectors.
double SquareIfFinite(double number) {
  const double square = number * number;
  return std::abs(number) <= std::numeric_limits<double>::max() ? square : 0;
}

}  // namespace

void Difference::Append(const Difference& next) {
  elements += next.elements;
  not_finite += next.not_finite;
  squares += next.squares;
  squares_of_a += next.squares_of_a;
  not_cast += next.not_cast;
  if (first.place < 0) first = next.first;
  if (first_not_cast.place < 0) first_not_cast = next.first_not_cast;
  if (next.largest > largest) {
    largest = next.largest;
    at_largest = next.at_largest;
  }
}

DifferenceSum::DifferenceSum(DType a, DType b, DeclaredCast cast)
    : dtype_a_(a),
      dtype_b_(b),
      cast_(cast),
      bytes_a_(ItemBytes(a)),
      bytes_b_(ItemBytes(b)),
      has_numbers_(CanWiden(a) && CanWiden(b)) {}

void DifferenceSum::Add(const std::byte* a, const std::byte* b, std::int64_t count, std::int64_t place) {
  for (std::int64_t done = 0; done < count; done += kBlockElements) {
    AddBlock(a + done * bytes_a_, b + done * bytes_b_, std::min(kBlockElements, count - done), place + done);
  }
}

Difference DifferenceSum::Get() const {
  Difference difference = found_;
  difference.squares = SumOf(squares_);
  difference.squares_of_a = SumOf(squares_of_a_);
  return difference;
}

void DifferenceSum::AddBlock(const std::byte* a, const std::byte* b, std::int64_t count, std::int64_t place) {
  if (cast_ != DeclaredCast::kNone) CheckCast(a, b, count, place);
  if (has_numbers_) {
    AddNumbers(a, b, count, place);
    return;
  }
  for (std::int64_t i = 0; i < count; ++i) {
    const std::byte* at_a = a + i * bytes_a_;
    const std::byte* at_b = b + i * bytes_b_;
    if (AreSame(at_a, at_b, 0, 0)) continue;
    if (found_.elements++ == 0) found_.first = PairAt(at_a, at_b, place + i);
    ++found_.not_finite;
  }
}

void DifferenceSum::CheckCast(const std::byte* a, const std::byte* b, std::int64_t count, std::int64_t place) {
  const bool is_of_b = cast_ == DeclaredCast::kOfB;
  const DType from = is_of_b ? dtype_a_ : dtype_b_;
  const DType to = is_of_b ? dtype_b_ : dtype_a_;
  const auto item = static_cast<std::size_t>(ItemBytes(to));
  const auto elements = static_cast<std::size_t>(count);
  std::array<std::byte, kBlockElements * sizeof(double)> right{};
  const std::span source(is_of_b ? a : b, elements * static_cast<std::size_t>(ItemBytes(from)));
  CastInto(right, source, count, from, to);
  const std::byte* const held = is_of_b ? b : a;
  if (std::memcmp(right.data(), held, elements * item) == 0) return;
  auto number_at = [&](const std::byte* at) {
    double number = 0;
    Widen(to, at, 1, &number);
    return number;
  };
  for (std::size_t i = 0; i < elements; ++i) {
    const std::byte* const at_right = right.data() + i * item;
    const std::byte* const at_held = held + i * item;
    if (std::memcmp(at_right, at_held, item) == 0) continue;
    if (std::isnan(number_at(at_right)) && std::isnan(number_at(at_held))) continue;
    const auto element = static_cast<std::int64_t>(i);
    if (found_.not_cast++ == 0) {
      found_.first_not_cast = PairAt(a + element * bytes_a_, b + element * bytes_b_, place + element);
    }
  }
}

void DifferenceSum::AddNumbers(const std::byte* a, const std::byte* b, std::int64_t count, std::int64_t place) {
  Numbers numbers_a{};  // Behind the last element are zeros, which count nothing.
  Widen(dtype_a_, a, count, numbers_a.data());
  for (std::size_t i = 0; i < numbers_a.size(); i += kLanes) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) squares_of_a_[lane] += SquareIfFinite(numbers_a[i + lane]);
  }
  if (dtype_a_ == dtype_b_ && std::memcmp(a, b, static_cast<std::size_t>(count * bytes_a_)) == 0) return;
  Numbers numbers_b{};
  Widen(dtype_b_, b, count, numbers_b.data());
  for (std::size_t i = 0; i < numbers_a.size(); i += kLanes) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      squares_[lane] += SquareIfFinite(numbers_a[i + lane] - numbers_b[i + lane]);
    }
  }
  for (std::int64_t i = 0; i < count; ++i) {
    const double number_a = numbers_a[static_cast<std::size_t>(i)];
    const double number_b = numbers_b[static_cast<std::size_t>(i)];
    const std::byte* at_a = a + i * bytes_a_;
    const std::byte* at_b = b + i * bytes_b_;
    if (AreSame(at_a, at_b, number_a, number_b)) continue;
    if (found_.elements++ == 0) found_.first = PairAt(at_a, at_b, place + i);
    const double difference = std::abs(number_a - number_b);
    if (!std::isfinite(difference)) {
      ++found_.not_finite;
    } else if (difference > found_.largest) {
      found_.largest = difference;
      found_.at_largest = PairAt(at_a, at_b, place + i);
    }
  }
}

bool DifferenceSum::AreSame(const std::byte* a, const std::byte* b, double number_a, double number_b) const {
  if (dtype_a_ == dtype_b_) return std::memcmp(a, b, static_cast<std::size_t>(bytes_a_)) == 0;
  if (!has_numbers_) return false;
  return number_a == number_b || (std::isnan(number_a) && std::isnan(number_b));
}

ElementPair DifferenceSum::PairAt(const std::byte* a, const std::byte* b, std::int64_t place) const {
  ElementPair pair;
  pair.place = place;
  std::memcpy(pair.a.data(), a, static_cast<std::size_t>(bytes_a_));
  std::memcpy(pair.b.data(), b, static_cast<std::size_t>(bytes_b_));
  return pair;
}

}  // namespace ucp
