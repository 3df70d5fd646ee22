#include "compiler/formats/deepspeed/universal/loader.h"

#include <re2/re2.h>

#include <array>
#include <optional>
#include <string_view>
#include <utility>

#include "compiler/formats/deepspeed/common/batch_sizes.h"
#include "compiler/formats/deepspeed/common/family_state.h"
#include "compiler/formats/pytorch/values/value_access.h"
#include "compiler/support/error.h"

namespace ucp::universal {
namespace {

constexpr std::int64_t kMaxRanks = 16384;

using Version = std::array<int, 3>;

// Released sources from 0.14.5, the first with a stage 3 that loads such folders, to 0.19.2; 0.18.3 and 0.19.2 were
// run.
constexpr Version kReadsDicts = {0, 19, 3};

std::optional<Version> ParseVersion(std::string_view text) {
  Version version = {};
  const re2::StringPiece whole(text.data(), text.size());
  if (!RE2::FullMatch(whole, R"((\d{1,6})\.(\d{1,6})(?:\.(\d{1,6}))?\S*)", &version[0], &version[1]))
    return std::nullopt;
  RE2::PartialMatch(whole, R"(^\d+\.\d+\.(\d{1,6}))", &version[2]);
  return version;
}

// Of a folder for so many replicas alone: the batch of the source's job on them.
void RemarkOnReplicas(const TrainingState& training, std::int64_t dp, std::vector<std::string>& remarks) {
  const pytorch::ValuePtr config = FindEntry(training.engine, "ds_config");
  const pytorch::ValuePtr recorded = FindEntry(training.engine, "dp_world_size");
  const std::int64_t source_dp = recorded ? pytorch::AsInteger(*recorded).value_or(0) : 0;
  const auto sizes = config ? deepspeed::BatchSizesOf(*config, source_dp) : std::nullopt;
  std::string remark = sizes ? deepspeed::RemarkOnBatch(*sizes, dp) : "";
  if (!remark.empty()) remarks.push_back(std::move(remark));
}

// AutoEP beside tensor-parallel ranks: an engine compares the degrees with its own before it loads anything. In a
// pipeline DeepSpeed runs it without such ranks alone.
llvm::Error FindFolding(std::optional<std::int64_t> dp, const TrainingState& training, Loader& loader,
                        std::vector<std::string>& remarks) {
  const std::string& example = *deepspeed::StateOf(training).fused_experts.begin();
  if (loader.ranks == 1 || deepspeed::StateOf(training).pipeline) {
    if (loader.ep == 1 && !dp) return llvm::Error::success();
    return Fail(ErrorCode::kUsage,
                "`{}` has experts that AutoEP spreads: a folder for {} serves any `autoep_size` and any number of "
                "replicas, so leave out `ep` and `dp`",
                example, deepspeed::StateOf(training).pipeline ? "a pipeline" : "1 model-parallel rank");
  }
  if (loader.ep == 1 && !dp) {
    remarks.push_back(fmt::format(
        "`{}` has experts that AutoEP spreads, and an engine of {} tensor-parallel ranks with AutoEP wants to be told "
        "its degrees: no engine loads this folder; say `mp={},ep=E,dp=D` for one, or `mp=1`",
        example, loader.ranks, loader.ranks));
    return llvm::Error::success();
  }
  if (loader.ep == 1 || !dp || loader.ranks * *dp % loader.ep != 0) {
    return Fail(ErrorCode::kUsage,
                "`{}` has experts that AutoEP spreads: for an engine of {} tensor-parallel ranks say `ep` of 2 or more "
                "and `dp`, so that `ep` divides all {} * dp ranks",
                example, loader.ranks, loader.ranks);
  }
  loader.folding = Folding{loader.ranks, 0, loader.ep, 0, "dense_dp", *dp, 0};
  loader.ep = 1;  // Nothing of DeepSpeed's own layer is spread.
  RemarkOnReplicas(training, *dp, remarks);
  return llvm::Error::success();
}

// A DeepSpeed before 0.19.3.
llvm::Error ServeOlder(std::optional<std::int64_t> stage, const TrainingState& training, Loader& loader) {
  if (!stage) {
    return Fail(ErrorCode::kUsage,
                "DeepSpeed before 0.19.3 wants another folder at ZeRO stage 3 than at stages 1 and 2: say `zero=3` or "
                "`zero=1` beside `engine`");
  }
  loader.bare_states = *stage == 3;
  if (!deepspeed::StateOf(training).fused_experts.empty()) {
    return Fail(ErrorCode::kUsage,
                "`{}` has experts that AutoEP spreads, and no DeepSpeed before 0.19.3 has AutoEP: leave out `engine`",
                *deepspeed::StateOf(training).fused_experts.begin());
  }
  if (loader.bare_states && loader.ranks > 1) {
    return Fail(ErrorCode::kUnsupported,
                "DeepSpeed before 0.19.3 does not cut tensors over tensor-parallel ranks when it loads a universal "
                "folder at ZeRO stage 3; {} model-parallel ranks would each get all of it. Say `mp=1`, or load with a "
                "newer version",
                loader.ranks);
  }
  return llvm::Error::success();
}

}  // namespace

StrategyRules LoaderRules() {
  SettingRule engine{"engine", "a version of DeepSpeed, such as 0.18.9",
                     [](std::string_view text) { return ParseVersion(text).has_value(); }};
  return {.settings = {TakesNumber("mp", 1, kMaxRanks), TakesNumber("ep", 1, kMaxRanks),
                       TakesNumber("dp", 1, kMaxRanks), TakesNumber("zero", 1, 3), std::move(engine), TakesLayout()},
          .help =
              "universal, universal:mp=N for a target with N model-parallel ranks (default: as many as the source), "
              "universal:ep=N for one whose experts are spread over N ranks, universal:mp=N,ep=N,dp=N for AutoEP "
              "beside tensor parallelism, universal:zero=3,engine=VERSION for stage 3 of a DeepSpeed before 0.19.3, "
              "universal:layout=NAME for another layout of the spec's model"};
}

llvm::Expected<Loader> FindLoader(const Strategy& strategy, const TrainingState& training,
                                  std::vector<std::string>& remarks) {
  const auto said = [&](const char* key) -> std::optional<std::string_view> {
    auto option = strategy.options.find(key);
    if (option == strategy.options.end()) return std::nullopt;
    return option->second;
  };
  Loader loader;
  loader.ranks = std::ssize(training.ranks);
  std::optional<std::int64_t> stage;
  std::optional<Version> version;
  std::optional<std::int64_t> dp;
  if (auto text = said("mp")) loader.ranks = ParseCount(*text, 1, kMaxRanks).value();
  if (auto text = said("ep")) loader.ep = ParseCount(*text, 1, kMaxRanks).value();
  if (auto text = said("dp")) dp = ParseCount(*text, 1, kMaxRanks);
  if (auto text = said("zero")) stage = ParseCount(*text, 1, 3);
  if (auto text = said("engine")) version = ParseVersion(*text);
  if (!deepspeed::StateOf(training).fused_experts.empty()) {
    UCP_RETURN_IF_ERROR(FindFolding(dp, training, loader, remarks));
  } else if (dp) {
    return Fail(
        ErrorCode::kUsage,
        "dp={}: a folder serves any number of replicas, but where AutoEP spreads experts beside tensor-parallel "
        "ranks; leave it out",
        *dp);
  }
  if (version && *version < kReadsDicts) UCP_RETURN_IF_ERROR(ServeOlder(stage, training, loader));
  return loader;
}

}  // namespace ucp::universal
