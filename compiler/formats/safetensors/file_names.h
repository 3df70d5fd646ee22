// The names of a folder's files. A model is one file, or several with an index; and so are the states of its optimizer,
// where this project wrote them.
#pragma once

#include <string>
#include <string_view>

namespace ucp::safetensors {

inline constexpr std::string_view kModelStem = "model";
inline constexpr std::string_view kOptimizerStem = "optimizer";
inline constexpr std::string_view kTrainingStateFile = "training_state.pt";
inline constexpr std::string_view kSuffix = ".safetensors";
inline constexpr std::string_view kIndexSuffix = ".safetensors.index.json";

inline std::string SingleFile(std::string_view stem) { return std::string(stem).append(kSuffix); }
inline std::string IndexFile(std::string_view stem) { return std::string(stem).append(kIndexSuffix); }
// Returns whether this is the name of weights, or of their index, as programs for models write them: also those of
// PyTorch, which lie beside.
bool IsWeightsName(std::string_view name);
// Whether this is the name of a file that PyTorch's HuggingFaceStorageWriter writes for one rank:
// "shard-00002-model-00001-of-00003.safetensors".
bool IsRankFile(std::string_view name);
// Numbers begin with 1; the only one of a model has none.
std::string ShardFile(std::string_view stem, std::size_t number, std::size_t count);

}  // namespace ucp::safetensors
