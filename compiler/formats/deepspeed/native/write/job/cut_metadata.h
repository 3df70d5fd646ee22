// `universal_checkpoint_info` for the target's ranks: by it DeepSpeed's converter joins the parts of tensor-parallel
// ranks, and a conversion of ours does without a spec. AutoTP writes its own; Megatron-DeepSpeed's models give theirs.
//
//   tp_replicated_parameter_patterns         whole on every rank
//   parameter_to_average_patterns            of which the mean counts
//   parameter_with_row_parallelism_patterns  cut along dimension 1
//   parameter_with_2_sub_params_cat_dim_0    two equal runs of rows, each cut
//   parameter_with_sub_params                several runs, or those of another dimension; sub_param_shard_widths
//   vocabulary_parameter_patterns            rows with padding behind original_vocab_size
//   affine_map                               who holds which block
//   autotp_unsupported_parameter_patterns    what none of them describes, and why: DeepSpeed then refuses to convert
//
// Rows in one run have no list: DeepSpeed joins along dimension 0 whatever it has no word for. They get a map, which
// says the same and can be checked. A map outranks the lists, but tells the loader of a universal folder nothing, so
// that elsewhere there is one only where the lists have no words, or where the source had them (AutoTP).
#pragma once

#include <string>
#include <vector>

#include "compiler/formats/deepspeed/native/write/job/options.h"
#include "compiler/formats/format.h"

namespace ucp::deepspeed {

inline constexpr char kCutMetadata[] = "universal_checkpoint_info";

// Null: the target's files have none. The source's own where the layout knows of no tensor-parallel ranks; otherwise by
// the layout, with all other entries of the source's. `remarks` receives a note on each cut that it cannot express.
pytorch::ValuePtr DescribeCuts(const TargetRequest& request, const WriteOptions& options,
                               std::vector<std::string>& remarks);

// Returns, for Megatron-DeepSpeed, how many rows the padded vocabulary has over all ranks of this metadata; nothing if
// it has none.
std::optional<std::int64_t> PaddedVocabulary(const pytorch::Value& metadata);

}  // namespace ucp::deepspeed
