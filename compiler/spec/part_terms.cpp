#include "compiler/spec/part_terms.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "compiler/support/checked_math.h"

namespace ucp {
namespace {

using Kind = Formula::Kind;

// Of one formula, or of a row of dimensions: terms that stand in it, each at its begin.
struct Branch {
  std::string part;
  SourceRange range;
  std::vector<TermFactor> factors;
  std::int64_t begin = 0;
};
using Branches = std::vector<Branch>;

}  // namespace

// One shape on its way. The first problem stops it.
class PartTerms::Walk {
 public:
  Walk(const CheckedSpec& spec, LengthOfNumber length) : spec_(spec), length_(length) {}

  std::optional<TermProblem> problem;
  bool failed = false;  // Without a problem: a length could not be told.

  Branches Of(const Formula& formula) {
    if (formula.label.empty()) return OfUnlabelled(formula);
    if (FindPart(spec_, formula.label)) return OfPart(formula);
    TermFactor factor{formula.label, formula.range, LengthOf(formula), dim_, 1};
    return {Branch{"", {}, {std::move(factor)}, 0}};
  }

  std::vector<PartTerm> OfShape(const std::vector<Formula>& dims, const std::string& part, SourceRange range) {
    std::vector<PartTerm> terms = {{part, range, {}, std::vector<std::int64_t>(dims.size(), 0)}};
    for (dim_ = 0; dim_ < dims.size() && !Stopped(); ++dim_) terms = Joined(terms, Of(dims[dim_]));
    return terms;
  }

  bool Stopped() const { return failed || problem.has_value(); }

  std::int64_t LengthOf(const Formula& formula) {
    std::optional<std::int64_t> length;
    switch (formula.kind) {
      case Kind::kCut:
      case Kind::kPad:
        return LengthOf(formula.operands[0]);
      case Kind::kSum:
      case Kind::kProduct:
        if (IsPlain(formula)) return LengthOfAll(formula);
        [[fallthrough]];
      default:
        length = length_(formula);
    }
    if (!length) failed = true;
    return length.value_or(0);
  }

 private:
  static bool IsPlain(const Formula& formula) {
    return std::ranges::all_of(formula.operators, [](Formula::Operator op) {
      return op == Formula::Operator::kPlus || op == Formula::Operator::kTimes;
    });
  }

  std::int64_t LengthOfAll(const Formula& formula) {
    std::int64_t total = formula.kind == Kind::kSum ? 0 : 1;
    for (const Formula& operand : formula.operands) {
      const std::int64_t length = LengthOf(operand);
      total = formula.kind == Kind::kSum ? Checked(CheckedAdd(total, length), formula)
                                         : Checked(CheckedMultiply(total, length), formula);
    }
    return total;
  }

  std::int64_t Checked(std::optional<std::int64_t> number, const Formula& formula) {
    if (!number) Stop(TermProblem::Kind::kTooLarge, formula.range, "this does not fit in 63 bits");
    return number.value_or(0);
  }

  void Stop(TermProblem::Kind kind, SourceRange range, std::string message, std::string hint = {}) {
    if (!problem) problem = {kind, range, std::move(message), std::move(hint)};
  }

  Branches OfUnlabelled(const Formula& formula) {
    switch (formula.kind) {
      case Kind::kCut:
      case Kind::kPad:
        return Of(formula.operands[0]);
      case Kind::kDim:
        return {Branch{"", {}, FactorsOfDim(formula), 0}};
      case Kind::kNumber:
        if (formula.number == 1) return {Branch{}};
        return Unlabelled(formula);
      case Kind::kProduct:
        return IsPlain(formula) ? OfProduct(formula) : Unlabelled(formula);
      case Kind::kSum:
        return HasPart(formula) && IsPlain(formula) ? OfSum(formula) : Unlabelled(formula);
      default:
        return Unlabelled(formula);
    }
  }

  Branches OfPart(const Formula& formula) {
    Branches branches = OfUnlabelled(formula);
    for (Branch& branch : branches) {
      if (!branch.part.empty()) return TwoLabels(branch.range, formula.label_range);
      branch.part = formula.label;
      branch.range = formula.label_range;
    }
    return branches;
  }

  bool HasPart(const Formula& formula) const {
    return FindPart(spec_, formula.label).has_value() ||
           std::ranges::any_of(formula.operands, [&](const Formula& operand) { return HasPart(operand); });
  }

  Branches Unlabelled(const Formula& formula) {
    Stop(TermProblem::Kind::kUnlabelled, formula.range,
         fmt::format("`{}` does not say which of its places are which: it is neither a dim nor labelled",
                     spec_.TextOf(formula.range)),
         "label the parts, as in `gate: ffn + up: ffn`, or name the factor, as in `kernel: 4`");
    return {};
  }

  Branches TwoLabels(SourceRange one, SourceRange other) {
    Stop(TermProblem::Kind::kTwoLabels, other,
         fmt::format("places that are of the part `{}` cannot be of `{}` as well", spec_.TextOf(one),
                     spec_.TextOf(other)));
    return {};
  }

  // Terms of a sum stand one behind the other.
  Branches OfSum(const Formula& formula) {
    Branches branches;
    std::int64_t before = 0;
    for (const Formula& operand : formula.operands) {
      for (Branch& branch : Of(operand)) {
        branch.begin += before;
        branches.push_back(std::move(branch));
      }
      before = Checked(CheckedAdd(before, LengthOf(operand)), formula);
    }
    return branches;
  }

  // Every factor multiplies the strides of those before it.
  Branches OfProduct(const Formula& formula) {
    Branches all = {Branch{}};
    for (const Formula& operand : formula.operands) {
      const std::int64_t length = LengthOf(operand);
      for (Branch& branch : all) {
        branch.begin = Checked(CheckedMultiply(branch.begin, length), formula);
        for (TermFactor& factor : branch.factors) {
          factor.stride = Checked(CheckedMultiply(factor.stride, length), formula);
        }
      }
      all = Multiplied(all, Of(operand));
    }
    return all;
  }

  Branches Multiplied(const Branches& outer, const Branches& inner) {
    Branches all;
    for (const Branch& a : outer) {
      for (const Branch& b : inner) {
        if (!a.part.empty() && !b.part.empty()) return TwoLabels(a.range, b.range);
        Branch& joined = all.emplace_back(a);
        if (a.part.empty()) std::tie(joined.part, joined.range) = std::pair(b.part, b.range);
        joined.factors.insert(joined.factors.end(), b.factors.begin(), b.factors.end());
        joined.begin += b.begin;
      }
    }
    return all;
  }

  std::vector<PartTerm> Joined(const std::vector<PartTerm>& terms, const Branches& branches) {
    std::vector<PartTerm> all;
    for (const PartTerm& term : terms) {
      for (const Branch& branch : branches) {
        if (!term.part.empty() && !branch.part.empty()) {
          TwoLabels(term.range, branch.range);
          return {};
        }
        PartTerm& joined = all.emplace_back(term);
        if (term.part.empty()) std::tie(joined.part, joined.range) = std::pair(branch.part, branch.range);
        joined.factors.insert(joined.factors.end(), branch.factors.begin(), branch.factors.end());
        joined.begin[dim_] = branch.begin;
      }
    }
    return all;
  }

  std::vector<TermFactor> FactorsOfDim(const Formula& formula) {
    const std::vector<std::size_t> product = ProductOfDims(spec_.dims[formula.index]);
    Deeper deeper(depth_);
    if (depth_ > spec_.dims.size()) failed = true;  // A cycle, which is reported elsewhere.
    if (product.empty() || Stopped())
      return {{spec_.dims[formula.index].name, formula.range, LengthOf(formula), dim_, 1}};
    std::vector<TermFactor> factors;
    Formula dim = formula;
    dim.label.clear();
    for (const std::size_t index : product) {
      dim.index = index;
      const std::int64_t length = LengthOf(dim);
      for (TermFactor& factor : factors) factor.stride = Checked(CheckedMultiply(factor.stride, length), formula);
      for (TermFactor& factor : FactorsOfDim(dim)) factors.push_back(std::move(factor));
      if (factors.size() <= kMostFactors) continue;
      Stop(TermProblem::Kind::kTooLarge, formula.range, fmt::format("this has more than {} factors", kMostFactors));
      break;
    }
    return factors;
  }

  // How far definitions of dims lead to others.
  struct Deeper {
    explicit Deeper(std::size_t& counted) : depth(counted) { ++depth; }
    ~Deeper() { --depth; }
    Deeper(const Deeper&) = delete;
    Deeper& operator=(const Deeper&) = delete;
    std::size_t& depth;
  };
  static constexpr std::size_t kMostFactors = 100;

  const CheckedSpec& spec_;
  LengthOfNumber length_;
  std::size_t dim_ = 0;
  std::size_t depth_ = 0;
};

PartTerms::Terms PartTerms::Of(const TensorDeclaration& tensor, LengthOfNumber length) const {
  Walk walk(spec_, length);
  std::vector<PartTerm> terms = walk.OfShape(tensor.dims, tensor.part, tensor.part_range);
  if (walk.problem) return *walk.problem;
  if (walk.failed) return std::monostate();
  for (const PartTerm& term : terms) {
    if (!term.part.empty()) continue;
    return TermProblem{TermProblem::Kind::kNoPart, tensor.shape_range, "these places are of no part of the model",
                       "label them: [q: heads * head, hidden], or write the part before them: = q [hidden, heads]"};
  }
  return terms;
}

PartTerms::Terms PartTerms::Of(const PartDeclaration& part, LengthOfNumber length) const {
  Walk walk(spec_, length);
  std::vector<PartTerm> terms = walk.OfShape(part.dims, part.name, part.range);
  if (walk.problem) return *walk.problem;
  if (walk.failed) return std::monostate();
  return terms;
}

std::optional<std::int64_t> PartTerms::LengthOf(const Formula& dim, LengthOfNumber length) const {
  Walk walk(spec_, length);
  const std::int64_t found = walk.LengthOf(dim);
  return walk.Stopped() ? std::nullopt : std::optional(found);
}

std::optional<std::vector<TermFactor>> PartTerms::FactorsOf(const Counter& counter, LengthOfNumber length) const {
  Walk walk(spec_, length);
  const Branches branches = walk.Of(counter.count);
  if (walk.Stopped() || branches.size() != 1) return std::nullopt;
  return branches.front().factors;
}

std::optional<std::size_t> FindPart(const CheckedSpec& spec, std::string_view name) {
  if (!spec.model || name.empty()) return std::nullopt;
  const auto found = std::ranges::find(spec.model->parts, name, &PartDeclaration::name);
  if (found == spec.model->parts.end()) return std::nullopt;
  return static_cast<std::size_t>(found - spec.model->parts.begin());
}

std::vector<std::size_t> ProductOfDims(const DimDeclaration& dim) {
  if (!dim.definition || dim.condition || dim.definition->kind != Kind::kProduct) return {};
  std::vector<std::size_t> dims;
  for (std::size_t i = 0; i < dim.definition->operands.size(); ++i) {
    const Formula& operand = dim.definition->operands[i];
    if (operand.kind != Kind::kDim || dim.definition->operators[i] != Formula::Operator::kTimes) return {};
    dims.push_back(operand.index);
  }
  return dims;
}

}  // namespace ucp
