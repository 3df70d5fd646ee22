// The part of a training state that only DeepSpeed's formats understand.
#pragma once

#include <llvm/Support/Error.h>

#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "compiler/formats/deepspeed/common/expert_names.h"
#include "compiler/formats/deepspeed/common/pipeline_layers.h"
#include "compiler/formats/format_state.h"
#include "compiler/formats/training_state.h"

namespace ucp::deepspeed {

struct FamilyState final : FormatState {
  std::optional<PipelineLayers> pipeline;  // Nothing if the model is none, or its layers' files are not known.
  std::vector<ExpertLayer> expert_layers;  // In the model's order, stage after stage; empty if not known.
  // Tensors with an expert for each place of their first dimension, over which AutoEP spreads them.
  std::set<std::string> fused_experts;
  bool excludes_frozen = false;  // Saved without the frozen parameters: the model may have some.

  std::string_view family() const override;
  std::vector<pytorch::Entry> Entries() const override;
  std::shared_ptr<const FormatState> Renamed(const std::map<std::string, std::string>& names) const override;
  std::string WhyNotPublished() const override;
  bool knows_layers() const override { return pipeline.has_value(); }
  std::int64_t remembered_stages() const override { return pipeline ? pipeline->stage_count : 1; }
  const std::set<std::int64_t>* RememberedStagesOf(std::string_view tensor) const override;
  void SpreadExperts(Layout& layout) const override;
  llvm::Error PlaceStages(const StageRequest& request, Layout& layout,
                          std::vector<std::string>& remarks) const override;
};

// DeepSpeed's part of a training state; an empty one if it has none, or another family's.
const FamilyState& StateOf(const TrainingState& training);
// Returns the same state to fill in. Copies of `training` stay as they are. The reference holds until the next call.
FamilyState& EditState(TrainingState& training);

// A FormatStateReader.
llvm::Expected<std::shared_ptr<const FormatState>> ReadState(const std::vector<pytorch::Entry>& entries,
                                                             const SourceArchive& archive);

// Returns the version of DeepSpeed that saved the source, as a text; without one, a version that writes the same files
// as we do.
pytorch::ValuePtr VersionOf(const TrainingState& training);

}  // namespace ucp::deepspeed
