// Where the tensors of the source are, against where the spec puts them: stages first, and then, on each stage, a part
// for every coordinate of the axes that cut the tensor.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "compiler/bind/lower/counter_places.h"
#include "compiler/bind/lower/stages.h"
#include "compiler/bind/match_placement.h"

namespace ucp {
namespace {

class PlacementChecker {
 public:
  PlacementChecker(const Values& values, const InventoryIndex& found, DiagnosticSink& sink)
      : values_(values), found_(found), sink_(sink), places_(values, sink) {
    std::vector<std::string> axes;
    for (const TensorDeclaration& tensor : values.spec.tensors) {
      axes.clear();
      for (const Formula& dim : tensor.dims) {
        for (const Formula* cut : CutsOf(dim)) axes.insert(axes.end(), cut->axes.begin(), cut->axes.end());
      }
      std::sort(axes.begin(), axes.end());
      axes.erase(std::unique(axes.begin(), axes.end()), axes.end());
      cutting_axes_.push_back(axes);
    }
    reported_.resize(values.spec.tensors.size(), false);
  }

  void Check(const BoundTensor& tensor) {
    if (reported_[tensor.declaration]) return;  // One declaration, one message.
    std::vector<const Shard*> shards = ShardsOf(tensor);
    if (!CheckStages(tensor, shards)) return;
    auto places = places_.Of(tensor);
    if (!places) {
      Refuse(tensor);
    } else if (CheckPlaces(tensor, shards, *places)) {
      CheckParts(tensor, shards, *places);
    }
  }

 private:
  const TensorDeclaration& DeclarationOf(const BoundTensor& tensor) const {
    return values_.spec.tensors[tensor.declaration];
  }

  std::vector<const Shard*> ShardsOf(const BoundTensor& tensor) const {
    std::vector<const Shard*> shards;
    auto add = [&](std::string_view name) {
      if (const FoundTensor* found = found_.Find(name)) {
        shards.insert(shards.end(), found->shards.begin(), found->shards.end());
      }
    };
    add(tensor.name);
    for (const std::string& alias : tensor.aliases) add(alias);
    return shards;
  }

  bool CheckStages(const BoundTensor& tensor, const std::vector<const Shard*>& shards) {
    std::set<std::int64_t> held;
    for (const Shard* shard : shards) held.insert(shard->coordinate.At("pp"));
    if (tensor.stage_counter) return CheckOneStage(tensor, shards, held);
    auto stages = ResolveStages(tensor, values_, sink_);
    if (!stages) return Refuse(tensor);
    std::set<std::int64_t> wanted(stages->used.begin(), stages->used.end());
    wanted.insert(stages->unused.begin(), stages->unused.end());
    for (const Shard* shard : shards) {
      std::int64_t stage = shard->coordinate.At("pp");
      if (wanted.contains(stage)) continue;
      return Report(tensor, *shard,
                    fmt::format("`{}` is on stage {}, where the spec does not put it", shard->tensor, stage), wanted);
    }
    for (std::int64_t stage : wanted) {
      if (held.contains(stage)) continue;
      return Report(tensor, *shards.front(),
                    fmt::format("`{}` is not on stage {}, where the spec puts it", tensor.name, stage), wanted);
    }
    return true;
  }

  bool CheckOneStage(const BoundTensor& tensor, const std::vector<const Shard*>& shards,
                     const std::set<std::int64_t>& held) {
    if (held.size() == 1) return true;
    auto second = std::find_if(shards.begin(), shards.end(), [&](const Shard* shard) {
      return shard->coordinate.At("pp") != shards.front()->coordinate.At("pp");
    });
    return Report(tensor, **second,
                  fmt::format("`{}` is on the stages {}, and a counter over the stages puts it on one", tensor.name,
                              fmt::join(held, ", ")),
                  {});
  }

  bool Refuse(const BoundTensor& tensor) {
    reported_[tensor.declaration] = true;
    return false;
  }

  bool Report(const BoundTensor& tensor, const Shard& shard, std::string message,
              const std::set<std::int64_t>& wanted) {
    const TensorDeclaration& declaration = DeclarationOf(tensor);
    std::vector<Note> notes;
    notes.push_back({found_.PlaceOf(shard), fmt::format("`{}` is here, at {}", shard.tensor, WhereText(shard))});
    if (!wanted.empty()) {
      notes.push_back({declaration.stages ? declaration.stages->range : declaration.name.range,
                       fmt::format("{}means {} {}", declaration.stages ? "this " : "without `at`, this ",
                                   wanted.size() == 1 ? "stage" : "the stages", fmt::join(wanted, ", "))});
    }
    sink_.Report({.kind = DiagnosticKind::kWrongStage,
                  .place = declaration.name.range,
                  .message = std::move(message),
                  .notes = std::move(notes)});
    return Refuse(tensor);
  }

  // An expert is where its counter puts it, and nowhere else.
  bool CheckPlaces(const BoundTensor& tensor, const std::vector<const Shard*>& shards, const PlacesByAxis& places) {
    for (const Shard* shard : shards) {
      for (const auto& [axis, wanted] : places) {
        if (std::binary_search(wanted.begin(), wanted.end(), shard->coordinate.At(axis))) continue;
        const TensorDeclaration& declaration = DeclarationOf(tensor);
        std::vector<Note> notes = {
            {found_.PlaceOf(*shard), fmt::format("`{}` is here, at {}", shard->tensor, WhereText(*shard))}};
        for (const Counter& counter : declaration.name.counters) {
          if (counter.cut.empty()) continue;
          notes.push_back({counter.range, fmt::format("this puts it at {}={}", axis, fmt::join(wanted, ","))});
        }
        sink_.Report({.kind = DiagnosticKind::kWrongRank,
                      .place = declaration.name.range,
                      .message = fmt::format("`{}` is at {}={}, where the spec does not put it", shard->tensor, axis,
                                             shard->coordinate.At(axis)),
                      .notes = std::move(notes)});
        return Refuse(tensor);
      }
    }
    return true;
  }

  // An axis that cuts the tensor, or its name: then it is at some places only.
  struct Spread {
    std::string axis;
    std::int64_t size = 1;
    const std::vector<std::int64_t>* only = nullptr;

    std::int64_t Count() const { return only == nullptr ? size : std::ssize(*only); }
    std::int64_t At(std::int64_t i) const { return only == nullptr ? i : (*only)[static_cast<std::size_t>(i)]; }
  };

  // On each stage that holds the tensor, each coordinate of the axes that cut it has a part.
  void CheckParts(const BoundTensor& tensor, const std::vector<const Shard*>& shards, const PlacesByAxis& places) {
    std::vector<Spread> axes;
    for (const std::string& axis : cutting_axes_[tensor.declaration]) axes.push_back({axis, values_.mesh.Size(axis)});
    for (const auto& [axis, only] : places) axes.push_back({axis, values_.mesh.Size(axis), &only});
    std::set<std::vector<std::int64_t>> held;  // The stage, and then one place for each axis.
    std::set<std::int64_t> stages;
    for (const Shard* shard : shards) {
      std::vector<std::int64_t> at = {shard->coordinate.At("pp")};
      stages.insert(at.front());
      bool on_mesh = true;
      for (const Spread& spread : axes) {
        at.push_back(shard->coordinate.At(spread.axis));
        on_mesh = on_mesh && at.back() >= 0 && at.back() < spread.size;
      }
      if (on_mesh) held.insert(std::move(at));
    }
    double parts = 1;  // Of a mesh that a file may ask for, which need not fit in 63 bits.
    for (const Spread& spread : axes) parts *= spread.axis == "pp" ? 1 : static_cast<double>(spread.Count());
    if (static_cast<double>(held.size()) >= static_cast<double>(stages.size()) * parts) return;
    ReportPart(tensor, *shards.front(), FirstMissing(axes, stages, held));
  }

  // Counts through the coordinates like an odometer, the last axis fastest.
  std::string FirstMissing(const std::vector<Spread>& axes, const std::set<std::int64_t>& stages,
                           const std::set<std::vector<std::int64_t>>& held) const {
    for (std::int64_t stage : stages) {
      std::vector<std::int64_t> wheel(axes.size(), 0);
      while (held.contains(At(stage, axes, wheel))) {
        std::size_t axis = axes.size();
        while (axis > 0 && ++wheel[axis - 1] == axes[axis - 1].Count()) wheel[--axis] = 0;
        if (axis == 0) break;
      }
      std::vector<std::int64_t> at = At(stage, axes, wheel);
      if (held.contains(at)) continue;
      Coordinate coordinate;
      if (values_.mesh.Size("pp") > 1) coordinate.at["pp"] = stage;
      for (std::size_t i = 0; i < axes.size(); ++i) coordinate.at[axes[i].axis] = at[i + 1];
      return ToString(coordinate);
    }
    return "some coordinate";
  }

  static std::vector<std::int64_t> At(std::int64_t stage, const std::vector<Spread>& axes,
                                      const std::vector<std::int64_t>& wheel) {
    std::vector<std::int64_t> at = {stage};
    for (std::size_t i = 0; i < axes.size(); ++i) at.push_back(axes[i].At(wheel[i]));
    return at;
  }

  void ReportPart(const BoundTensor& tensor, const Shard& shard, const std::string& where) {
    sink_.Report({.kind = DiagnosticKind::kMissingShard,
                  .place = DeclarationOf(tensor).name.range,
                  .message = fmt::format("the checkpoint has no part of `{}` at {}", tensor.name, where),
                  .notes = {{found_.PlaceOf(shard), fmt::format("the part at {} is here", WhereText(shard))}}});
    Refuse(tensor);
  }

  const Values& values_;
  const InventoryIndex& found_;
  DiagnosticSink& sink_;
  CounterPlaces places_;
  std::vector<std::vector<std::string>> cutting_axes_;  // For each declaration.
  std::vector<bool> reported_;
};

}  // namespace

void MatchPlacement(const Values& values, const std::vector<BoundTensor>& tensors, const InventoryIndex& found,
                    DiagnosticSink& sink) {
  PlacementChecker checker(values, found, sink);
  for (const BoundTensor& tensor : tensors) checker.Check(tensor);
}

}  // namespace ucp
