// The target that a strategy names: the files of a format.
#pragma once

#include <llvm/Support/Error.h>

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "compiler/compile/compile_request.h"
#include "compiler/compile/compile_target.h"
#include "compiler/formats/companions.h"
#include "compiler/formats/job_config.h"
#include "compiler/formats/strategy.h"

namespace ucp {

class FormatTarget final : public CompileTarget {
 public:
  // `strategy` is what the target of `request` means, of a format that exists. `files` and `request` must outlive this.
  FormatTarget(ReadableFileSystem& files, const CompileRequest& request, Strategy strategy);

  // A source without a folder has nothing beside it. Fails with kUsage where options do not fit the format, with
  // kBadData where the source lacks something that the format needs.
  llvm::Expected<Sides> Meet(BoundSource source) override;
  llvm::Expected<TargetFiles> LayOut(const Sides& sides) override;
  bool CarriesTensors(const Sides& sides) const override;
  bool CarriesLooseStates() const override { return format_.CarriesLooseStates(); }

  // Choices that Meet() made where the request is silent; LayOut() adds them to the remarks of the files.
  const std::vector<std::string>& remarks() const { return remarks_; }

 private:
  llvm::Expected<Sides> LayOutBoth(BoundSource source);
  llvm::Expected<std::optional<Degrees>> DegreesOfOther(const BoundSource& source) const;
  llvm::Error WithOpenSettings(llvm::Error error, const TrainingState& training,
                               std::span<const LogicalTensor> tensors) const;
  void ChooseTag(TrainingState& training);
  [[nodiscard]] llvm::Error NameLeftOut(TargetFiles& target);
  void AddRemarks(TargetFiles& target) const;

  ReadableFileSystem& files_;
  const CompileRequest& request_;
  const Strategy strategy_;
  const Format& format_;
  // Found by Meet() for LayOut().
  std::optional<JobConfig> job_config_;
  Companions companions_;
  std::vector<LeftOut> left_out_;
  std::vector<std::string> remarks_;
};

}  // namespace ucp
