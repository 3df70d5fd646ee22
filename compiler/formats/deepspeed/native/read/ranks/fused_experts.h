// Models whose experts DeepSpeed's AutoEP spreads (compiler/formats/deepspeed/common/autoep_layers.h): a tensor has
// several experts, an expert rank some of its first dimension's places. Parts of the same experts on several ranks, the
// optimizer cuts over them, as with DeepSpeed's own layer of experts (experts.h).
//
//   tensor `<prefix>.w1` [4, a, b]     expert 0 | expert 1 | expert 2 | expert 3
//   placement [[0, 1], [2, 3]]         rank 0: [2, a, b]   | rank 1: [2, a, b]
//
// Below stage 3 each expert's weights are in a file of their own, `<prefix>.w1.<expert>` [a, b]; at stage 3 there are
// the masters alone. Without ZeRO no list has the tensors, and the files of weights say which there are. In a pipeline
// each stage speaks of its own layers alone, numbers them from 0, and spreads their experts over its own ranks.
#pragma once

#include <llvm/Support/Error.h>

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "compiler/formats/deepspeed/common/expert_ranks.h"
#include "compiler/formats/deepspeed/common/family_state.h"
#include "compiler/formats/deepspeed/common/file_names.h"
#include "compiler/formats/deepspeed/common/model_states.h"
#include "compiler/formats/deepspeed/native/read/ranks/degrees.h"
#include "compiler/formats/deepspeed/native/read/ranks/experts.h"
#include "compiler/formats/source_archives.h"

namespace ucp::deepspeed {

// Returns whether AutoEP keeps this tensor outside of the module.
bool IsFusedExpertName(const ModelStates& states, const std::string& name);

// If a rank has layers whose experts AutoEP spreads, every pipeline stage has some. Call before CheckModuleTensors(),
// which would miss such a layer's tensors in the module.
[[nodiscard]] llvm::Error CheckStagesHaveFusedExperts(const std::string& folder, const Degrees& degrees,
                                                      const std::vector<ModelStates>& states);

class FusedExperts {
 public:
  // Reads the experts' files. Fails if a file or a tensor is missing or of another shape, where tensor-parallel ranks
  // contradict each other, for layers that are spread over different numbers of ranks, and beside tensor parallelism in
  // a pipeline or if no file says that its ranks share the experts out (both kUnsupported). `partitions` is not used
  // without ZeRO, which has none.
  static llvm::Expected<FusedExperts> Read(SourceArchives& archives, const CheckpointFiles& files,
                                           const std::string& folder, const Degrees& degrees,
                                           const std::vector<ModelStates>& states, std::int64_t partitions);

  bool any() const { return !stages_.empty(); }
  std::int64_t ep() const { return ep_; }
  bool data_first() const { return data_first_; }
  // Returns how many tensor-parallel ranks share experts out together: all. Where an expert rank stands, which is on no
  // `tp`.
  std::int64_t tensor_ranks() const { return tensor_ranks_; }
  Coordinate PlaceOf(std::int64_t mp, std::int64_t expert_rank) const {
    return {{{"pp", mp / tensor_ranks_}, {"ep", expert_rank}}};
  }
  // Returns the expert rank of a partition of a model-parallel rank, and of each expert rank those of its stage that
  // share its experts.
  std::int64_t ExpertRankAt(std::int64_t mp, std::int64_t partition) const;
  std::vector<RankInFiles> RanksOf(std::int64_t expert_rank) const;
  bool Holds(const std::string& name) const { return layer_of_.contains(name); }
  // Returns the expert ranks of which a model-parallel rank has ranks.
  std::set<std::int64_t> ExpertRanksIn(std::int64_t mp) const;

  // Returns the shapes that an expert rank has, from those of another one.
  std::vector<NamedShape> ShapesAt(std::int64_t expert_rank, std::vector<NamedShape> shapes) const;
  // Does the same for the groups of `param_shapes`.
  std::vector<std::vector<NamedShape>> ShapesAt(std::int64_t expert_rank,
                                                std::vector<std::vector<NamedShape>> groups) const;

  // The file of every model-parallel rank, and at stage 3 of every partition, says which expert rank it is of, how
  // experts are placed, and whose it is (`folding`). `first` is the first of its stage.
  [[nodiscard]] llvm::Error CheckPartition(const ModelStates& first, const ModelStates& other, std::int64_t mp,
                                           std::int64_t partition) const;
  // Does the same for the entry `folding` of an optimizer's file.
  [[nodiscard]] llvm::Error CheckOptimizerFile(const std::optional<Folding>& folding, const std::string& path,
                                               std::int64_t mp, std::int64_t partition) const;

  // Without ZeRO: the experts in a rank's module, in its order. A tensor whose experts are in several files has the
  // place of the first one's, and its own shape; WeightsOf() has all of it.
  std::vector<std::pair<std::string, TensorPlace>> TensorsOf(std::int64_t mp, std::int64_t expert_rank) const;
  Buffer WeightsOf(const std::string& name, std::int64_t mp, std::int64_t expert_rank) const;
  // Does the same as CheckOptimizerFile() for a file of an expert rank's own: an expert's weights, and without ZeRO the
  // optimizer.
  [[nodiscard]] llvm::Error CheckExpertFile(const std::optional<Folding>& folding, const std::string& path,
                                            std::int64_t mp, std::int64_t expert_rank) const;
  // A tensor that no group of `param_shapes` has is frozen; call it when the optimizers' parameters are known.
  void FindFrozen(const std::vector<ModelStates>& states);

  // The weights that the model computes with, and who has which expert.
  void AddTo(Inventory& inventory, FamilyState& state) const;

 private:
  // The layers of a pipeline stage, by its first model-states file.
  struct Stage {
    std::vector<AutoEpLayer> layers;
    std::string path;
  };
  struct LayerOfStage {
    std::size_t stage = 0;
    std::size_t layer = 0;
  };
  // A file of an expert's weights.
  struct ExpertCopy {
    std::int64_t mp = 0;
    std::int64_t expert = 0;
    auto operator<=>(const ExpertCopy&) const = default;
  };
  struct FusedTensor {
    NamedShape listed;
    TensorKind kind = TensorKind::kParameter;
    std::map<ExpertCopy, TensorPlace> experts;  // The weights; none at stage 3.
  };
  using FusedTensors = std::map<std::string, FusedTensor>;  // By name.

  llvm::Error FindStages(const std::string& folder, const Degrees& degrees, const std::vector<ModelStates>& states);
  llvm::Error CheckDegrees(const std::string& folder);
  llvm::Error CheckRanks(const std::string& folder, const std::vector<ModelStates>& states);
  // Returns the tensors of its stage that `states`, of an expert rank, lists.
  llvm::Expected<FusedTensors> ListTensors(const std::string& folder, const ModelStates& states, const Stage& stage,
                                           std::int64_t expert_rank) const;
  // Does the same from a file of an expert's weights, the first of the layer.
  void ListTensorsOfFile(const AutoEpLayer& layer, const ModuleEntries& entries, std::int64_t expert);
  void FindLayersOfTensors();
  llvm::Error CheckTensorRank(const std::string& folder, const ModelStates& states, std::int64_t mp) const;
  Folding FoldingOf(std::int64_t mp, std::int64_t expert_rank, const std::string& group, std::int64_t count) const;
  llvm::Error ReadFiles(SourceArchives& archives, const CheckpointFiles& files, const std::string& folder);
  llvm::Error ReadFilesOf(SourceArchives& archives, const CheckpointFiles& files, const std::string& folder,
                          std::int64_t mp, std::set<ExpertOf>& known);
  llvm::Error ReadFile(SourceArchives& archives, const std::string& folder, const std::string& path,
                       const AutoEpLayer& layer, ExpertCopy copy, std::int64_t expert_rank);
  llvm::Error CheckAllListed(const std::string& folder) const;
  llvm::Error CheckShapesOfMaps(const std::string& folder) const;
  void AddShard(Storage& storage, const std::string& name, std::int64_t mp, std::int64_t expert_rank) const;

  const Stage& StageOf(std::int64_t mp) const { return stages_[static_cast<std::size_t>(mp / tensor_ranks_)]; }
  const AutoEpLayer& LayerOf(const std::string& name) const {
    const LayerOfStage& place = layer_of_.at(name);
    return stages_[place.stage].layers[place.layer];
  }

  std::vector<Stage> stages_;  // None without AutoEP.
  std::int64_t ep_ = 1;
  std::int64_t tensor_ranks_ = 1;
  std::int64_t partitions_ = 1;  // Data-parallel ranks.
  bool data_first_ = false;
  bool is_whole_ = false;                         // Without ZeRO.
  std::map<std::string, LayerOfStage> layer_of_;  // By name of the tensor.
  FusedTensors tensors_;
};

}  // namespace ucp::deepspeed
