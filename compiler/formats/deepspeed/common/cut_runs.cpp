#include "compiler/formats/deepspeed/common/cut_runs.h"

#include <algorithm>
#include <string>

#include "compiler/support/checked_math.h"

namespace ucp {
namespace {

constexpr std::size_t kMaxRunsOfOne = 4096;

using Runs = std::optional<std::vector<CutRun>>;

bool IsCut(const ShapeExpr& expr) {
  return expr.kind == ShapeExpr::Kind::kCut || std::any_of(expr.operands.begin(), expr.operands.end(), IsCut);
}

template <typename T>
std::optional<T> Optional(llvm::Expected<T> value) {
  if (value) return std::move(*value);
  llvm::consumeError(value.takeError());
  return std::nullopt;
}

Runs RunsOf(const ShapeExpr& expr);

bool Repeat(CutRun& run, std::int64_t times) {
  auto length = CheckedMultiply(run.length, times);
  auto all = CheckedMultiply(run.times, times);
  if (!length || !all) return false;
  run.length = *length;
  run.times = *all;
  return true;
}

// Factors before the one that is cut repeat its runs, factors behind it make them longer.
Runs RunsOfProduct(const ShapeExpr& expr) {
  Runs runs;
  std::int64_t repeats = 1;
  for (const ShapeExpr& factor : expr.operands) {
    if (IsCut(factor)) {
      if (runs) return std::nullopt;
      runs = RunsOf(factor);
      if (!runs) return std::nullopt;
      continue;
    }
    auto length = Optional(LogicalLength(factor));
    if (!length) return std::nullopt;
    if (!runs) {
      auto product = CheckedMultiply(repeats, *length);
      if (!product) return std::nullopt;
      repeats = *product;
      continue;
    }
    for (CutRun& run : *runs) {
      if (!Repeat(run, *length)) return std::nullopt;
    }
  }
  if (!runs || repeats < 1 || static_cast<std::size_t>(repeats) > kMaxRunsOfOne / runs->size()) return std::nullopt;
  std::vector<CutRun> repeated;
  for (std::int64_t i = 0; i < repeats; ++i) repeated.insert(repeated.end(), runs->begin(), runs->end());
  return repeated;
}

Runs RunsOfSum(const ShapeExpr& expr) {
  std::vector<CutRun> all;
  for (const ShapeExpr& term : expr.operands) {
    auto runs = RunsOf(term);
    if (!runs) return std::nullopt;
    all.insert(all.end(), runs->begin(), runs->end());
    if (all.size() > kMaxRunsOfOne) return std::nullopt;
  }
  return all;
}

Runs RunsOf(const ShapeExpr& expr) {
  switch (expr.kind) {
    case ShapeExpr::Kind::kLength:
    case ShapeExpr::Kind::kPad:
      return std::nullopt;
    case ShapeExpr::Kind::kProduct:
      return RunsOfProduct(expr);
    case ShapeExpr::Kind::kSum:
      return RunsOfSum(expr);
    case ShapeExpr::Kind::kCut: {
      const bool is_by_tensor_ranks = expr.axes == std::vector<std::string>{"tp"} && !IsCut(expr.operands.front());
      auto length = Optional(LogicalLength(expr.operands.front()));
      if (!is_by_tensor_ranks || !length) return std::nullopt;
      return std::vector<CutRun>{{&expr, 1, *length}};
    }
  }
  return std::nullopt;
}

}  // namespace

bool CutDimension::IsPaddedVocabulary(std::size_t dims) const {
  return dim == 0 && dims == 2 && runs.size() == 1 && runs.front().times == 1 && runs.front().is_padded();
}

std::optional<CutDimension> FindCut(std::span<const ShapeExpr> dims) {
  if (std::count_if(dims.begin(), dims.end(), IsCut) != 1) return std::nullopt;
  const auto dim = std::find_if(dims.begin(), dims.end(), IsCut);
  Runs runs = RunsOf(*dim);
  if (!runs) return std::nullopt;
  return CutDimension{static_cast<std::size_t>(dim - dims.begin()), std::move(*runs)};
}

std::optional<std::vector<std::int64_t>> WidthsOf(const CutRun& run, const Mesh& mesh) {
  if (mesh.Size("tp") == 1) return std::vector<std::int64_t>{run.length};
  std::vector<std::int64_t> widths;
  std::int64_t next = 0;
  for (std::int64_t rank = 0; rank < mesh.Size("tp"); ++rank) {
    auto held = Optional(Select(*run.cut, mesh, {{{"tp", rank}}}));
    if (!held || held->runs().size() > 1) return std::nullopt;
    if (!held->runs().empty() && held->runs().front().logical_begin != next) return std::nullopt;
    next += held->real_length();
    widths.push_back(held->local_length() * run.times);
  }
  if (next * run.times != run.length) return std::nullopt;
  return widths;
}

}  // namespace ucp
