// A spec whose dims and facts have values and whose patterns are names, as BindSpec() found them in a checkpoint.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "compiler/diagnostics/diagnostics.h"
#include "compiler/layout/inventory.h"
#include "compiler/layout/mesh.h"
#include "compiler/spec/spec.h"

namespace ucp {

// How large a dim is, and who says so.
struct DimValue {
  std::int64_t value = 0;
  Place place;
  std::string origin;    // Behind "`hidden` is 32": ", read from `args.hidden_size`".
  bool assumed = false;  // A default says so, or it follows from one.
};

// The value of a fact, and its source.
struct BoundFact {
  FactValue value;
  Place place;
  std::string origin;    // Behind "`tied` is true": ", read from `config.tie_word_embeddings`".
  bool assumed = false;  // As in DimValue.
};

// One name that a pattern stands for.
struct BoundTensor {
  std::string name;
  std::size_t declaration = 0;                // In CheckedSpec::tensors.
  std::optional<std::int64_t> stage_counter;  // The counter that is split over the stages.
  std::vector<std::int64_t> counters;         // The value of each counter of its pattern.
  std::size_t place = 0;                      // Among all names of the spec, in the order in which it gives them.
  std::vector<std::string> aliases;           // Sorted.
  std::vector<std::size_t> ties;              // In CheckedSpec::ties: those that gave an alias.
};

// How one `when` was decided: "dense layers: `i < dense` holds for i = 0..3, `dense` is 3, read from …".
struct Choice {
  SourceRange range;  // Of the condition.
  std::string text;   // The sentence that `explain` prints.
};

// The widths of cuts by `(widths)` alone, as the source's headers have them: for each such cut (where its `@` stands,
// and the counters if its dimension speaks of them) one for each coordinate, or none if the headers cannot tell.
struct HeaderCut {
  std::uint32_t at = 0;
  std::vector<std::int64_t> counters;
  auto operator<=>(const HeaderCut&) const = default;
};
using FoundWidths = std::map<HeaderCut, std::vector<std::int64_t>>;

struct BoundSpec {
  CheckedSpec spec;
  std::vector<std::optional<DimValue>> dims;  // One for each of the spec's; dims that nothing needs may have none.
  std::vector<BoundTensor> tensors;           // Sorted by name, without optional ones that the source lacks.
  std::vector<std::string> dropped;           // Names of source tensors that the spec drops, sorted.
  std::optional<Mesh> source_mesh;            // Nothing if the spec was bound without a checkpoint.
  FoundWidths widths;
  // Where names count layers from 0 on every stage: of each of the inventory's shards, its name with the layer's own
  // number. Empty if no name does.
  std::vector<std::string> shard_names;
  std::vector<std::optional<BoundFact>> facts;  // One for each of the spec's.
  std::vector<Choice> choices;                  // In source order.
};

// The values that the command line gives with `--set`: dims and facts by their names, and what stands for a header
// where there is none as `has "lm_head.weight"`, with the name as the spec writes it.
using Settings = std::map<std::string, FactValue>;

// More names than any model has: 20,000 tensors are a large one.
inline constexpr std::int64_t kMaxNames = 1'000'000;

}  // namespace ucp
