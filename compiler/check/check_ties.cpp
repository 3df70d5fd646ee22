// The other side of a tie must be a tensor that some pattern declares: seen without a checkpoint where no values of
// dims and counters make it one. Questions that numbers decide are left to bind/expand_spec.cpp.
#include <fmt/format.h>

#include <string>
#include <unordered_map>
#include <vector>

#include "compiler/check/declarations.h"
#include "compiler/spec/variant.h"
#include "compiler/support/spelling.h"

namespace ucp {
namespace {

class DeclaredNames {
 public:
  explicit DeclaredNames(const CheckedSpec& spec) {
    for (const TensorDeclaration& tensor : spec.tensors) {
      for (Variant& variant : VariantsOf(tensor.name, *spec.source)) {
        shown_.push_back(variant.shown);
        by_skeleton_[variant.skeleton].push_back({std::move(variant), &tensor.guards});
      }
    }
  }

  enum class Where { kNowhere, kInAnotherBranch, kHere };
  Where Find(const Variant& variant, const Guards& guards) const {
    auto found = by_skeleton_.find(variant.skeleton);
    if (found == by_skeleton_.end()) return Where::kNowhere;
    bool is_declared = false;
    for (const auto& [declared, declared_guards] : found->second) {
      if (!CanMeet(variant, declared)) continue;
      if (!ExcludeEachOther(guards, *declared_guards)) return Where::kHere;
      is_declared = true;
    }
    return is_declared ? Where::kInAnotherBranch : Where::kNowhere;
  }

  std::string HintFor(const Variant& variant) const {
    const std::vector<std::string> nearest = NearestNames(variant.shown, shown_, 1);
    return nearest.empty() ? "" : fmt::format("the nearest name is `{}`", nearest.front());
  }

 private:
  using Declared = std::pair<Variant, const Guards*>;
  std::unordered_map<std::string, std::vector<Declared>> by_skeleton_;
  std::vector<std::string> shown_;
};

}  // namespace

void CheckTies(const CheckedSpec& spec, DiagnosticSink& sink) {
  if (spec.ties.empty() || sink.has_errors()) return;  // Too many names are an error.
  const DeclaredNames declared(spec);
  for (const TieDeclaration& tie : spec.ties) {
    for (const Variant& variant : VariantsOf(tie.first, *spec.source)) {
      const DeclaredNames::Where where = declared.Find(variant, tie.guards);
      if (where == DeclaredNames::Where::kHere) continue;
      const bool is_nowhere = where == DeclaredNames::Where::kNowhere;
      sink.Report({.kind = DiagnosticKind::kUnknownName,
                   .place = tie.first.range,
                   .message = is_nowhere ? fmt::format("no pattern declares a tensor `{}`", variant.shown)
                                         : fmt::format("the tensor `{}` is declared in another branch of the `when` "
                                                       "that this tie stands in",
                                                       variant.shown),
                   .hint = is_nowhere ? declared.HintFor(variant) : ""});
      break;
    }
  }
}

}  // namespace ucp
