// Models with experts, as DeepSpeed's own MoE layer saves them below ZeRO stage 3. The experts of a layer are shared
// out over the layer's `ep` of the W ranks that share the optimizer; parts of the same experts on several ranks are cut
// over these W / ep. Layers can have different degrees.
//
//   rank d of W = 4     0      1      2      3
//   expert rank        0      1      0      1       d mod ep; with use_data_before_expert_parallelism d div (W / ep)
//   its experts       0 1    2 3    0 1    2 3      which it calls 0 and 1, in param_shapes and in its optimizer's file
//
// Files of experts (`layer_L_expert_G_mp_rank_XX_model_states.pt`) have the numbers of the whole model; L counts the
// layers with experts, on each pipeline stage from 0. XX is the model-parallel rank. A tensor's name here is the one
// with the expert's number in the whole model, and its coordinate on `ep` says which expert rank had it.
//
// With expert tensor parallelism each tensor-parallel rank has files of its part of every expert, and shares them out
// over its own W ranks. Without it experts are whole, and all ranks of a stage share them out (expert_ranks.h): each
// expert has one file, of the first rank that has it, and its parts of the optimizer stand in files of several XX.
#pragma once

#include <llvm/Support/Error.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "compiler/formats/deepspeed/common/expert_names.h"
#include "compiler/formats/deepspeed/common/file_names.h"
#include "compiler/formats/deepspeed/common/model_states.h"
#include "compiler/formats/deepspeed/native/read/ranks/degrees.h"
#include "compiler/formats/source_archives.h"

namespace ucp::deepspeed {

// Returns whether a parameter belongs to an expert, by its name.
bool IsExpertName(const std::string& name);

// Returns the value of use_data_before_expert_parallelism in `ds_config`.
bool IsDataFirst(const ModelStates& states);

class Experts {
 public:
  // Reads the experts' files. A layer's degree follows from how many experts `param_shapes` lists of those that there
  // are; without ZeRO, from how many files of optimizers there are. Fails if a file or a tensor is missing (named, with
  // who lists it), and if files of whole experts are of other ranks than those that would have saved them.
  static llvm::Expected<Experts> Read(SourceArchives& archives, const CheckpointFiles& files, const std::string& folder,
                                      const Degrees& degrees, const std::vector<ModelStates>& states,
                                      std::int64_t partitions);

  bool any() const { return !layers_.empty(); }
  // Returns how many tensor-parallel ranks share experts out together: all of them where experts are whole, else 1.
  std::int64_t tensor_ranks() const { return tensor_ranks_; }
  // Where an expert rank stands. A whole expert has no place on `tp`.
  Coordinate PlaceOf(std::int64_t mp, std::int64_t expert_rank) const;
  // Returns the contents of the files that are left out, in sentences.
  const std::vector<std::string>& remarks() const { return remarks_; }
  // Every expert has what each rank lists of its own; and what is listed says what is trained. Without ZeRO call it
  // when the optimizer's parameters are known; Read() does it otherwise.
  [[nodiscard]] llvm::Error CheckListed(const std::string& folder, const std::vector<ModelStates>& states);

  // Returns the largest degree of a layer.
  std::int64_t ep() const;
  // Returns the layers in the model's order, stage after stage.
  std::vector<ExpertLayer> Layers() const;

  // Returns the degree of a group of experts at one model-parallel rank, from the names of its parameters there. Fails
  // if they are of layers with different ones.
  llvm::Expected<std::int64_t> DegreeOf(std::int64_t mp, const std::vector<NamedShape>& group) const;
  // Returns the name in the whole model of the tensor that `expert_rank` calls `local`; a name that is not an expert's
  // stays.
  std::string NameInModel(std::int64_t mp, const std::string& local, std::int64_t expert_rank) const;

  // Returns the experts in an expert rank's module, in its order and by its names.
  std::vector<std::pair<std::string, TensorPlace>> TensorsOf(std::int64_t mp, std::int64_t expert_rank) const;

  // Without ZeRO, the model-parallel rank that saved an expert rank's optimizer: `mp`, or of the ranks that share
  // experts out with it the one that has such a file. Returns nothing if there is none.
  std::optional<std::int64_t> SaverOfOptimizer(const CheckpointFiles& files, std::int64_t mp,
                                               std::int64_t expert_rank) const;

  // The weights that the model computes with.
  void AddShards(SourceArchives& archives, Storage& storage) const;

 private:
  struct Layer {
    std::int64_t number = 0;  // L.
    std::int64_t experts = 0;
    std::int64_t ep = 1;
    std::map<std::string, std::pair<TensorPlace, std::string>> tensors;  // By name in the model; with the file.
    std::vector<std::string> order;                                      // Of these names, as the files have them.

    std::int64_t local() const { return experts / ep; }
  };
  // Model-parallel rank, the first of those that share the experts out together, and what its names begin with.
  using LayerOfRank = std::pair<std::int64_t, std::string>;

  std::int64_t FirstOf(std::int64_t mp) const { return mp - mp % tensor_ranks_; }
  // Returns, of the ranks that share experts out together, the one that has a file of this expert; else `mp`.
  ExpertOf FileOf(const CheckpointFiles& files, std::int64_t mp, std::int64_t layer, std::int64_t expert) const;
  llvm::Error ReadFiles(SourceArchives& archives, const CheckpointFiles& files, const std::string& folder,
                        const std::vector<ModelStates>& states);
  llvm::Error ReadFile(SourceArchives& archives, const std::string& path, const std::string& folder, ExpertOf place,
                       std::int64_t experts);
  llvm::Error CheckSavingRanks(const CheckpointFiles& files, const std::string& folder,
                               const std::vector<ModelStates>& states, std::int64_t partitions) const;
  llvm::Error FindDegrees(const CheckpointFiles& files, const std::string& folder,
                          const std::vector<ModelStates>& states);

  std::int64_t tp_ = 1;
  std::int64_t tensor_ranks_ = 1;
  std::vector<std::string> remarks_;
  std::map<LayerOfRank, Layer> layers_;
  std::map<std::pair<std::int64_t, std::string>, TensorKind> kinds_;  // By model-parallel rank and name in the model.
};

}  // namespace ucp::deepspeed
