// The folders that are checkpoints of PyTorch's Distributed Checkpoint, by the names in them.
//
//   <folder>/.metadata                          written last: without it the save did not finish
//   <folder>/__<rank>_<n>.distcp                the items that a rank wrote
//
//   <folder>/__<rank>.metadata                  instead of `.metadata`: ranks that saved with `use_collectives=False`
//
//   <folder>/pytorch_model_fsdp_0/.metadata     Accelerate, and transformers' Trainer: two of them, of which the second
//   <folder>/optimizer_0/.metadata              one may be missing
#pragma once

#include <llvm/Support/Error.h>

#include <string>
#include <string_view>
#include <vector>

#include "compiler/files/readable_file_system.h"

namespace ucp::dcp {

inline constexpr const char* kMetadataFile = ".metadata";
inline constexpr const char* kFirstRanksMetadataFile = "__0.metadata";
inline constexpr std::string_view kDataSuffix = ".distcp";
inline constexpr const char* kMegatronCommonFile = "common.pt";
inline constexpr const char* kMegatronDescription = "metadata.json";
inline constexpr const char* kUnfinishedMetadataFile = ".metadata.tmp";

// Returns whether metadata stands in this very folder.
llvm::Expected<bool> HasMetadata(ReadableFileSystem& files, const std::string& folder);

// Returns whether Megatron Core saved it as `torch_dist`: the same container, with names of its own in it.
llvm::Expected<bool> IsOfMegatron(ReadableFileSystem& files, const std::string& folder);

// Returns whether it holds one, finished or not, or is of torch_checkpointing. Megatron Core's are not of this
// format.
llvm::Expected<bool> IsCheckpointFolder(ReadableFileSystem& files, const std::string& folder);

// Returns the folders with metadata that make one checkpoint, relative to `folder` and with a slash at the end; the
// folder itself is "", and there are none in one of torch_checkpointing. Fails (kBadData) for a save that did not
// finish.
llvm::Expected<std::vector<std::string>> FoldersOf(ReadableFileSystem& files, const std::string& folder);

// Returns whether a checkpoint may have a file of this path below its folder.
bool IsFileName(std::string_view path);

// Returns the files with the metadata of such a folder: `.metadata`, or one of each rank, in their order. Fails
// (kBadData) if a rank's is missing.
llvm::Expected<std::vector<std::string>> MetadataFilesOf(ReadableFileSystem& files, const std::string& folder);

// "checkpoint-12" of "checkpoint-12/pytorch_model_fsdp_0": the name of a checkpoint without that of Accelerate's part.
std::string TagOf(const std::string& folder);

}  // namespace ucp::dcp
