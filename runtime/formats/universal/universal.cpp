#include "runtime/formats/universal/universal.h"

#include "runtime/formats/checkpoint_root.h"
#include "runtime/formats/universal/loader.h"
#include "runtime/formats/universal/read.h"
#include "runtime/formats/universal/write.h"

namespace ucp {
namespace {

llvm::Expected<bool> IsFolder(FileSystem& files, const std::string& folder) {
  auto kind = files.Kind(JoinPath(folder, "zero"));
  if (!kind) return kind.takeError();
  return *kind == PathKind::kDirectory;
}

class UniversalFormat : public Format {
 public:
  std::string_view name() const override { return "universal"; }
  StrategyRules strategy_rules() const override { return universal::LoaderRules(); }

  llvm::Expected<std::optional<std::string>> Recognise(FileSystem& files, const std::string& path) const override {
    return FindCheckpoint(files, path,
                          {[&](const std::string& folder) { return IsFolder(files, folder); }, "latest_universal"});
  }

  llvm::Expected<Checkpoint> Describe(FileSystem& files, const std::string& folder, const RankPreference& preference,
                                      unsigned) const override {
    return universal::DescribeFolder(files, folder, preference);
  }

  llvm::Expected<TargetFiles> LayOut(const TargetRequest& request) const override {
    return universal::LayOutFolder(request.tensors, request.training, request.strategy);
  }
};

}  // namespace

std::unique_ptr<const Format> MakeUniversalFormat() { return std::make_unique<UniversalFormat>(); }

}  // namespace ucp
