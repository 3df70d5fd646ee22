#include "compiler/bind/lower/stages.h"

#include <fmt/format.h>

#include <algorithm>
#include "compiler/bind/lower/mesh_fit.h"

namespace ucp {
namespace {

std::optional<std::int64_t> Resolve(const StageDeclaration& stage, const Values& values, DiagnosticSink& sink) {
  std::int64_t stages = values.mesh.Size("pp");
  switch (stage.kind) {
    case ast::StageKind::kFirst:
      return 0;
    case ast::StageKind::kLast:
      return stages - 1;  // The last chunk is also there.
    case ast::StageKind::kNumber:
      break;
  }
  auto number = Evaluate(*stage.number, values, {}, sink);
  std::int64_t count = stages * values.interleave;
  if (!number) return std::nullopt;
  if (*number < count) return *number % stages;
  std::vector<Note> notes = NotesOf(*stage.number, values);
  notes.push_back({values.spec.mesh->range, MeshText(values.mesh)});
  sink.Report({.kind = DiagnosticKind::kBadStages,
               .place = stage.range,
               .message = fmt::format("there is no {0} {1}: the {2} {0}s are counted from 0",
                                      values.interleave == 1 ? "stage" : "chunk", *number, count),
               .notes = std::move(notes)});
  return std::nullopt;
}

bool AddAll(const StagesDeclaration& declaration, const Values& values, ResolvedStages& stages, DiagnosticSink& sink) {
  bool sound = true;
  for (const StageDeclaration& stage : declaration.stages) {
    auto number = Resolve(stage, values, sink);
    sound = sound && number;
    if (number) (stage.unused ? stages.unused : stages.used).push_back(*number);
  }
  return sound;
}

void Tidy(ResolvedStages& stages) {
  auto tidy = [](std::vector<std::int64_t>& list) {
    std::sort(list.begin(), list.end());
    list.erase(std::unique(list.begin(), list.end()), list.end());
  };
  tidy(stages.used);
  tidy(stages.unused);
  std::erase_if(stages.unused,
                [&](std::int64_t stage) { return std::binary_search(stages.used.begin(), stages.used.end(), stage); });
}

}  // namespace

std::optional<ResolvedStages> ResolveStages(const BoundTensor& tensor, const Values& values, DiagnosticSink& sink) {
  const TensorDeclaration& declaration = values.spec.tensors[tensor.declaration];
  ResolvedStages stages;
  if (declaration.stages && !values.is_whole) {
    if (!AddAll(*declaration.stages, values, stages, sink)) return std::nullopt;
    for (std::size_t tie : tensor.ties) {
      const auto& tied = values.spec.ties[tie].stages;
      if (tied && !AddAll(*tied, values, stages, sink)) return std::nullopt;
    }
  } else {
    for (std::int64_t stage = 0; stage < values.mesh.Size("pp"); ++stage) stages.used.push_back(stage);
  }
  Tidy(stages);
  return stages;
}

std::optional<std::int64_t> ResolveInterleave(std::optional<std::int64_t> given, const Values& values,
                                              DiagnosticSink& sink) {
  if (!values.spec.interleave) return given.value_or(1);
  const Formula& declared = *values.spec.interleave;
  auto report = [&](std::string message) {
    sink.Report({.kind = DiagnosticKind::kBadStages,
                 .place = declared.range,
                 .message = std::move(message),
                 .notes = NotesOf(declared, values)});
    return std::nullopt;
  };
  if (!values.Knows(declared)) return report("nothing says how large this is, so the chunks cannot be counted");
  auto chunks = Evaluate(declared, values, {}, sink);
  if (!chunks) return std::nullopt;
  if (*chunks < 1 || *chunks > kMostChunks) {
    return report(fmt::format("a stage has {} chunks here, and can have 1 to {}", *chunks, kMostChunks));
  }
  if (given.value_or(*chunks) == *chunks) return chunks;
  return report(fmt::format("the layout has {} chunks on each stage, and the strategy {}", *chunks, *given));
}

}  // namespace ucp
