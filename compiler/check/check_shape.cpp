// The axis rule: in one tensor, its captures included, an axis cuts one dimension or one capture; inside that dimension
// each product uses it once, and each part of a sum may. `[a@x, b@x]` would hold only the diagonal blocks.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "compiler/check/declarations.h"

namespace ucp {
namespace {

using Kind = Formula::Kind;
using Uses = std::map<std::string, SourceRange>;  // Each axis that cuts, and where it does so first.

class ShapeChecker {
 public:
  ShapeChecker(const CheckedSpec& spec, DiagnosticSink& sink) : spec_(spec), source_(*spec.source), sink_(sink) {}

  bool Check(TensorDeclaration& tensor) {
    Uses all;
    for (const Counter& counter : tensor.name.counters) {
      if (counter.over_stages) Use(all, "pp", counter.cut_range, "cuts two counters of this name");
      for (const Formula& cut : counter.cut) {
        for (const auto& [axis, range] : UsesOf(cut)) Use(all, axis, range, "cuts two counters of this name");
      }
    }
    std::size_t captured = all.size();
    for (const Formula& dim : tensor.dims) {
      WarnOfNumbers(dim);
      CheckHeaderWidths(dim);
      for (const auto& [axis, range] : UsesOf(dim))
        Use(all, axis, range,
            captured == 0 ? "cuts two dimensions of this tensor" : "cuts two parts of this tensor, its name included");
    }
    if (tensor.mean) CheckMean(*tensor.mean, all);
    if (tensor.stages && all.contains("pp")) ReportStages(all.at("pp"), tensor.stages->range);
    if (sound_) ChooseMesh(tensor, std::move(all));
    return sound_;
  }

 private:
  Uses UsesOf(const Formula& formula) {
    Uses uses;
    if (formula.kind == Kind::kPad) {
      for (const Formula& operand : formula.operands) CheckUncut(operand);
      return uses;
    }
    for (const Formula& operand : formula.operands) {
      for (const auto& [axis, range] : UsesOf(operand)) {
        if (formula.kind == Kind::kSum) {
          uses.emplace(axis, range);
        } else {
          Use(uses, axis, range, "cuts two factors of one product");
        }
      }
    }
    for (std::size_t i = 0; i < formula.axes.size(); ++i) {
      Use(uses, formula.axes[i], formula.axis_ranges[i], "cuts what it has cut already");
    }
    return uses;
  }

  void Use(Uses& uses, const std::string& axis, SourceRange range, std::string_view problem) {
    auto [entry, added] = uses.emplace(axis, range);
    if (added) return;
    sink_.Report({.kind = DiagnosticKind::kAxisCutsTwice,
                  .place = range,
                  .message = fmt::format("`{}` {}", axis, problem),
                  .notes = {{entry->second, "its first cut"}}});
    sound_ = false;
  }

  // Whole copies are averaged: an axis that cuts has none.
  void CheckMean(const MeanDeclaration& mean, const Uses& cuts) {
    for (const std::string& axis : mean.axes) {
      auto cut = cuts.find(axis);
      if (cut == cuts.end()) continue;
      sink_.Report({.kind = DiagnosticKind::kAxisCutsTwice,
                    .place = mean.range,
                    .message = fmt::format("`{}` cuts this tensor, so its ranks hold no copies to be averaged", axis),
                    .notes = {{cut->second, "cut here"}}});
      sound_ = false;
    }
  }

  // The widths follow from local lengths where nothing else in the dimension is unknown.
  void CheckHeaderWidths(const Formula& dim) {
    const Formula* first = nullptr;
    for (const Formula* cut : CutsOf(dim)) {
      for (const Formula* inner : CutsOf(cut->operands[0])) {
        if (TakesHeaderWidths(*inner)) ReportWidths(*inner, "is cut again", *cut, "by this");
      }
      if (!TakesHeaderWidths(*cut)) continue;
      if (first) ReportWidths(*cut, "stands beside another such cut in one dimension", *first, "the other one");
      first = cut;
    }
  }

  void ReportWidths(const Formula& cut, std::string_view problem, const Formula& other, std::string_view note) {
    sink_.Report(
        {.kind = DiagnosticKind::kUnknownWidths,
         .place = cut.cut_range,
         .message = fmt::format("what is cut by the widths of the headers {}, so they cannot be told", problem),
         .notes = {{other.cut_range, std::string(note)}},
         .hint = "write the widths: (widths [3, 3, 2])\nor the rule that they follow: (spread) or (chunk)"});
    sound_ = false;
  }

  // The first mesh that lists all axes the tensor speaks of: those that cut it, its stages' and its mean's.
  void ChooseMesh(TensorDeclaration& tensor, Uses axes) {
    if (tensor.mean) {
      for (const std::string& axis : tensor.mean->axes) axes.emplace(axis, tensor.mean->range);
    }
    if (tensor.stages) axes.emplace("pp", tensor.stages->range);
    std::size_t most = 0;
    for (std::size_t i = 0; i < spec_.meshes.size(); ++i) {
      auto listed = static_cast<std::size_t>(
          std::count_if(axes.begin(), axes.end(), [&](const auto& use) { return spec_.meshes[i].Has(use.first); }));
      if (listed == axes.size()) {
        tensor.mesh = i;
        return;
      }
      if (listed > most || i == 0) {
        most = listed;
        tensor.mesh = i;
      }
    }
    if (!axes.empty()) ReportTwoMeshes(spec_.meshes[tensor.mesh], axes);
  }

  // Two that no mesh lists together; where each two are in one, `outside` is one that this mesh lacks.
  std::pair<Uses::const_iterator, Uses::const_iterator> ApartIn(const MeshDeclaration& mesh, const Uses& axes) const {
    auto together = [&](const auto& a, const auto& b) {
      return std::ranges::any_of(spec_.meshes,
                                 [&](const auto& other) { return other.Has(a.first) && other.Has(b.first); });
    };
    auto in_it = [&](const auto& use) { return mesh.Has(use.first); };
    for (auto outside = axes.begin(); outside != axes.end(); ++outside) {
      if (in_it(*outside)) continue;
      for (auto inside = axes.begin(); inside != axes.end(); ++inside) {
        if (inside != outside && !together(*inside, *outside)) return {inside, outside};
      }
    }
    return {std::find_if(axes.begin(), axes.end(), in_it), std::find_if_not(axes.begin(), axes.end(), in_it)};
  }

  // Of experts that tensor parallelism cuts as well, the axis is one of its own.
  std::string HintOnMeshes(const Uses& axes) const {
    if (!axes.contains("ep") || !axes.contains("tp")) return "";
    const bool is_listed =
        std::ranges::any_of(spec_.meshes, [](const auto& mesh) { return mesh.Has("ep") && mesh.Has("etp"); });
    std::string hint = "tensor parallelism inside of experts is an axis of its own: write @etp for @tp here";
    if (!is_listed) hint += "\nand list it beside `ep`: mesh pp, edp, ep, etp";
    return hint;
  }

  void ReportTwoMeshes(const MeshDeclaration& mesh, const Uses& axes) {
    const auto [inside, outside] = ApartIn(mesh, axes);
    std::vector<Note> notes = {{inside->second, fmt::format("`{}` is used here", inside->first)}};
    for (const MeshDeclaration& other : spec_.meshes) {
      if (!other.Has(inside->first) && !other.Has(outside->first)) continue;
      notes.push_back({other.range, fmt::format("this view of the ranks lists `{}`",
                                                other.Has(inside->first) ? inside->first : outside->first)});
    }
    sink_.Report({.kind = DiagnosticKind::kAxesOfTwoMeshes,
                  .place = outside->second,
                  .message = fmt::format("the axes of one tensor are from one mesh, and none lists `{}` and `{}`",
                                         inside->first, outside->first),
                  .notes = std::move(notes),
                  .hint = HintOnMeshes(axes)});
    sound_ = false;
  }

  void ReportStages(SourceRange cut, SourceRange stages) {
    sink_.Report({.kind = DiagnosticKind::kBadStages,
                  .place = stages,
                  .message = "a tensor that is cut over the stages is on all of them",
                  .notes = {{cut, "cut here"}}});
    sound_ = false;
  }

  // Padding stands behind all elements of the whole, so it is added first and cut afterwards.
  void CheckUncut(const Formula& padded) {
    auto cuts = CutsOf(padded);
    if (cuts.empty()) return;
    sink_.Report(
        {.kind = DiagnosticKind::kCutInsidePad,
         .place = cuts.front()->cut_range,
         .message = fmt::format("`{}` is cut before it is padded", source_.TextOf(cuts.front()->operands[0].range)),
         .hint = "cut the padded whole: pad(…)@axis"});
    sound_ = false;
  }

  // `4 * hidden@tp` and `(4 * hidden)@tp` have the same size and hold different positions.
  void WarnOfNumbers(const Formula& formula) {
    for (const Formula& operand : formula.operands) WarnOfNumbers(operand);
    if (formula.kind != Kind::kProduct) return;
    const Formula* number = nullptr;
    for (std::size_t i = 0; i < formula.operands.size(); ++i) {
      const Formula& factor = formula.operands[i];
      if (formula.operators[i] != Formula::Operator::kTimes) return;
      if (factor.kind == Kind::kNumber && factor.number > 1) number = &factor;
      if (factor.kind != Kind::kCut || factor.parenthesized || !number) continue;
      Warn(*number, factor);
      return;
    }
  }

  void Warn(const Formula& number, const Formula& cut) {
    std::string_view before = source_.TextOf({number.range.begin, cut.operands[0].range.begin});
    std::string_view operand = source_.TextOf(cut.operands[0].range);
    std::string_view axis = source_.TextOf(cut.cut_range);
    sink_.Report(
        {.kind = DiagnosticKind::kNumberLeftOfCut,
         .place = Cover(number.range, cut.range),
         .message = fmt::format("each of the {} parts is cut, which has the same size as a cut through all of them",
                                number.number),
         .hint = fmt::format("write `{0}({1}{2})` to keep a piece of every part on every rank\n"
                             "write `({0}{1}){2}` to cut through the parts",
                             before, operand, axis)});
  }

  const CheckedSpec& spec_;
  const Source& source_;
  DiagnosticSink& sink_;
  bool sound_ = true;
};

}  // namespace

bool CheckShape(TensorDeclaration& tensor, const CheckedSpec& spec, DiagnosticSink& sink) {
  return ShapeChecker(spec, sink).Check(tensor);
}

}  // namespace ucp
