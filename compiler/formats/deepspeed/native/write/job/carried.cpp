#include "compiler/formats/deepspeed/native/write/job/carried.h"

#include <algorithm>
#include <array>

#include "compiler/formats/deepspeed/common/loss_scale.h"
#include "compiler/formats/deepspeed/native/write/job/adapt_config.h"
#include "compiler/formats/deepspeed/native/write/job/cut_metadata.h"
#include "compiler/formats/pytorch/values/value_access.h"

namespace ucp::deepspeed {
namespace {

using pytorch::Entry;
using pytorch::MakeBool;
using pytorch::MakeDict;
using pytorch::MakeDouble;
using pytorch::MakeInteger;
using pytorch::MakeText;
using pytorch::ValuePtr;

// The states of random number generators, as Megatron-DeepSpeed saves them, now and formerly.
constexpr std::array<std::string_view, 6> kRandomStates = {"rng_state",       "random_rng_state", "np_rng_state",
                                                           "torch_rng_state", "cuda_rng_state",   "rng_tracker_states"};

class Carrier {
 public:
  Carrier(const TargetRequest& request, const WriteOptions& options, const ValuePtr& job)
      : training_(request.training), mesh_(request.source_mesh), options_(options), job_(job) {
    cuts_ = DescribeCuts(request, options, carried_.remarks);
  }

  Carried Run() {
    CarryEngine();
    CarryLossScale();
    CarryOptimizer();
    for (std::int64_t mp = 0; mp < options_.mp(); ++mp) carried_.client.push_back(ClientOf(mp));
    if (options_.stage == 3 && options_.dp > 1) RemarkOnCopies();
    return std::move(carried_);
  }

 private:
  std::int64_t SourceDp() const {
    ValuePtr recorded = FindEntry(training_.engine, "dp_world_size");
    return recorded ? std::max<std::int64_t>(0, pytorch::AsInteger(*recorded).value_or(0)) : 0;
  }

  void CarryEngine() {
    for (const Entry& entry : training_.engine) {
      auto key = pytorch::AsText(*entry.key);
      if (key == "dp_world_size" || (key == "ds_config" && job_)) continue;
      const bool is_config = key == "ds_config" && pytorch::Entries(*entry.value) != nullptr;
      carried_.engine.push_back(
          is_config ? Entry{entry.key, AdaptConfig(entry.value, SourceDp(), options_, carried_.remarks)} : entry);
    }
    if (job_) carried_.engine.push_back({MakeText("ds_config"), AdaptConfig(job_, 0, options_, carried_.remarks)});
  }

  DType SourceDType() const {
    ValuePtr config = FindEntry(training_.engine, "ds_config");
    auto is_on = [&](std::string_view section) {
      ValuePtr found = config ? pytorch::Find(*config, section) : nullptr;
      ValuePtr enabled = found ? pytorch::Find(*found, "enabled") : nullptr;
      return enabled && pytorch::AsBool(*enabled).value_or(false);
    };
    if (is_on("fp16")) return DType::kFloat16;
    return is_on("bf16") || is_on("bfloat16") ? DType::kBFloat16 : DType::kFloat32;
  }

  // A scale belongs to float16. Only a source that computed with it knows one; the loaders of stage 3 and of those
  // without ZeRO want one in any case.
  void CarryLossScale() {
    ValuePtr scaler = FindEntry(training_.optimizer, "loss_scaler");
    const bool to_half = options_.dtype == DType::kFloat16;
    const bool wants_one = options_.stage == 0 || options_.stage == 3;
    if (!to_half) {
      if (scaler && IsDynamicLossScaler(*scaler)) {
        carried_.remarks.emplace_back(
            "the dynamic loss scale of float16 is dropped: the target does not scale its loss");
      }
      scaler = UnitLossScaler();
    } else if (SourceDType() != DType::kFloat16 || (wants_one && (!scaler || !pytorch::Find(*scaler, "cur_scale")))) {
      scaler = wants_one ? InitialLossScaler(FindEntry(carried_.engine, "ds_config")) : nullptr;
      carried_.remarks.push_back(fmt::format(
          "{} has no loss scale of float16: the target begins with {}", CalledInMessages(training_),
          scaler ? pytorch::Print(*pytorch::Find(*scaler, "cur_scale")) : "that of the job's configuration"));
    }
    if (to_half && SourceDType() == DType::kFloat16) RemarkOnMissingScale();
    if (!scaler) return;
    if (to_half && job_) RemarkOnOtherScale(*scaler);
    carried_.dynamic_loss_scale = MakeBool(IsDynamicLossScaler(*scaler));
    carried_.loss_scaler = std::move(scaler);
  }

  // The engine puts what it loads in the place of what its configuration says.
  void RemarkOnOtherScale(const pytorch::Value& scaler) {
    const std::string of_source = LossScaleText(scaler), of_job = LossScaleText(*InitialLossScaler(job_));
    if (of_source == of_job) return;
    carried_.remarks.push_back(fmt::format(
        "the loss scale of the source is {}, and that of the job's configuration {}: the engine continues with the "
        "source's, as from its own checkpoints",
        of_source, of_job));
  }

  // Without ZeRO, DeepSpeed 0.19 does not multiply the loss by the scale, and divides the gradients by it.
  void RemarkOnMissingScale() {
    ValuePtr config = FindEntry(training_.engine, "ds_config");
    ValuePtr section = config ? pytorch::Find(*config, "zero_optimization") : nullptr;
    ValuePtr stage = section ? pytorch::Find(*section, "stage") : nullptr;
    const bool source_is_whole = stage && pytorch::AsInteger(*stage) == 0;
    if (source_is_whole == (options_.stage == 0)) return;
    carried_.remarks.emplace_back(
        "without ZeRO, DeepSpeed divides the gradients of float16 by a loss scale that the loss never had: the moments "
        "of such a run are smaller by this factor than with ZeRO, and the optimizer needs some steps to get used to "
        "it");
  }

  // Stages 1 and 2 keep what they are given; each of the others has its own list.
  void CarryOptimizer() {
    const bool is_flat = (options_.stage == 1 || options_.stage == 2) && !options_.bf16_optimizer;
    auto add = [&](const char* key, ValuePtr otherwise) {
      ValuePtr of_source = FindEntry(training_.optimizer, key);
      carried_.optimizer.push_back({MakeText(key), of_source ? of_source : std::move(otherwise)});
    };
    if (is_flat || options_.stage == 3) add("overflow", MakeBool(false));
    if (is_flat || options_.bf16_optimizer || options_.wrapper == WholeWrapper::kFused) {
      ValuePtr clipping = ClippingOr(options_.wrapper == WholeWrapper::kFused ? MakeDouble(0.0) : nullptr);
      if (clipping) carried_.optimizer.push_back({MakeText("clip_grad"), std::move(clipping)});
    }
    if (!is_flat) return;
    constexpr std::array<std::string_view, 5> kElsewhere = {"loss_scaler", "dynamic_loss_scale", "ds_version",
                                                            "overflow", "clip_grad"};
    for (const Entry& entry : training_.optimizer) {
      auto key = pytorch::AsText(*entry.key);
      const bool is_other = !key || std::find(kElsewhere.begin(), kElsewhere.end(), *key) == kElsewhere.end();
      if (is_other) carried_.optimizer.push_back(entry);
    }
  }

  // By which norm gradients are clipped, if the source says it: stage 3 does not save it, and Trainer sets it past the
  // configuration. Where it is missing the job's own stays, but for FP16_Optimizer, which wants it to be there.
  ValuePtr ClippingOr(ValuePtr otherwise) {
    if (ValuePtr of_source = FindEntry(training_.optimizer, "clip_grad")) return of_source;
    ValuePtr config = job_ ? job_ : FindEntry(training_.engine, "ds_config");
    ValuePtr configured = config ? pytorch::Find(*config, "gradient_clipping") : nullptr;
    if (configured && pytorch::AsDouble(*configured)) return configured;
    if (otherwise) {
      carried_.remarks.push_back(fmt::format(
          "neither {}'s optimizer nor `gradient_clipping` says by which norm gradients are clipped, and FP16_Optimizer "
          "takes it from the checkpoint: the job will not clip",
          CalledInMessages(training_)));
    }
    return otherwise;
  }

  bool HasSameRanks() const {
    if (std::ssize(training_.ranks) != options_.mp()) return false;
    if (mesh_.axes.empty()) return options_.mp() == 1;
    return mesh_.Size("pp") == options_.pp && mesh_.Size("tp") == options_.tp;
  }

  // If there are other ranks, what rank 0 saved counts for all, but for its random numbers.
  std::vector<Entry> ClientOf(std::int64_t mp) {
    const bool has_same_ranks = HasSameRanks();
    std::vector<Entry> client;
    bool has_cuts = false;
    for (const Entry& entry :
         training_.ranks[has_same_ranks ? static_cast<std::size_t>(mp) : training_.counting_rank].client) {
      auto key = pytorch::AsText(*entry.key);
      if (!has_same_ranks && key &&
          std::find(kRandomStates.begin(), kRandomStates.end(), *key) != kRandomStates.end()) {
        if (mp == 0) {
          carried_.remarks.push_back(fmt::format(
              "`{}` is dropped: the states of random generators are those of other ranks (Megatron-DeepSpeed: "
              "--no-load-rng)",
              *key));
        }
        continue;
      }
      if (key == kCutMetadata && cuts_) {
        client.push_back({entry.key, cuts_});
        has_cuts = true;
        continue;
      }
      client.push_back(key == "args" ? Entry{entry.key, WithDegrees(entry.value)} : entry);
    }
    if (cuts_ && !has_cuts) client.push_back({MakeText(kCutMetadata), cuts_});
    return client;
  }

  // Each partition of stage 3 has a file of model states. Of a source's, those of the first one are read.
  void RemarkOnCopies() {
    for (const Entry& entry : carried_.client.front()) {
      auto key = pytorch::AsText(*entry.key);
      if (!key || std::find(kRandomStates.begin(), kRandomStates.end(), *key) == kRandomStates.end()) continue;
      carried_.remarks.push_back(fmt::format(
          "`{}` is that of the first partition in the files of all {}: give each rank other random numbers, "
          "if it needs them",
          *key, options_.dp));
    }
  }

  // Megatron-DeepSpeed compares the degrees in `args`, and the rows that follow from them, with its own.
  ValuePtr WithDegrees(const ValuePtr& args) const {
    const auto* object = args->As<pytorch::Call>();
    const auto* attributes = pytorch::Attributes(*args);
    if (object == nullptr || attributes == nullptr) return args;
    std::vector<Entry> changed = *attributes;
    for (const auto& [key, degree] :
         {std::pair<std::string_view, std::int64_t>{"tensor_model_parallel_size", options_.tp},
          {"pipeline_model_parallel_size", options_.pp},
          {"data_parallel_size", options_.dp},
          {"world_size", options_.mp() * options_.dp}}) {
      if (pytorch::Find(*args, key)) SetEntry(changed, key, MakeInteger(degree));
    }
    const auto rows = cuts_ ? PaddedVocabulary(*cuts_) : std::nullopt;
    if (rows && pytorch::Find(*args, "padded_vocab_size")) SetEntry(changed, "padded_vocab_size", MakeInteger(*rows));
    pytorch::Call copy = *object;
    copy.state = MakeDict(std::move(changed));
    return pytorch::MakeCall(std::move(copy));
  }

  const TrainingState& training_;
  const Mesh& mesh_;
  const WriteOptions& options_;
  const ValuePtr& job_;
  ValuePtr cuts_;  // Null: the target says nothing of how its tensors are cut.
  Carried carried_;
};

}  // namespace

Carried CarryOver(const TargetRequest& request, const WriteOptions& options, const ValuePtr& job) {
  return Carrier(request, options, job).Run();
}

}  // namespace ucp::deepspeed
