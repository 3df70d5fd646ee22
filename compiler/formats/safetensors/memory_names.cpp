#include "compiler/formats/safetensors/memory_names.h"

#include <algorithm>

namespace ucp::safetensors {
namespace {

constexpr std::string_view kExpertsApart = "each expert's matrices as tensors of their own";

std::string_view NameOnDisk(std::string_view name, bool is_gpt_neox) {
  for (std::string_view fused : {".experts.gate_up_proj", ".experts.up_proj", ".experts.down_proj"}) {
    if (name.ends_with(fused)) return kExpertsApart;
  }
  if (is_gpt_neox && name == "lm_head.weight") return "`embed_out.weight`";
  if (name.starts_with("model.language_model.")) return "`language_model.` at the beginning";
  const bool is_nemotron_h = name.starts_with("model.layers.") && name.find(".mixer.") != std::string_view::npos;
  return is_nemotron_h ? "`backbone.` at the beginning" : "";
}

bool IsOfMegatron(std::string_view name) {
  for (std::string_view begin : {"tied_modules.", "language_model.embedding.", "language_model.encoder.",
                                 "language_model.transformer.", "language_model.output_layer."}) {
    if (name.starts_with(begin)) return true;
  }
  const std::size_t digits = std::min(name.find_first_not_of("0123456789"), name.size());
  return digits > 0 && digits < name.size() && name[digits] == '.';  // A layer of a pipeline.
}

}  // namespace

std::string FindMegatronName(std::span<const LogicalTensor> tensors) {
  for (const LogicalTensor& tensor : tensors) {
    if (IsOfMegatron(tensor.name)) return tensor.name;
  }
  return "";
}

std::optional<MemoryName> FindMemoryName(std::span<const LogicalTensor> tensors) {
  const bool is_gpt_neox = std::any_of(
      tensors.begin(), tensors.end(), [](const LogicalTensor& tensor) { return tensor.name.starts_with("gpt_neox."); });
  for (const LogicalTensor& tensor : tensors) {
    const std::string_view on_disk = NameOnDisk(tensor.name, is_gpt_neox);
    if (!on_disk.empty()) return MemoryName{tensor.name, on_disk};
  }
  return std::nullopt;
}

}  // namespace ucp::safetensors
