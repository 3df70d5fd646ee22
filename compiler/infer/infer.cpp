#include "compiler/infer/infer.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string_view>

#include "compiler/infer/decide.h"
#include "compiler/infer/group_names.h"
#include "compiler/infer/number_names.h"
#include "compiler/infer/observed.h"
#include "compiler/infer/write_draft.h"
#include "compiler/support/error.h"

namespace ucp {
namespace {

constexpr const char* kHead = "lm_head.weight";  // Of the models of transformers.

class Drafter {
 public:
  Drafter(const Inventory& inventory, const Observation& observation)
      : observation_(observation), names_(inventory.facts) {}

  std::vector<DraftNode> Draft(const std::vector<Decision>& decisions) {
    std::vector<DraftTensor> tensors;
    for (const Decision& decision : decisions) tensors.push_back(Describe(decision));
    return GroupNames(tensors, observation_.pp, names_);
  }

  NumberNames& names() { return names_; }

 private:
  DraftTensor Describe(const Decision& decision) {
    const ObservedTensor& observed = *decision.tensor;
    DraftTensor tensor;
    tensor.name = observed.name;
    if (observed.kind == TensorKind::kBuffer) tensor.marker = "buffer ";
    tensor.question = decision.question;
    tensor.open = decision.readings.size() != 1;
    tensor.on_stages = observed.stages;
    tensor.stages = StagesText(observed);
    for (const Reading& reading : decision.readings) {
      std::string doubt;
      std::string shape = ShapeText(reading, doubt);
      if (tensor.question.empty()) {
        tensor.question = std::move(doubt);
      } else if (!tensor.open && tensor.note.empty()) {
        tensor.note = std::move(doubt);
      }
      if (&reading == &decision.readings.front()) {
        tensor.shape = shape;
      } else {
        tensor.other_shapes.push_back(shape);
      }
    }
    if (tensor.shape.empty()) tensor.shape = LocalText(observed);
    return tensor;
  }

  std::string ShapeText(const Reading& reading, std::string& doubt) {
    std::vector<std::string> dims;
    for (const ShapeExpr& dim : reading.dims) dims.push_back(names_.Shape(dim, observation_.tp, doubt));
    std::string text = fmt::format("[{}]", fmt::join(dims, ", "));
    if (reading.mean) text += " mean@tp";
    if (reading.scale == Scale{}) return text;
    if (reading.scale == Scale{1, observation_.tp}) return text + " scale(1 / tp)";
    return text + fmt::format(" scale({} / {})", reading.scale.numerator, reading.scale.denominator);
  }

  static std::string LocalText(const ObservedTensor& observed) {
    return fmt::format("[{}]", fmt::join(observed.by_rank.front(), ", "));
  }

  std::string StagesText(const ObservedTensor& observed) const {
    std::int64_t pp = observation_.pp;
    if (pp == 1 || static_cast<std::int64_t>(observed.stages.size()) == pp) {
      return observed.first_stage_counts && pp > 1 ? UnusedText(observed) : "";
    }
    if (observed.first_stage_counts && observed.stages.size() > 1) return UnusedText(observed);
    std::vector<std::string> stages;
    for (std::int64_t stage : observed.stages) stages.push_back(StageText(stage));
    return fmt::format(" at {}", fmt::join(stages, ", "));
  }

  std::string UnusedText(const ObservedTensor& observed) const {
    std::string text = " at " + StageText(observed.stages.front());
    for (std::size_t i = 1; i < observed.stages.size(); ++i) text += ", unused " + StageText(observed.stages[i]);
    return text;
  }

  std::string StageText(std::int64_t stage) const {
    if (stage == 0) return "pp.first";
    return stage == observation_.pp - 1 ? "pp.last" : fmt::format("pp[{}]", stage);
  }

  const Observation& observation_;
  NumberNames names_;
};

// Files of one model leave out the second name of a tied tensor; its configuration says that there is one.
void AddTieOfConfiguration(const Inventory& inventory, Observation& observation) {
  const auto said = inventory.facts.find("config.tie_word_embeddings");
  if (said == inventory.facts.end() || said->second.value != FactValue{true}) return;
  const auto named = [&](std::string_view name) {
    return std::ranges::find(observation.tensors, name, &ObservedTensor::name);
  };
  if (named(kHead) != observation.tensors.end() || observation.aliases.contains(kHead)) return;
  for (const char* embedding : {"model.embed_tokens.weight", "transformer.wte.weight"}) {
    if (named(embedding) != observation.tensors.end()) observation.aliases.emplace(kHead, embedding);
  }
}

}  // namespace

llvm::Expected<DraftSpec> InferSpec(const Inventory& inventory, const Inventory* elsewhere) {
  if (const std::int64_t ep = inventory.mesh.Size("ep"); ep > 1 && !inventory.expert_places.empty()) {
    return Fail(ErrorCode::kUnsupported,
                "AutoEP spreads the experts of `{}` over {} ranks, which no spec is drafted of; without a spec the "
                "checkpoint's own metadata says it",
                inventory.root, ep);
  }
  UCP_ASSIGN_OR_RETURN(Observation observation, Observe(inventory, elsewhere));
  AddTieOfConfiguration(inventory, observation);
  UCP_ASSIGN_OR_RETURN(std::vector<Decision> decisions, Decide(observation, inventory.embedded()));
  Drafter drafter(inventory, observation);
  std::vector<DraftNode> nodes = drafter.Draft(decisions);
  DraftHeading heading{inventory.root, inventory.format, inventory.mesh, elsewhere == nullptr ? "" : elsewhere->root,
                       inventory.embedded() != nullptr ? inventory.embedded()->where : ""};
  return WriteDraft(heading, drafter.names().Declarations(), nodes, observation);
}

}  // namespace ucp
