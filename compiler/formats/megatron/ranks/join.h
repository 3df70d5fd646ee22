// The parts of a model that its ranks saved, each by the names of its own module, put in their places in the whole.
#pragma once

#include <llvm/Support/Error.h>

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "compiler/formats/dcp/entries/entry.h"
#include "compiler/formats/megatron/ranks/folders.h"
#include "compiler/formats/megatron/ranks/names.h"
#include "compiler/formats/megatron/rules/arguments.h"

namespace ucp::megatron {

// A part of the model: all that a stage has, or one of several that it takes in turn.
struct ModelPart {
  std::vector<LocalTensor> tensors;              // In the order of its module.
  std::vector<pytorch::Entry> extras;            // Values of modules, by name.
  std::vector<std::vector<StateBuffer>> states;  // Of the optimizer, for each tensor, from its first element on; empty:
                                                 // there are none, or another rank has them.
  bool is_old = false;                           // Of a model from before Megatron Core; the names are Megatron Core's.
};

struct RankOfModel {
  RankFolder folder;
  std::vector<ModelPart> parts;
};

// A box of a tensor of the whole model.
struct PlacedBox {
  dcp::Extents offsets;
  dcp::Extents sizes;
  std::int64_t begin = 0;        // The place of its first element in the rank's own tensor, where that is row-major.
  std::int64_t rows_before = 0;  // Of the rank's own tensor.
  std::vector<std::int64_t> strides = {};  // Of the last dimensions, in elements; empty: those of the rank's tensor.
  const LocalTensor* tensor = nullptr;
  const std::vector<StateBuffer>* states = nullptr;  // Null: there are none.
};

struct WholeTensor {
  dcp::Entry entry;  // Its name, dtype and shape.
  std::vector<PlacedBox> boxes;
};

struct WholeModel {
  std::vector<WholeTensor> tensors;    // In the order of the model.
  std::vector<pytorch::Entry> extras;  // By their keys in `torch_dist`.
  bool lacks_extras = false;           // Those of grouped experts, which have one for all of a rank.
};

// `ranks`: stage after stage, as RankFoldersOf() returns them; it must outlive the result. Fails (kBadData) where they
// contradict each other or the arguments, and (kUnsupported) for tensors whose cut is not known.
llvm::Expected<WholeModel> JoinRanks(const std::vector<RankOfModel>& ranks, const Arguments& arguments);

// Returns whether the word embeddings and the head of a pipeline's ends are one tensor.
bool AreEndsTied(const Arguments& arguments);

}  // namespace ucp::megatron
