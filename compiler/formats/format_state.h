// The part of a training state that only the formats of one family understand, such as which layers its pipelines have.
// Code outside the family does not look into it. It carries it on, and asks the few questions below.
#pragma once

#include <llvm/Support/Error.h>

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "compiler/formats/pytorch/values/value.h"
#include "compiler/formats/strategy.h"
#include "compiler/layout/layout.h"
#include "compiler/layout/mesh.h"
#include "compiler/layout/target.h"

namespace ucp {

struct SourceArchive;

// By the key of a tied module ("embed"): the first of its layers. One that is not named is layer 1.
using TiedLayers = std::map<std::string, std::int64_t>;

// On which pipeline stages a source has its tensors.
struct SourceStages {
  std::int64_t count = 1;
  std::unordered_map<std::string, std::set<std::int64_t>> of_tensor;  // By the layout's own name.
};

// The request for the pipeline stages of a target.
struct StageRequest {
  const Strategy& strategy;
  const Degrees& degrees;
  const SourceStages& source;
  std::span<const LogicalTensor> tensors;
};

class FormatState {
 public:
  virtual ~FormatState() = default;
  // Returns the family's own name. Its code knows its part again by it.
  virtual std::string_view family() const = 0;

  // Returns all of it as entries of a dict, for the folder of a format outside the family. A FormatStateReader makes it
  // again.
  virtual std::vector<pytorch::Entry> Entries() const = 0;
  // Does the same for tensors with other names, by the names that they have now.
  virtual std::shared_ptr<const FormatState> Renamed(const std::map<std::string, std::string>& names) const = 0;
  // Returns why a published model has no tensors of these names, as a sentence; empty if it can have them.
  virtual std::string WhyNotPublished() const = 0;

  // Returns whether it knows the layers of a pipeline, so that PlaceStages() can spread them.
  virtual bool knows_layers() const = 0;
  // Returns how many stages a folder of whole tensors remembers of the checkpoint that it was made of; 1 if it
  // remembers none.
  virtual std::int64_t remembered_stages() const = 0;
  // On which of them a tensor was; null if that is not known.
  virtual const std::set<std::int64_t>* RememberedStagesOf(std::string_view tensor) const = 0;
  // Cuts the tensors of `layout` that hold several experts over the axis `ep` of its mesh.
  virtual void SpreadExperts(Layout& layout) const = 0;
  // Gives each tensor of `layout`, which has the target's mesh, its stages: by the numbers of layers in the degrees, as
  // the strategy says, or as a job of the family does by default, if the source's own stages bear that out. The choice
  // is a remark. Call if it knows the layers.
  [[nodiscard]] virtual llvm::Error PlaceStages(const StageRequest& request, Layout& layout,
                                                std::vector<std::string>& remarks) const = 0;
};

// Makes a family's part from the entries of a dict, as Entries() left them in this archive; null if they have nothing
// of it. Entries of other forms are kBadData.
using FormatStateReader = llvm::Expected<std::shared_ptr<const FormatState>> (*)(
    const std::vector<pytorch::Entry>& entries, const SourceArchive& archive);

}  // namespace ucp
