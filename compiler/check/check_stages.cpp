#include <fmt/format.h>

#include <algorithm>

#include "compiler/check/declarations.h"

namespace ucp {
namespace {

class StagesChecker {
 public:
  StagesChecker(const Scope& scope, DiagnosticSink& sink) : scope_(scope), sink_(sink) {}

  std::optional<StagesDeclaration> Run(const ast::Stages& stages, const Pattern& name) {
    CheckUncounted(stages, name);
    StagesDeclaration checked{stages.range, {}};
    for (const ast::Stage& stage : stages.stages) {
      auto one = Check(stage);
      if (!one) continue;
      CheckNew(*one, checked);
      checked.stages.push_back(std::move(*one));
    }
    bool trained =
        std::any_of(stages.stages.begin(), stages.stages.end(), [](const ast::Stage& s) { return !s.unused; });
    if (!trained) Report(stages.range, "every stage here is `unused`, so no copy would count");
    if (!sound_) return std::nullopt;
    return checked;
  }

 private:
  void CheckUncounted(const ast::Stages& stages, const Pattern& name) {
    for (const Counter& counter : name.counters) {
      if (!counter.over_stages) continue;
      Report(stages.range, fmt::format("the stage follows from `{}` already", counter.name),
             {{counter.range, "its counter is split over the stages"}});
    }
  }

  std::optional<StageDeclaration> Check(const ast::Stage& stage) {
    if (!scope_.CheckAxis(stage.axis, sink_)) return Fail();
    if (stage.axis.text != "pp") {
      Report(stage.axis.range, fmt::format("only `pp` has stages, and this is `{}`", stage.axis.text));
      return std::nullopt;
    }
    StageDeclaration checked{stage.kind, stage.unused, stage.range, {}};
    if (stage.kind == ast::StageKind::kNumber) {
      checked.number = BuildFormula(stage.number.front(), Role::kStage, scope_, {}, sink_);
      if (!checked.number) return Fail();
    }
    return checked;
  }

  // Two stages that are written alike; different words may still mean the same stage of a short pipeline.
  void CheckNew(const StageDeclaration& stage, const StagesDeclaration& before) {
    for (const StageDeclaration& other : before.stages) {
      if (other.kind != stage.kind || stage.kind == ast::StageKind::kNumber) continue;
      Report(stage.range,
             other.unused == stage.unused ? "this stage is listed twice" : "this stage is both used and unused",
             {{other.range, "listed here first"}});
    }
  }

  std::nullopt_t Fail() {
    sound_ = false;
    return std::nullopt;
  }

  void Report(SourceRange range, std::string message, std::vector<Note> notes = {}) {
    sink_.Report(
        {.kind = DiagnosticKind::kBadStages, .place = range, .message = std::move(message), .notes = std::move(notes)});
    sound_ = false;
  }

  const Scope& scope_;
  DiagnosticSink& sink_;
  bool sound_ = true;
};

}  // namespace

std::optional<StagesDeclaration> CheckStages(const ast::Stages& stages, const Pattern& name, const Scope& scope,
                                             DiagnosticSink& sink) {
  return StagesChecker(scope, sink).Run(stages, name);
}

}  // namespace ucp
