// Models from before Megatron Core, whose modules are nested dicts in the files of ranks, and the older values of
// `checkpoint_version`, which only they have.
#pragma once

#include <llvm/Support/Error.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/formats/megatron/ranks/join.h"
#include "compiler/formats/megatron/rules/arguments.h"
#include "compiler/formats/source_archives.h"

namespace ucp::megatron {

// Returns whether a dict in such a model holds tensors or further dicts: "language_model.encoder".
bool IsPartOfOldModel(std::string_view path);

// Returns the name of the same tensor in a model of Megatron Core with modules of its own; nothing for one that is not
// known. "language_model.encoder.layers.0.attention.dense.weight" is
// "decoder.layers.0.self_attention.linear_proj.weight".
std::optional<std::string> NameInCore(std::string_view path);

// Returns whether an entry of a rank's file is the state of one of its random generators, which were entries of their
// own.
bool IsOldSeed(std::string_view key);

// Returns the `checkpoint_version` of a rank's file; a file without it has 0. Fails (kUnsupported) for one that its
// model cannot have.
llvm::Expected<double> VersionOf(const SourceArchive& file, bool has_old_model);

// Puts the rows of queries, keys and values of an older version in the order of version 3. Fails (kBadData) for shapes
// that contradict the arguments, and (kUnsupported) for tensors that are not stored row by row.
[[nodiscard]] llvm::Error OrderRows(double version, const Arguments& arguments, WholeModel& model);

}  // namespace ucp::megatron
