#include "runtime/formats/universal/cut_rules.h"

#include <algorithm>
#include <optional>

#include "compiler/support/checked_math.h"

namespace ucp::universal {
namespace {

using pytorch::Entry;
using pytorch::MakeBool;
using pytorch::MakeInteger;
using pytorch::MakeText;
using pytorch::ValuePtr;

constexpr std::size_t kMaxParts = 4096;

bool IsCut(const ShapeExpr& expr) {
  return expr.kind == ShapeExpr::Kind::kCut || std::any_of(expr.operands.begin(), expr.operands.end(), IsCut);
}

std::optional<std::int64_t> LengthOf(const ShapeExpr& expr) {
  auto length = LogicalLength(expr);
  if (length) return *length;
  llvm::consumeError(length.takeError());
  return std::nullopt;
}

// The runs of the dimension that are each cut evenly; nothing if that is not how it is cut.
std::optional<std::vector<std::int64_t>> PartsOf(const ShapeExpr& expr);

// heads@tp * 3 * head is one run of heads * 3 * head; 2 * (ffn@tp) is two runs of ffn.
std::optional<std::vector<std::int64_t>> PartsOfProduct(const ShapeExpr& expr) {
  std::optional<std::vector<std::int64_t>> parts;
  std::int64_t repeats = 1;
  for (const ShapeExpr& factor : expr.operands) {
    if (IsCut(factor)) {
      if (parts) return std::nullopt;
      parts = PartsOf(factor);
      if (!parts) return std::nullopt;
      continue;
    }
    auto length = LengthOf(factor);
    if (!length) return std::nullopt;
    if (!parts) {
      auto product = CheckedMultiply(repeats, *length);
      if (!product) return std::nullopt;
      repeats = *product;
      continue;
    }
    for (std::int64_t& part : *parts) {
      auto product = CheckedMultiply(part, *length);
      if (!product) return std::nullopt;
      part = *product;
    }
  }
  if (!parts || repeats < 1 || static_cast<std::size_t>(repeats) > kMaxParts / parts->size()) return std::nullopt;
  std::vector<std::int64_t> repeated;
  for (std::int64_t i = 0; i < repeats; ++i) repeated.insert(repeated.end(), parts->begin(), parts->end());
  return repeated;
}

std::optional<std::vector<std::int64_t>> PartsOfSum(const ShapeExpr& expr) {
  std::vector<std::int64_t> all;
  for (const ShapeExpr& term : expr.operands) {
    auto parts = PartsOf(term);
    if (!parts) return std::nullopt;
    all.insert(all.end(), parts->begin(), parts->end());
    if (all.size() > kMaxParts) return std::nullopt;
  }
  return all;
}

std::optional<std::vector<std::int64_t>> PartsOf(const ShapeExpr& expr) {
  switch (expr.kind) {
    case ShapeExpr::Kind::kLength:
    case ShapeExpr::Kind::kPad:
      return std::nullopt;
    case ShapeExpr::Kind::kProduct:
      return PartsOfProduct(expr);
    case ShapeExpr::Kind::kSum:
      return PartsOfSum(expr);
    case ShapeExpr::Kind::kCut: {
      const bool is_by_tensor_ranks = expr.axes == std::vector<std::string>{"tp"} && !IsCut(expr.operands.front());
      auto length = LengthOf(expr.operands.front());
      if (!is_by_tensor_ranks || !length) return std::nullopt;
      return std::vector<std::int64_t>{*length};
    }
  }
  return std::nullopt;
}

bool IsPaddedAndCut(const ShapeExpr& expr) {
  return expr.kind == ShapeExpr::Kind::kCut && expr.operands.front().kind == ShapeExpr::Kind::kPad;
}

// The loader's own class; it views the parameter in this shape, in which the cut dimension is a tuple of parts.
ValuePtr SubparamShape(const LogicalTensor& tensor, const CutRule& rule) {
  std::vector<ValuePtr> shape;
  for (std::int64_t size : tensor.shape) shape.push_back(MakeInteger(size));
  std::vector<ValuePtr> parts;
  for (std::int64_t part : rule.parts) parts.push_back(MakeInteger(part));
  shape[static_cast<std::size_t>(rule.cat_dim)] = pytorch::MakeTuple(std::move(parts));
  pytorch::Call call;
  call.form = pytorch::Call::Form::kNewObject;
  call.callable = pytorch::MakeGlobal("deepspeed.checkpoint.universal_checkpoint", "SubparamShape");
  call.arguments = pytorch::MakeTuple({});
  call.state = pytorch::MakeDict({{MakeText("patterns"), pytorch::MakeList({MakeText(tensor.name)})},
                                  {MakeText("shape"), pytorch::MakeTuple(std::move(shape))},
                                  {MakeText("partition_dim"), MakeInteger(rule.cat_dim)}});
  return pytorch::MakeCall(std::move(call));
}

}  // namespace

CutRule CutRuleOf(const LogicalTensor& tensor) {
  CutRule rule;
  const auto cuts = std::count_if(tensor.dims.begin(), tensor.dims.end(), IsCut);
  if (cuts != 1 || tensor.dims.size() != tensor.shape.size()) return rule;
  const auto dim = std::find_if(tensor.dims.begin(), tensor.dims.end(), IsCut);
  auto parts = PartsOf(*dim);
  if (!parts) return rule;
  rule.cat_dim = dim - tensor.dims.begin();
  rule.parts = std::move(*parts);
  rule.is_vocabulary = rule.cat_dim == 0 && tensor.dims.size() == 2 && IsPaddedAndCut(*dim);
  return rule;
}

std::vector<Entry> CutEntries(const LogicalTensor& tensor) {
  const CutRule rule = CutRuleOf(tensor);
  std::vector<Entry> entries;
  if (rule.parts.empty()) return entries;
  const auto count = static_cast<std::int64_t>(rule.parts.size());
  const bool are_equal = std::count(rule.parts.begin(), rule.parts.end(), rule.parts.front()) == count;
  if (are_equal) {
    entries.push_back({MakeText("cat_dim"), MakeInteger(rule.cat_dim)});
    if (count > 1) entries.push_back({MakeText("param_n_sub_params"), MakeInteger(count)});
  } else {
    entries.push_back({MakeText("sub_param_shape"), SubparamShape(tensor, rule)});
  }
  if (rule.is_vocabulary) entries.push_back({MakeText("vocab_tensor"), MakeBool(true)});
  return entries;
}

}  // namespace ucp::universal
