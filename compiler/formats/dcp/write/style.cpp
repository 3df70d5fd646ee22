#include "compiler/formats/dcp/write/style.h"

#include <fmt/format.h>

#include <utility>

#include "compiler/formats/format_state.h"
#include "compiler/support/error.h"

namespace ucp::dcp {
namespace {

constexpr std::string_view kFamily = "dcp";

// It has nothing but the names.
struct NameState final : FormatState {
  explicit NameState(KeptNames of_source) : names(std::move(of_source)) {}

  std::string_view family() const override { return kFamily; }
  std::vector<pytorch::Entry> Entries() const override { return {}; }
  std::shared_ptr<const FormatState> Renamed(const std::map<std::string, std::string>& /*names*/) const override {
    return std::make_shared<NameState>(names);
  }
  std::string WhyNotPublished() const override { return ""; }
  bool knows_layers() const override { return false; }
  std::int64_t remembered_stages() const override { return 1; }
  const std::set<std::int64_t>* RememberedStagesOf(std::string_view /*tensor*/) const override { return nullptr; }
  void SpreadExperts(Layout& /*layout*/) const override {}
  llvm::Error PlaceStages(const StageRequest& /*request*/, Layout& /*layout*/,
                          std::vector<std::string>& /*remarks*/) const override {
    return Fail(ErrorCode::kUnsupported, "a dcp folder does not know the layers of a pipeline");
  }

  const KeptNames names;
};

}  // namespace

Style::Style(std::string_view word) {
  if (word == "titan") {
    is_flat_ = true;
  } else if (word == "app") {
    model_ = {"app", "model"};
    optimizer_ = {"app", "optim"};
  } else if (word == "lightning") {
    model_ = {"state_dict"};
    optimizer_ = {"optimizer_0"};
    other_file_ = kLightningFile;
  } else {
    model_ = {"model"};
  }
  if (word == "accelerate") {
    model_folder_ = kAccelerateModel;
    optimizer_folder_ = kAccelerateOptimizer;
  }
}

Style::Style(EntryPath model, EntryPath optimizer, bool is_flat, bool has_two_folders, std::string other_file)
    : model_(std::move(model)),
      optimizer_(std::move(optimizer)),
      is_flat_(is_flat),
      model_folder_(has_two_folders ? kAccelerateModel : ""),
      optimizer_folder_(has_two_folders ? kAccelerateOptimizer : ""),
      other_file_(std::move(other_file)) {}

EntryPath Style::State(const std::string& parameter, const std::string& state) const {
  if (is_flat_) return Below(optimizer_, fmt::format("state.{}.{}", parameter, state));
  return Below(optimizer_, std::string("state"), parameter, state);
}

EntryPath Style::HyperParameter(const std::string& parameter, const std::string& name) const {
  return Below(optimizer_, fmt::format("param_groups.{}.{}", parameter, name));
}

std::shared_ptr<const FormatState> Keep(KeptNames names) { return std::make_shared<NameState>(std::move(names)); }

const KeptNames* KeptNamesOf(const TrainingState& training) {
  const FormatState* state = training.format_state.get();
  return state != nullptr && state->family() == kFamily ? &static_cast<const NameState*>(state)->names : nullptr;
}

const PartOfJob* PartOf(const TrainingState& training) {
  const KeptNames* of_source = KeptNamesOf(training);
  return of_source != nullptr && of_source->part ? &*of_source->part : nullptr;
}

const MachineFiles* MachineFilesOf(const TrainingState& training) {
  const KeptNames* of_source = KeptNamesOf(training);
  return of_source != nullptr && of_source->machines ? &*of_source->machines : nullptr;
}

Style StyleOfTarget(const Strategy& strategy, const TrainingState& training) {
  const auto asked = strategy.options.find("style");
  if (asked != strategy.options.end()) return Style(asked->second);
  const KeptNames* of_source = KeptNamesOf(training);
  return of_source != nullptr ? of_source->style : Style("titan");
}

}  // namespace ucp::dcp
