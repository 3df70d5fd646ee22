// The contents of a checkpoint of any known format, from its headers alone: `ucprun inspect`, and ucp.inspect() in
// Python.
#pragma once

#include <llvm/Support/Error.h>
#include <llvm/Support/JSON.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "compiler/describe/bound_source.h"
#include "compiler/describe/request_texts.h"
#include "compiler/files/readable_file_system.h"
#include "compiler/formats/training_state.h"

namespace ucp {

// One tensor over all its shards.
struct InspectedTensor {
  std::string name;
  TensorKind kind = TensorKind::kParameter;
  std::string
      kind_name;  // KindName(); `weight` in a checkpoint without an optimizer, where nothing says what is trained.
  std::vector<std::int64_t> shape;
  std::uint64_t tensor_parallel_ranks = 1;    // How many ranks hold a shard of this shape.
  std::uint64_t other_ranks = 0;              // And how many a shard of another shape, or none.
  std::map<std::string, std::string> states;  // Name to dtype.
  std::uint64_t bytes = 0;
};

struct Inspection {
  std::string path;  // As the user gave it.
  BoundSource source;
  std::vector<InspectedTensor> tensors;  // Those whose name fits, sorted.
  std::size_t all_tensors = 0;           // How many there are.
  // Of the parameters in `tensors`; nothing where only the parts of ranks are known.
  std::optional<std::uint64_t> elements;
  // The specs of the catalogue that fit, and mean the same here; empty if none does, or one is named.
  std::vector<std::string> fitting_specs;
};

const char* KindName(TensorKind kind);
// "ZeRO stage 2, 2 parameter groups"; empty if nothing of it is known.
std::string OptimizerText(const TrainingState& training);
// As they lie in the folder: what parts of them unpack to is left out.
struct FilesOfStorage {
  std::size_t count = 0;
  std::uint64_t bytes = 0;
};
FilesOfStorage FilesOf(const Storage& storage);

// Without a spec, a tensor that tensor parallelism cuts is shown as its ranks hold it. `name_glob` says which tensors;
// kUsage if it fits none.
// `spec` receives the spec once it is open, so that its diagnostics can be shown, also when this fails.
llvm::Expected<Inspection> Inspect(ReadableFileSystem& files, const SourceTexts& source, const std::string& name_glob,
                                   OpenedSpec& spec);

// Tensor after tensor, since there can be very many.
void WriteInspection(const Inspection& inspection, llvm::json::OStream& json);
std::string InspectionAsJson(const Inspection& inspection);  // In one line.

}  // namespace ucp
