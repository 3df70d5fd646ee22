// A checkpoint folder as its format describes it, from headers alone: which local tensors lie where, and the facts that
// the checkpoint states about itself. Names of tensors are those of the rank's own module.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <variant>
#include <vector>

#include "compiler/layout/embedded_layout.h"
#include "compiler/layout/mesh.h"
#include "compiler/layout/rank_preference.h"
#include "compiler/layout/storage.h"
#include "compiler/sets/tensor_boxes.h"

namespace ucp {

// A value found under a dotted path of the checkpoint's metadata: "args.num_layers", "info.original_vocab_size".
struct FactValue {
  std::variant<bool, std::int64_t, double, std::string, std::vector<FactValue>> value;
  bool operator==(const FactValue&) const = default;
};

struct Fact {
  FactValue value;
  std::string where;          // The file it was read from.
  std::string disputed = {};  // "4 in `a.pt` and 8 in `b.pt`": ranks contradict each other; empty: they do not.
};

// Of a tensor that has an expert for each place of its first dimension: which of them each rank of `ep` holds, in the
// order in which it holds them. Several ranks may have the same one.
using ExpertPlaces = std::vector<std::vector<std::int64_t>>;

// A checkpoint's own statement of how its tensors are cut is one of these, or DeepSpeed's metadata (EmbeddedLayout).
struct NothingStated {};  // Only a spec says it.
struct WholeTensors {};   // As the model has them: whole, without padding, neither averaged nor scaled any more.
struct UnreadStatement {  // There is one that was not understood.
  std::string why;
};
// BoxesOfTensors: a shard is a box of its tensor, and the boxes together are all of it.
using CutStatement = std::variant<NothingStated, WholeTensors, BoxesOfTensors, EmbeddedLayout, UnreadStatement>;

struct Inventory {
  std::string format;  // "deepspeed", "universal"
  std::string root;    // The folder that file paths are relative to.
  Mesh mesh;           // The degrees of the source.
  CutStatement cuts;
  Storage storage;
  std::map<std::string, Fact> facts;
  // Tensors whose copy on the first stage alone counts, as the checkpoint's own metadata says (pipeline-replicated).
  std::vector<std::string> first_stage_counts;
  // A second name of a tensor (shared parameters), as the checkpoint's own metadata says.
  std::map<std::string, std::string> aliases;
  // Of tensors that hold several experts, which are spread over `ep` beside these cuts.
  std::map<std::string, ExpertPlaces> expert_places;
  // Sentences for the report: stray files, metadata that was not believed, and why.
  std::vector<std::string> remarks;
  // Whom the user believes, and what that has decided among single numbers and texts.
  RankPreference preference;
  std::vector<RankDecision> decisions;

  // Returns whether a spec is not needed to know the tensors as the model has them: they are whole, alone or over their
  // boxes.
  bool is_whole() const { return std::holds_alternative<WholeTensors>(cuts) || boxes() != nullptr; }
  // Null if it states something else.
  const BoxesOfTensors* boxes() const { return std::get_if<BoxesOfTensors>(&cuts); }
  const EmbeddedLayout* embedded() const { return std::get_if<EmbeddedLayout>(&cuts); }
};

}  // namespace ucp
