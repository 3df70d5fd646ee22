#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>

#include "compiler/check/declarations.h"

namespace ucp {
namespace {

// mean@tp, mean@(tp, sp)
std::optional<MeanDeclaration> CheckMean(const ast::Mean& node, const Scope& scope, DiagnosticSink& sink) {
  MeanDeclaration mean{node.range, {}};
  bool sound = true;
  for (const ast::Identifier& axis : node.axes) {
    sound = scope.CheckAxis(axis, sink) && sound;
    if (std::find(mean.axes.begin(), mean.axes.end(), axis.text) != mean.axes.end()) {
      sink.Report({.kind = DiagnosticKind::kDuplicateName,
                   .place = axis.range,
                   .message = fmt::format("the mean over `{}` is taken twice", axis.text)});
      sound = false;
    }
    mean.axes.push_back(axis.text);
  }
  if (!sound) return std::nullopt;
  return mean;
}

Formula One(SourceRange range) {
  Formula one;
  one.range = range;
  one.number = 1;
  return one;
}

// Factors and divisors are kept apart, so that 1 / 4 is exact.
class ScaleChecker {
 public:
  ScaleChecker(const Scope& scope, DiagnosticSink& sink) : scope_(scope), sink_(sink) {}

  std::optional<ScaleDeclaration> Run(const ast::Scale& node) {
    ScaleDeclaration scale{node.range, One(node.factor.range), One(node.factor.range)};
    const auto* product = std::get_if<ast::Product>(&node.factor.node);
    if (product == nullptr) {
      Multiply(node.factor, scale.numerator);
    } else {
      for (const ast::Factor& factor : product->factors) Add(factor, scale);
    }
    if (!sound_) return std::nullopt;
    return scale;
  }

 private:
  void Add(const ast::Factor& factor, ScaleDeclaration& scale) {
    switch (factor.op) {
      case ast::ProductOperator::kTimes:
        return Multiply(factor.expr, scale.numerator);
      case ast::ProductOperator::kDivide:
        return Multiply(factor.expr, scale.denominator);
      case ast::ProductOperator::kModulo:
        sound_ = false;
        sink_.Report({.kind = DiagnosticKind::kBadExpression,
                      .place = factor.expr.range,
                      .message = "a scale is made of factors and divisors, and `%` is neither"});
    }
  }

  void Multiply(const ast::Expr& expr, Formula& product) {
    auto factor = BuildFormula(expr, Role::kMultiple, scope_, {}, sink_);
    sound_ = sound_ && factor;
    if (!factor) return;
    product.kind = Formula::Kind::kProduct;
    product.operands.push_back(std::move(*factor));
    product.operators.push_back(Formula::Operator::kTimes);
  }

  const Scope& scope_;
  DiagnosticSink& sink_;
  bool sound_ = true;
};

bool AddOffset(const ast::Offset& node, const Scope& scope, TensorDeclaration& tensor, DiagnosticSink& sink) {
  constexpr std::int64_t kMostOffset = 1 << 24;  // float32 has all whole numbers up to it.
  if (!scope.takes_labels) {
    sink.Report({.kind = DiagnosticKind::kModelMismatch,
                 .place = node.range,
                 .message = "`offset` says how a layout stores a part of a model, and this layout is of no model"});
  } else if (std::abs(node.number) > kMostOffset) {
    sink.Report({.kind = DiagnosticKind::kNumberOutOfRange,
                 .place = node.range,
                 .message = fmt::format("an offset is a whole number from -{0} to {0}", kMostOffset)});
  } else {
    tensor.offset = node.number;
    return true;
  }
  return false;
}

}  // namespace

bool AddQualifiers(const ast::Tensor& node, const Scope& scope, TensorDeclaration& tensor, DiagnosticSink& sink) {
  if (node.mean) tensor.mean = CheckMean(*node.mean, scope, sink);
  if (node.scale) tensor.scale = ScaleChecker(scope, sink).Run(*node.scale);
  if (node.offset && !AddOffset(*node.offset, scope, tensor, sink)) return false;
  return node.mean.has_value() == tensor.mean.has_value() && node.scale.has_value() == tensor.scale.has_value();
}

}  // namespace ucp
