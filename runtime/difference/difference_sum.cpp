#include "runtime/difference/difference_sum.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "runtime/difference/widen.h"

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
  if (first.place < 0) first = next.first;
  if (next.largest > largest) {
    largest = next.largest;
    at_largest = next.at_largest;
  }
}

DifferenceSum::DifferenceSum(DType a, DType b)
    : dtype_a_(a),
      dtype_b_(b),
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
