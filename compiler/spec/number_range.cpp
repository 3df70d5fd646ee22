#include "compiler/spec/number_range.h"

#include <algorithm>
#include <charconv>
#include <numeric>

#include "compiler/support/checked_math.h"

namespace ucp {
namespace {

constexpr std::size_t kMaxTerms = 64;  // Beyond that nobody can tell by looking either.

bool AddTerm(Polynomial& sum, const std::vector<std::size_t>& dims, std::int64_t factor) {
  auto total = CheckedAdd(sum[dims], factor);
  if (!total) return false;
  sum[dims] = *total;
  if (*total == 0) sum.erase(dims);
  return sum.size() <= kMaxTerms;
}

std::optional<Polynomial> Add(Polynomial a, const Polynomial& b, std::int64_t sign) {
  for (const auto& [dims, factor] : b) {
    auto signed_factor = CheckedMultiply(factor, sign);
    if (!signed_factor || !AddTerm(a, dims, *signed_factor)) return std::nullopt;
  }
  return a;
}

std::optional<Polynomial> Multiply(const Polynomial& a, const Polynomial& b) {
  Polynomial product;
  for (const auto& [left, left_factor] : a) {
    for (const auto& [right, right_factor] : b) {
      auto factor = CheckedMultiply(left_factor, right_factor);
      std::vector<std::size_t> dims(left);
      dims.insert(dims.end(), right.begin(), right.end());
      std::sort(dims.begin(), dims.end());
      if (!factor || dims.size() > kMaxTerms || !AddTerm(product, dims, *factor)) return std::nullopt;
    }
  }
  return product;
}

Polynomial Constant(std::int64_t number) { return number == 0 ? Polynomial{} : Polynomial{{{}, number}}; }

std::optional<Polynomial> FoldOperands(const Formula& formula) {
  bool sum = formula.kind == Formula::Kind::kSum;
  std::optional<Polynomial> total = Constant(sum ? 0 : 1);
  for (std::size_t i = 0; i < formula.operands.size() && total; ++i) {
    Formula::Operator op = formula.operators[i];
    auto operand = ToPolynomial(formula.operands[i]);
    if (!operand || op == Formula::Operator::kDivide || op == Formula::Operator::kModulo) return std::nullopt;
    total =
        sum ? Add(std::move(*total), *operand, op == Formula::Operator::kMinus ? -1 : 1) : Multiply(*total, *operand);
  }
  return total;
}

// Whether a - b is a positive number whatever the dims are.
bool AlwaysAbove(const std::optional<Polynomial>& a, const std::optional<Polynomial>& b) {
  if (!a || !b) return false;
  auto difference = Add(*a, *b, -1);
  return difference && difference->size() == 1 && difference->begin()->first.empty() && difference->begin()->second > 0;
}

// Even and odd numbers never meet, nor do multiples of 4 and those with 2 more.
bool AreInOtherClasses(const NumberRange& a, const NumberRange& b) {
  const std::int64_t common = std::gcd(a.step, b.step);
  if (!a.low || !b.low || common <= 1) return false;
  auto difference = Add(*a.low, *b.low, -1);
  const bool is_constant = difference && difference->size() == 1 && difference->begin()->first.empty();
  return is_constant && difference->begin()->second % common != 0;
}

}  // namespace

std::optional<Polynomial> ToPolynomial(const Formula& formula) {
  switch (formula.kind) {
    case Formula::Kind::kNumber:
      return Constant(formula.number);
    case Formula::Kind::kDim:
      return Polynomial{{{formula.index}, 1}};
    case Formula::Kind::kSum:
    case Formula::Kind::kProduct:
      return FoldOperands(formula);
    case Formula::Kind::kElement:
    case Formula::Kind::kLength:
    case Formula::Kind::kCount:
    case Formula::Kind::kCeil:
    case Formula::Kind::kCounter:
    case Formula::Kind::kAxisSize:
    case Formula::Kind::kPad:
    case Formula::Kind::kCut:
      return std::nullopt;
  }
  return std::nullopt;
}

NumberRange RangeOf(const PatternPiece& number, const std::vector<Counter>& counters) {
  if (!number.counts) {
    auto value = ToPolynomial(number.number);
    return {value, value, 0};
  }
  // A capture prints its counter, or a multiple of it, and an offset.
  const Formula& printed = number.number;
  const bool has_offset = printed.kind == Formula::Kind::kSum;
  const Formula& counted = has_offset ? printed.operands[0] : printed;
  const std::int64_t factor = counted.kind == Formula::Kind::kProduct ? counted.operands[0].number : 1;
  auto offset = has_offset ? ToPolynomial(printed.operands[1]) : Constant(0);
  auto count = ToPolynomial(counters[number.counter].count);
  if (!offset) return {offset, std::nullopt, factor};
  auto last = count ? Add(*count, Constant(1), -1) : std::nullopt;
  auto span = last ? Multiply(*last, Constant(factor)) : std::nullopt;
  return {offset, span ? Add(*offset, *span, 1) : std::nullopt, factor};
}

NumberRange RangeOf(std::string_view digits) {
  std::int64_t value = 0;
  auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error != std::errc{}) return {};
  return {Constant(value), Constant(value), 0};
}

bool NeverMeet(const NumberRange& a, const NumberRange& b) {
  return AlwaysAbove(a.low, b.high) || AlwaysAbove(b.low, a.high) || AreInOtherClasses(a, b);
}

}  // namespace ucp
