// Explains a layout: for each tensor its pattern, its declaration, its whole shape, and who holds which part of it, in
// the source and, where there is one, in the target. This is the data; explain_text.h, explain_json.h and
// explain_page.h show it.
#pragma once

#include <llvm/Support/Error.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "compiler/bind/bind.h"
#include "compiler/explain/paper_pattern.h"
#include "compiler/layout/holders.h"
#include "compiler/layout/inventory.h"
#include "compiler/layout/layout.h"

namespace ucp {

struct ExplainRequest {
  const Layout& source;
  std::string source_name;               // "deepspeed"; empty where the spec stands alone.
  const Layout* target = nullptr;        // The same tensors.
  std::string target_name = {};          // "universal"
  const BoundSpec* bound = nullptr;      // For the values of the dims; null without a spec.
  const Inventory* inventory = nullptr;  // Null without a checkpoint.
  std::string tensor_glob = "*";
};

// A dim or a fact.
struct ExplainedValue {
  std::string name;
  FactValue value;
  std::string origin;  // "read from `args.hidden_size`"
};

// How a tensor's shape is cut on one side. Tensors that are cut alike share one: a model has tens of them.
struct Cutting {
  std::vector<Holder> holders;
};

struct ExplainedTensor {
  const TensorLayout* layout = nullptr;  // Of the source.
  std::vector<std::int64_t> shape;
  std::uint64_t elements = 0;
  std::string declared;              // "[4@tp * 3 * 4, 16]"
  std::string file;                  // Of the declaration, or what says so without a spec.
  std::optional<std::int64_t> line;  // In that file.
  DerivedPattern pattern;
  std::optional<std::vector<std::int64_t>> stages;         // Declared, or found in the checkpoint.
  std::optional<std::vector<std::int64_t>> target_stages;  // Declared.
  std::size_t cutting = 0;                                 // In Explanation::cuttings.
  std::optional<std::size_t> target_cutting;
  std::vector<const Shard*> shards;  // Of the checkpoint; empty without one.
};

// Each tensor is counted once, however many names it has.
struct ExplainedTotals {
  std::uint64_t tensors = 0;
  std::uint64_t parameters = 0;  // Elements.
  std::uint64_t buffers = 0;     // Elements.
  std::uint64_t ties = 0;        // Second names.
};

// Points into the objects that the request names.
struct Explanation {
  std::string spec;  // "gpt.ucp"; empty without one.
  std::string layout_name;
  std::string source_name;
  Mesh source_mesh;
  std::string target_name;
  std::optional<Mesh> target_mesh;
  const Inventory* inventory = nullptr;
  std::vector<ExplainedValue> dims;
  std::vector<ExplainedValue> facts;
  std::vector<std::string> choices;
  std::vector<Cutting> cuttings;
  std::vector<ExplainedTensor> tensors;
  ExplainedTotals totals;
};

// Fails (kUsage) if the glob is ill-formed or matches nothing. Where the spec stands alone, every axis has one rank and
// nothing is cut; patterns are then those on the smallest number of ranks that every cut of the tensor allows, and say
// so.
llvm::Expected<Explanation> Explain(const ExplainRequest& request);

// "[0..4 8..12 and 6 more runs, 0..16]": at most `most_runs` of each dimension.
std::string HeldText(const ProductSet& held, std::size_t most_runs);

// States of a shard that lie in the same files of the checkpoint.
struct StateFiles {
  std::vector<std::string> states;
  std::vector<std::string> files;  // In the order of the elements.
};
std::vector<StateFiles> StateFilesOf(const Shard& shard, const Storage& storage);

}  // namespace ucp
