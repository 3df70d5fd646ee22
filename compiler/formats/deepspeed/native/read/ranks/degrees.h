// How many pipeline stages, tensor-parallel ranks and ZeRO partitions a checkpoint was saved from, and whether all
// their files are there.
#pragma once

#include <llvm/Support/Error.h>

#include <cstdint>
#include <string>
#include <vector>

#include "compiler/formats/deepspeed/common/file_names.h"
#include "compiler/formats/deepspeed/common/model_states.h"

namespace ucp::deepspeed {

struct Degrees {
  std::int64_t pp = 1;
  std::int64_t tp = 1;

  // Model-parallel ranks count stages first: mp = stage * tp + tensor rank.
  std::int64_t mp() const { return pp * tp; }
  // Where a model-parallel rank, or one of its partitions, stands.
  Coordinate RankOf(std::int64_t mp) const { return {{{"pp", mp / tp}, {"tp", mp % tp}}}; }
  Coordinate RankOf(std::int64_t mp, std::int64_t partition) const {
    return {{{"pp", mp / tp}, {"dp", partition}, {"tp", mp % tp}}};
  }
};

// Refuses kinds of checkpoints that this version does not read, by their file names.
[[nodiscard]] llvm::Error CheckServed(const CheckpointFiles& files, const std::string& folder);

// Finds the degrees from the model-states files, by rank, and the names of all files. `mp_world_size` and the files are
// believed before `checkpoint_parallel_dimensions`, whose tp_degree can be the sequence-parallel degree; remarks say
// so. Fails if files are missing (named, with how many there should be) or contradict each other (both files, both
// values).
llvm::Expected<Degrees> FindDegrees(const CheckpointFiles& files, const std::string& folder,
                                    const std::vector<ModelStates>& states, std::vector<std::string>& remarks);

// The model-states files are those of the ranks 0, 1, …, without a gap. At stage 3, the file of a rank's first
// partition that has one becomes that of the rank.
[[nodiscard]] llvm::Error FindModelFiles(CheckpointFiles& files, const std::string& folder);
// The recorded degrees are the same in both.
[[nodiscard]] llvm::Error CheckSameDegrees(const std::string& folder, const ModelStates& a, const ModelStates& b);
struct Partitions {
  std::int64_t count = 1;  // Of each model-parallel rank. 1 without ZeRO, and where the optimizer is not whole.
  std::string absent;      // A sentence that names a missing file of the optimizer; empty if none is.
};
// Each model-parallel rank has the same number of partitions, without a gap. At stage 3 a file that is missing among
// the optimizer's is an error, and one of the module's is not (zero3_module.h).
llvm::Expected<Partitions> CountPartitions(const CheckpointFiles& files, const std::string& folder, std::int64_t mp);
// Every layer has a file for each tensor-parallel rank.
[[nodiscard]] llvm::Error CheckLayerFiles(const CheckpointFiles& files, const std::string& folder, std::int64_t tp);

}  // namespace ucp::deepspeed
