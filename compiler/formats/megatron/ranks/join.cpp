// A rank counts the layers of each of its parts from 0. Parts follow one another as a microbatch passes through them:
// the first of each stage, then the second of each stage.
#include "compiler/formats/megatron/ranks/join.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>

#include "compiler/formats/megatron/rules/cuts.h"
#include "compiler/formats/megatron/rules/keys.h"
#include "compiler/formats/pytorch/values/value_access.h"
#include "compiler/layout/dtype.h"
#include "compiler/support/checked_math.h"
#include "compiler/support/error.h"

namespace ucp::megatron {
namespace {

constexpr std::string_view kGate = "mlp.linear_fc1.weight";
constexpr std::string_view kBehindGate = "mlp.linear_fc2.weight";
constexpr std::string_view kExtraOfHead = "output_layer._extra_state";

struct NameInModel {
  std::optional<std::int64_t> layer;
  std::string name;  // In the layer, as `torch_dist` calls it.
};

// Modules without Transformer Engine have norms of their own, and keys are as if the linear layer behind had them.
NameInModel NameOf(std::string_view name) {
  if (!name.starts_with(kLayers)) return {std::nullopt, std::string(name)};
  const auto [number, in_layer] = SplitLayer(name);
  if (!number) return {std::nullopt, std::string(name)};
  using Renaming = std::pair<std::string_view, std::string_view>;
  constexpr std::array<Renaming, 2> kNorms = {{{"input_layernorm.", "self_attention.linear_qkv.layer_norm_"},
                                               {"pre_mlp_layernorm.", "mlp.linear_fc1.layer_norm_"}}};
  for (const auto& [own, key] : kNorms) {
    if (in_layer.starts_with(own)) return {number, fmt::format("{}{}", key, in_layer.substr(own.size()))};
  }
  return {number, std::string(in_layer)};
}

std::int64_t LayersIn(const ModelPart& part) {
  std::int64_t last = -1;
  for (const LocalTensor& tensor : part.tensors) last = std::max(last, NameOf(tensor.name).layer.value_or(-1));
  return std::min(last, std::ssize(part.tensors)) + 1;  // More would have a layer without a tensor.
}

// The matrix of this name in one of the part's layers; null if it has none.
const LocalTensor* MatrixOfLayer(const ModelPart& part, std::string_view name) {
  const auto found = std::ranges::find_if(part.tensors, [&](const LocalTensor& tensor) {
    return tensor.name.starts_with(kLayers) && tensor.name.ends_with(name) && tensor.place.sizes.size() == 2;
  });
  return found == part.tensors.end() ? nullptr : &*found;
}

class Joiner {
 public:
  Joiner(const std::vector<RankOfModel>& ranks, const Arguments& arguments) : ranks_(ranks), arguments_(arguments) {
    for (const RankOfModel& rank : ranks) tensor_ranks_ = std::max(tensor_ranks_, rank.folder.tensor_rank + 1);
  }

  llvm::Expected<WholeModel> Join() {
    UCP_RETURN_IF_ERROR(FindGates());
    for (std::size_t part = 0; part < ranks_.front().parts.size(); ++part) {
      std::int64_t layers = 0;
      for (const RankOfModel& rank : ranks_) {
        if (rank.folder.tensor_rank == 0) {
          first_layer_ += layers;
          layers = LayersIn(rank.parts[part]);
        }
        layers_ = layers;
        UCP_RETURN_IF_ERROR(TakePart(rank, rank.parts[part], part));
      }
      first_layer_ += layers;
    }
    UCP_RETURN_IF_ERROR(CheckWhole());
    AddExtras();
    return std::move(model_);
  }

 private:
  // A gated layer has twice as many rows before the gate as columns behind it. The first parts may have no layers.
  llvm::Error FindGates() {
    for (const RankOfModel& rank : ranks_) {
      for (const ModelPart& part : rank.parts) {
        const LocalTensor* gate = MatrixOfLayer(part, kGate);
        if (gate != nullptr) return FindGatesBy(rank, *gate, MatrixOfLayer(part, kBehindGate));
      }
    }
    return llvm::Error::success();
  }

  llvm::Error FindGatesBy(const RankOfModel& rank, const LocalTensor& gate, const LocalTensor* behind) {
    const std::int64_t rows = gate.place.sizes[0];
    is_gated_ = behind != nullptr && rows % 2 == 0 && rows / 2 == behind->place.sizes[1];
    if (is_gated_ || !arguments_.IsSet("swiglu")) return llvm::Error::success();
    return Fail(ErrorCode::kBadData,
                "`args.swiglu` is true, and `{}` of [{}] with {} in `{}` is not a gated layer; the arguments were "
                "changed",
                gate.name, fmt::join(gate.place.sizes, ", "),
                behind == nullptr ? fmt::format("no matrix `{}`", kBehindGate)
                                  : fmt::format("`{}` of [{}]", behind->name, fmt::join(behind->place.sizes, ", ")),
                rank.folder.file());
  }

  llvm::Error TakePart(const RankOfModel& rank, const ModelPart& part, std::size_t number) {
    const bool is_end = rank.folder.stage == ranks_.back().folder.stage && number + 1 == rank.parts.size();
    for (std::size_t i = 0; i < part.tensors.size(); ++i) {
      const LocalTensor& tensor = part.tensors[i];
      NameInModel name = NameOf(tensor.name);
      if (is_end && name.name == kHead && AreEndsTied(arguments_)) name.name = kWordEmbeddings;
      UCP_RETURN_IF_ERROR(CheckLayer(rank, name, tensor.name));
      const auto cut = name.layer ? CutInLayer(name.name) : CutOutsideLayers(name.name);
      if (!cut) {
        return Fail(ErrorCode::kUnsupported,
                    "`{}` has `{}`, and it is not known how ranks share that; load the checkpoint with Megatron-LM, "
                    "and save it as `torch_dist`",
                    rank.folder.file(), tensor.name);
      }
      const std::string key = name.layer ? fmt::format("{}{}", kLayers, name.name) : name.name;
      UCP_RETURN_IF_ERROR(TakeTensor(rank, tensor, key, name.layer, *cut));
      if (part.states.empty()) continue;
      std::vector<PlacedBox>& boxes = OfTensor(key).boxes;
      for (auto box = boxes.rbegin(); box != boxes.rend() && box->tensor == &tensor; ++box)
        box->states = &part.states[i];
    }
    for (const pytorch::Entry& entry : part.extras) UCP_RETURN_IF_ERROR(TakeExtra(rank, entry));
    return llvm::Error::success();
  }

  llvm::Error CheckLayer(const RankOfModel& rank, const NameInModel& name, std::string_view own_name) const {
    if (name.layer.value_or(-1) < layers_) return llvm::Error::success();
    return Fail(ErrorCode::kBadData, "`{}` is in `{}`, and tensor-parallel rank 0 of its stage has {} layers", own_name,
                rank.folder.file(), layers_);
  }

  WholeTensor& OfTensor(const std::string& key) { return model_.tensors[places_.at(key)]; }

  llvm::Error TakeTensor(const RankOfModel& rank, const LocalTensor& tensor, const std::string& key,
                         std::optional<std::int64_t> layer, Cut cut) {
    const TensorPlace& place = tensor.place;
    const auto [known, is_new] = places_.try_emplace(key, model_.tensors.size());
    if (is_new) {
      model_.tensors.emplace_back();
      UCP_RETURN_IF_ERROR(Begin(rank, tensor, key, layer.has_value(), cut));
    }
    WholeTensor& whole = OfTensor(key);
    const LocalTensor& first = *firsts_[known->second];
    const bool is_alike = is_new || (place.sizes == first.place.sizes && place.dtype == first.place.dtype);
    if (!is_alike) {
      return Fail(ErrorCode::kBadData,
                  "`{}` is {} [{}] in `{}`, and `{}` is {} [{}] on another rank or in another layer; the files are not "
                  "of one checkpoint",
                  tensor.name, Name(place.dtype), fmt::join(place.sizes, ", "), rank.folder.file(), first.name,
                  Name(first.place.dtype), fmt::join(first.place.sizes, ", "));
    }
    std::vector<std::int64_t> held = place.sizes;
    const std::int64_t halves = cut == Cut::kHalves && is_gated_ ? 2 : 1;
    const std::size_t axis = cut == Cut::kColumns ? 1 : 0;
    if (halves == 2) held[0] /= 2;
    for (std::int64_t half = 0; half < halves; ++half) {
      PlacedBox box;
      box.tensor = &tensor;
      box.begin = half * (place.elements / halves);
      if (half > 0) box.rows_before = held[0];
      if (layer) box.offsets.push_back(first_layer_ + *layer);
      if (layer) box.sizes.push_back(1);
      const std::size_t outer = box.sizes.size();
      box.offsets.append(held.size(), 0);
      box.sizes.append(held.begin(), held.end());
      if (cut != Cut::kWhole) {
        box.offsets[outer + axis] = (half * tensor_ranks_ + rank.folder.tensor_rank) * held[axis];
      }
      whole.boxes.push_back(std::move(box));
    }
    seen_[known->second].emplace(layer ? first_layer_ + *layer : 0, rank.folder.tensor_rank);
    return llvm::Error::success();
  }

  // The shape of the whole, but for the number of layers.
  llvm::Error Begin(const RankOfModel& rank, const LocalTensor& tensor, const std::string& key, bool is_of_layer,
                    Cut cut) {
    const std::vector<std::int64_t>& sizes = tensor.place.sizes;
    const std::size_t axis = cut == Cut::kColumns ? 1 : 0;
    const bool has_axis = cut == Cut::kWhole || axis < sizes.size();
    const bool has_halves = cut != Cut::kHalves || !is_gated_ || (has_axis && sizes[0] % 2 == 0);
    const auto cut_size = cut == Cut::kWhole || !has_axis ? 0 : CheckedMultiply(sizes[axis], tensor_ranks_);
    if (!has_axis || !has_halves || !cut_size) {
      return Fail(ErrorCode::kBadData, "`{}` in `{}` has the shape [{}], which {} tensor-parallel ranks cannot share",
                  tensor.name, rank.folder.file(), fmt::join(sizes, ", "), tensor_ranks_);
    }
    dcp::Entry& entry = OfTensor(key).entry;
    entry.key = key;
    entry.is_tensor = true;
    entry.dtype = tensor.place.dtype;
    if (is_of_layer) entry.shape.push_back(0);
    const std::size_t outer = entry.shape.size();
    entry.shape.insert(entry.shape.end(), sizes.begin(), sizes.end());
    if (cut != Cut::kWhole) entry.shape[outer + axis] = *cut_size;
    firsts_.push_back(&tensor);
    seen_.emplace_back();
    return llvm::Error::success();
  }

  // Each tensor-parallel rank has each layer of each tensor.
  llvm::Error CheckWhole() {
    for (std::size_t i = 0; i < model_.tensors.size(); ++i) {
      dcp::Entry& entry = model_.tensors[i].entry;
      const bool is_of_layer = IsStackOfLayers(entry.key);
      const std::int64_t layers = is_of_layer ? first_layer_ : 1;
      if (is_of_layer) entry.shape.front() = layers;
      if (std::ssize(seen_[i]) == layers * tensor_ranks_) continue;
      std::pair<std::int64_t, std::int64_t> lacking(0, 0);
      while (seen_[i].contains(lacking)) {
        if (++lacking.second == tensor_ranks_) lacking = {lacking.first + 1, 0};
      }
      return Fail(ErrorCode::kUnsupported,
                  "`{}` is not{} in the files of tensor-parallel rank {}, and `{}` has it: ranks and layers that "
                  "differ are not read",
                  entry.key, is_of_layer ? fmt::format(" in layer {}", lacking.first) : "", lacking.second,
                  firsts_[i]->name);
    }
    return llvm::Error::success();
  }

  // The first tensor-parallel rank's count. GPTModel saves the head without its extra state.
  llvm::Error TakeExtra(const RankOfModel& rank, const pytorch::Entry& entry) {
    const std::string_view own_name = *pytorch::AsText(*entry.key);
    const NameInModel name = NameOf(own_name);
    UCP_RETURN_IF_ERROR(CheckLayer(rank, name, own_name));
    if (rank.folder.tensor_rank != 0 || name.name == kExtraOfHead) return llvm::Error::success();
    if (name.layer) {
      extras_.push_back({name.name, first_layer_ + *name.layer, entry.value});
    } else {
      AddExtra(fmt::format("{}/shard_0_1", name.name), entry.value);
    }
    return llvm::Error::success();
  }

  void AddExtras() {
    for (const Extra& extra : extras_) {
      AddExtra(fmt::format("{}{}/shard_{}_{}", kLayers, extra.name, extra.layer, first_layer_), extra.value);
    }
  }

  void AddExtra(std::string key, const pytorch::ValuePtr& value) {
    model_.extras.push_back({pytorch::MakeText(std::move(key)), value});
  }

  struct Extra {
    std::string name;
    std::int64_t layer = 0;
    pytorch::ValuePtr value;
  };

  const std::vector<RankOfModel>& ranks_;
  const Arguments& arguments_;
  std::int64_t tensor_ranks_ = 1;
  std::int64_t first_layer_ = 0;  // Of the part that is being taken,
  std::int64_t layers_ = 0;       // which has so many.
  bool is_gated_ = false;
  WholeModel model_;
  std::map<std::string, std::size_t> places_;                          // By key, in the whole model.
  std::vector<const LocalTensor*> firsts_;                             // Of each tensor, the first part.
  std::vector<std::set<std::pair<std::int64_t, std::int64_t>>> seen_;  // Layers and ranks that have each tensor.
  std::vector<Extra> extras_;
};

}  // namespace

bool AreEndsTied(const Arguments& arguments) {
  return arguments.Number("pipeline_model_parallel_size").value_or(1) > 1 &&
         !arguments.IsSet("untie_embeddings_and_output_weights");
}

llvm::Expected<WholeModel> JoinRanks(const std::vector<RankOfModel>& ranks, const Arguments& arguments) {
  return Joiner(ranks, arguments).Join();
}

}  // namespace ucp::megatron
