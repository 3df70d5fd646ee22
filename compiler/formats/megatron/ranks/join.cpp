// A rank counts the layers of each of its parts from 0. Parts follow one another as a microbatch passes through them:
// the first of each stage, then the second of each stage.
#include "compiler/formats/megatron/ranks/join.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <tuple>

#include "compiler/formats/megatron/ranks/names.h"
#include "compiler/formats/megatron/rules/cuts.h"
#include "compiler/formats/megatron/rules/keys.h"
#include "compiler/formats/pytorch/values/value_access.h"
#include "compiler/layout/dtype.h"
#include "compiler/support/checked_math.h"
#include "compiler/support/error.h"

namespace ucp::megatron {
namespace {

constexpr std::string_view kGate = "linear_fc1.weight";
constexpr std::string_view kBehindGate = "linear_fc2.weight";
constexpr std::string_view kExtraOfHead = "output_layer._extra_state";
constexpr std::string_view kOfGroupedExperts = "mlp.experts.linear_";
constexpr std::string_view kOfExperts = "mlp.experts.experts.linear_";

// The holder of a part of a tensor: of which layer, and of which expert, or on which expert-parallel rank; and the
// tensor-parallel rank.
using Holder = std::array<std::int64_t, 3>;

class Joiner {
 public:
  Joiner(const std::vector<RankOfModel>& ranks, const Arguments& arguments)
      : ranks_(ranks),
        arguments_(arguments),
        form_(FormOfRanks(arguments)),
        has_numbers_(HasNumberedLayers(arguments)),
        experts_(arguments.Number("num_experts").value_or(0)) {
    for (const RankOfModel& rank : ranks) {
      tensor_ranks_ = std::max(tensor_ranks_, rank.folder.tensor_rank + 1);
      expert_ranks_ = std::max(expert_ranks_, rank.folder.expert_rank + 1);
    }
    experts_of_rank_ = experts_ / expert_ranks_;
  }

  llvm::Expected<WholeModel> Join() {
    UCP_RETURN_IF_ERROR(FindGates());
    for (std::size_t part = 0; part < ranks_.front().parts.size(); ++part) {
      std::int64_t layers = 0;
      for (const RankOfModel& rank : ranks_) {
        if (rank.folder.tensor_rank == 0 && rank.folder.expert_rank == 0) {
          first_layer_ += layers;
          layers = LayersIn(rank.parts[part]);
        }
        layers_ = layers;
        UCP_RETURN_IF_ERROR(TakePart(rank, rank.parts[part], part));
      }
      first_layer_ += layers;
    }
    UCP_RETURN_IF_ERROR(CheckWhole());
    ExpandExtrasOfExperts();
    AddExtras();
    return std::move(model_);
  }

 private:
  std::int64_t LayersIn(const ModelPart& part) const {
    std::int64_t last = -1;
    for (const LocalTensor& tensor : part.tensors) {
      last = std::max(last, NameOf(tensor.name, form_).layer.value_or(-1));
    }
    return std::min(last, std::ssize(part.tensors)) + 1;  // More would have a layer without a tensor.
  }

  // A gated layer has twice as many rows before the gate as columns behind it. The first parts may have no layers.
  llvm::Error FindGates() {
    for (const RankOfModel& rank : ranks_) {
      for (const ModelPart& part : rank.parts) {
        for (const LocalTensor& tensor : part.tensors) {
          const NameInModel name = NameOf(tensor.name, form_);
          if (name.layer && name.name.ends_with(kGate) && tensor.place.sizes.size() == 2) {
            return FindGatesBy(rank, part, tensor, name);
          }
        }
      }
    }
    return llvm::Error::success();
  }

  llvm::Error FindGatesBy(const RankOfModel& rank, const ModelPart& part, const LocalTensor& gate,
                          const NameInModel& name) {
    NameInModel wanted = name;
    wanted.name.replace(wanted.name.size() - kGate.size(), kGate.size(), kBehindGate);
    const auto behind = std::ranges::find_if(part.tensors, [&](const LocalTensor& tensor) {
      return tensor.place.sizes.size() == 2 && NameOf(tensor.name, form_) == wanted;
    });
    UCP_ASSIGN_OR_RETURN(const auto gates, MatricesOf(rank, gate, name));
    std::vector<LocalMatrix> behinds;
    if (behind != part.tensors.end()) {
      UCP_ASSIGN_OR_RETURN(behinds, MatricesOf(rank, *behind, wanted));
    }
    const std::int64_t rows = gates.front().sizes[0];
    is_gated_ = !behinds.empty() && rows % 2 == 0 && rows / 2 == behinds.front().sizes[1];
    if (is_gated_ || !arguments_.IsSet("swiglu")) return llvm::Error::success();
    return Fail(ErrorCode::kBadData,
                "`args.swiglu` is true, and `{}` of [{}] with {} in `{}` is not a gated layer; the arguments were "
                "changed",
                gate.name, fmt::join(gate.place.sizes, ", "),
                behinds.empty() ? fmt::format("no matrix `{}`", wanted.name)
                                : fmt::format("`{}` of [{}]", behind->name, fmt::join(behind->place.sizes, ", ")),
                rank.folder.file());
  }

  llvm::Expected<std::vector<LocalMatrix>> MatricesOf(const RankOfModel& rank, const LocalTensor& tensor,
                                                      const NameInModel& name) const {
    auto matrices = MatricesIn(tensor, name, experts_of_rank_);
    if (!matrices) return AddContext(matrices.takeError(), fmt::format("`{}`", rank.folder.file()));
    return matrices;
  }

  // Of layers that differ each tensor has its number in the key.
  std::string KeyOf(const NameInModel& name) const {
    if (!name.layer) return name.name;
    if (!has_numbers_) return fmt::format("{}{}", kLayers, name.name);
    return fmt::format("{}{}.{}", kLayers, first_layer_ + *name.layer, name.name);
  }

  static std::optional<Cut> CutOf(const NameInModel& name, const std::string& key) {
    if (!name.layer && key.starts_with(kLayers)) return std::nullopt;
    const bool counts_experts = StackedDimensions(key) > (IsStackOfLayers(key) ? 1U : 0U);
    return counts_experts == (name.expert || name.has_all_experts) ? megatron::CutOf(key) : std::nullopt;
  }

  llvm::Error TakePart(const RankOfModel& rank, const ModelPart& part, std::size_t number) {
    const bool is_end = rank.folder.stage == ranks_.back().folder.stage && number + 1 == rank.parts.size();
    for (std::size_t i = 0; i < part.tensors.size(); ++i) {
      const LocalTensor& tensor = part.tensors[i];
      NameInModel name = NameOf(tensor.name, form_);
      if (is_end && name.name == kHead && AreEndsTied(arguments_)) name.name = kWordEmbeddings;
      UCP_RETURN_IF_ERROR(CheckPlace(rank, name, tensor.name));
      const std::string key = KeyOf(name);
      const auto cut = CutOf(name, key);
      if (!cut) {
        return Fail(ErrorCode::kUnsupported,
                    "`{}` has `{}`, and it is not known how ranks share that; load the checkpoint with Megatron-LM, "
                    "and save it as `torch_dist`",
                    rank.folder.file(), tensor.name);
      }
      UCP_ASSIGN_OR_RETURN(const auto matrices, MatricesOf(rank, tensor, name));
      const bool has_states = !part.states.empty() && !part.states[i].empty();
      const Taken taken{rank, tensor, has_states ? &part.states[i] : nullptr, key, name.layer, *cut};
      for (const LocalMatrix& matrix : matrices) UCP_RETURN_IF_ERROR(TakeMatrix(taken, matrix));
      // The module has no extra states, and the loader asks for those of experts one by one.
      if (name.has_all_experts && !part.extras.empty()) AddExtrasOfExperts(rank, name, name.name);
    }
    for (const pytorch::Entry& entry : part.extras) UCP_RETURN_IF_ERROR(TakeExtra(rank, entry));
    return llvm::Error::success();
  }

  llvm::Error CheckPlace(const RankOfModel& rank, const NameInModel& name, std::string_view own_name) const {
    if (name.layer.value_or(-1) >= layers_) {
      return Fail(ErrorCode::kBadData, "`{}` is in `{}`, and tensor-parallel rank 0 of its stage has {} layers",
                  own_name, rank.folder.file(), layers_);
    }
    if (name.expert.value_or(-1) < experts_of_rank_) return llvm::Error::success();
    return Fail(ErrorCode::kBadData, "`{}` is in `{}`, and a rank has {} of the {} experts that the arguments say",
                own_name, rank.folder.file(), experts_of_rank_, experts_);
  }

  // A tensor of a rank that is being taken.
  struct Taken {
    const RankOfModel& rank;
    const LocalTensor& tensor;
    const std::vector<StateBuffer>* states = nullptr;
    const std::string& key;
    std::optional<std::int64_t> layer;
    Cut cut = Cut::kWhole;
  };

  WholeTensor& OfTensor(const std::string& key) { return model_.tensors[places_.at(key)]; }

  llvm::Error TakeMatrix(const Taken& taken, const LocalMatrix& matrix) {
    const TensorPlace& place = taken.tensor.place;
    const auto [known, is_new] = places_.try_emplace(taken.key, model_.tensors.size());
    if (is_new) {
      model_.tensors.emplace_back();
      UCP_RETURN_IF_ERROR(Begin(taken, matrix));
    }
    const LocalTensor& first = *firsts_[known->second];
    const bool is_alike = is_new || (place.sizes == first.place.sizes && place.dtype == first.place.dtype);
    if (!is_alike) {
      return Fail(ErrorCode::kBadData,
                  "`{}` is {} [{}] in `{}`, and `{}` is {} [{}] on another rank or in another layer; the files are not "
                  "of one checkpoint",
                  taken.tensor.name, Name(place.dtype), fmt::join(place.sizes, ", "), taken.rank.folder.file(),
                  first.name, Name(first.place.dtype), fmt::join(first.place.sizes, ", "));
    }
    const std::int64_t expert_rank = taken.rank.folder.expert_rank;
    const auto expert = matrix.expert ? std::optional(expert_rank * experts_of_rank_ + *matrix.expert) : std::nullopt;
    const std::int64_t layer = taken.layer && !has_numbers_ ? first_layer_ + *taken.layer : 0;
    AddBoxes(taken, matrix, layer, expert);
    seen_[known->second].insert({layer, expert.value_or(expert_rank), taken.rank.folder.tensor_rank});
    return llvm::Error::success();
  }

  void AddBoxes(const Taken& taken, const LocalMatrix& matrix, std::int64_t layer, std::optional<std::int64_t> expert) {
    std::vector<std::int64_t> held = matrix.sizes;
    const std::int64_t halves = taken.cut == Cut::kHalves && is_gated_ ? 2 : 1;
    const std::size_t axis = taken.cut == Cut::kColumns ? 1 : 0;
    if (halves == 2) held[0] /= 2;
    for (std::int64_t half = 0; half < halves; ++half) {
      PlacedBox box;
      box.tensor = &taken.tensor;
      box.states = taken.states;
      box.strides = matrix.strides;
      const std::int64_t elements = taken.tensor.place.elements / halves;
      box.begin = matrix.begin + half * (matrix.strides.empty() ? elements : held[0] * matrix.strides[0]);
      if (half > 0) box.rows_before = held[0];
      if (IsStackOfLayers(taken.key)) {
        box.offsets.push_back(layer);
        box.sizes.push_back(1);
      }
      if (expert) {
        box.offsets.push_back(*expert);
        box.sizes.push_back(1);
      }
      const std::size_t outer = box.sizes.size();
      box.offsets.append(held.size(), 0);
      box.sizes.append(held.begin(), held.end());
      if (taken.cut != Cut::kWhole) {
        box.offsets[outer + axis] = (half * tensor_ranks_ + taken.rank.folder.tensor_rank) * held[axis];
      }
      OfTensor(taken.key).boxes.push_back(std::move(box));
    }
  }

  // The shape of the whole, but for the number of layers.
  llvm::Error Begin(const Taken& taken, const LocalMatrix& matrix) {
    const std::vector<std::int64_t>& sizes = matrix.sizes;
    const std::size_t axis = taken.cut == Cut::kColumns ? 1 : 0;
    const bool has_axis = taken.cut == Cut::kWhole || axis < sizes.size();
    const bool has_halves = taken.cut != Cut::kHalves || !is_gated_ || (has_axis && sizes[0] % 2 == 0);
    const auto cut_size = taken.cut == Cut::kWhole || !has_axis ? 0 : CheckedMultiply(sizes[axis], tensor_ranks_);
    if (!has_axis || !has_halves || !cut_size) {
      return Fail(ErrorCode::kBadData, "`{}` in `{}` has the shape [{}], which {} tensor-parallel ranks cannot share",
                  taken.tensor.name, taken.rank.folder.file(), fmt::join(taken.tensor.place.sizes, ", "),
                  tensor_ranks_);
    }
    dcp::Entry& entry = OfTensor(taken.key).entry;
    entry.key = taken.key;
    entry.is_tensor = true;
    entry.dtype = taken.tensor.place.dtype;
    if (IsStackOfLayers(taken.key)) entry.shape.push_back(0);
    if (matrix.expert) entry.shape.push_back(experts_);
    const std::size_t outer = entry.shape.size();
    entry.shape.insert(entry.shape.end(), sizes.begin(), sizes.end());
    if (taken.cut != Cut::kWhole) entry.shape[outer + axis] = *cut_size;
    firsts_.push_back(&taken.tensor);
    seen_.emplace_back();
    return llvm::Error::success();
  }

  // Each rank has its part of each layer and expert of each tensor.
  llvm::Error CheckWhole() {
    for (std::size_t i = 0; i < model_.tensors.size(); ++i) {
      dcp::Entry& entry = model_.tensors[i].entry;
      const bool is_of_layers = IsStackOfLayers(entry.key);
      const std::int64_t layers = is_of_layers ? first_layer_ : 1;
      const bool is_of_experts = StackedDimensions(entry.key) > (is_of_layers ? 1U : 0U);
      const std::int64_t parts = is_of_experts ? experts_ : expert_ranks_;
      if (is_of_layers) entry.shape.front() = layers;
      if (std::ssize(seen_[i]) == layers * parts * tensor_ranks_) continue;
      Holder lacking = {0, 0, 0};
      while (seen_[i].contains(lacking)) {
        if (++lacking[2] < tensor_ranks_) continue;
        lacking[2] = 0;
        if (++lacking[1] < parts) continue;
        lacking = {lacking[0] + 1, 0, 0};
      }
      const std::string_view part = is_of_experts ? ", with expert" : ", expert-parallel rank";
      return Fail(ErrorCode::kUnsupported,
                  "`{}` is not{} in the files of tensor-parallel rank {}{}, and `{}` has it: ranks and layers that "
                  "differ are not read",
                  entry.key, is_of_layers ? fmt::format(" in layer {}", lacking[0]) : "", lacking[2],
                  parts > 1 ? fmt::format("{} {}", part, lacking[1]) : "", firsts_[i]->name);
    }
    const auto has_experts = [](const WholeTensor& tensor) { return IsOfExperts(tensor.entry.key); };
    if (experts_ > 0 && std::ranges::none_of(model_.tensors, has_experts)) {
      return Fail(ErrorCode::kBadData, "`args.num_experts` is {}, and no rank has a tensor of experts", experts_);
    }
    const auto said = arguments_.Number("num_layers");
    if (!said || *said == first_layer_) return llvm::Error::success();
    return Fail(ErrorCode::kBadData,
                "`args.num_layers` is {}, and the ranks have {} layers; the folder holds parts of two saves, or its "
                "arguments were changed",
                *said, first_layer_);
  }

  // The first rank's count of those that have the module. GPTModel saves the head without its extra state.
  llvm::Error TakeExtra(const RankOfModel& rank, const pytorch::Entry& entry) {
    const std::string_view own_name = *pytorch::AsText(*entry.key);
    const NameInModel name = NameOf(own_name, form_);
    UCP_RETURN_IF_ERROR(CheckPlace(rank, name, own_name));
    if (rank.folder.tensor_rank != 0 || name.name == kExtraOfHead) return llvm::Error::success();
    const bool is_grouped = name.layer && name.name.starts_with(kOfGroupedExperts);
    const std::int64_t first = rank.folder.expert_rank * experts_of_rank_;
    if (!is_grouped && (name.expert || rank.folder.expert_rank == 0)) {
      const auto expert = name.expert ? std::optional(first + *name.expert) : std::nullopt;
      extras_.push_back({KeyOf(name), PlaceOfLayer(name), expert, entry.value});
    }
    if (!is_grouped) return llvm::Error::success();
    model_.lacks_extras = model_.lacks_extras || !entry.value->is_none();
    AddExtrasOfExperts(rank, name, fmt::format("{}{}", kOfExperts, name.name.substr(kOfGroupedExperts.size())));
    return llvm::Error::success();
  }

  // `tensor`: of the module, in the layer.
  void AddExtrasOfExperts(const RankOfModel& rank, const NameInModel& own, std::string_view tensor) {
    if (rank.folder.tensor_rank != 0) return;
    NameInModel weight = own;
    weight.name = fmt::format("{}.weight", tensor.substr(0, tensor.rfind('.')));
    const std::int64_t first = rank.folder.expert_rank * experts_of_rank_;
    grouped_.insert({KeyOf(weight), PlaceOfLayer(own), first});
  }

  // They are empty. Experts whose weights the ranks hold have one each.
  void ExpandExtrasOfExperts() {
    for (const auto& [weight, layer, first] : grouped_) {
      if (!places_.contains(weight)) continue;
      const std::string key = fmt::format("{}._extra_state", weight.substr(0, weight.rfind('.')));
      for (std::int64_t expert = first; expert < first + experts_of_rank_; ++expert) {
        extras_.push_back({key, layer, expert, pytorch::MakeNone()});
      }
    }
  }

  std::optional<std::int64_t> PlaceOfLayer(const NameInModel& name) const {
    return name.layer && !has_numbers_ ? std::optional(first_layer_ + *name.layer) : std::nullopt;
  }

  // "…/shard_3.5_4.8" for layer 3 of 4 and expert 5 of 8.
  void AddExtras() {
    for (const Extra& extra : extras_) {
      std::vector<std::int64_t> place;
      std::vector<std::int64_t> shape;
      for (const auto& [number, count] : {std::pair(extra.layer, first_layer_), std::pair(extra.expert, experts_)}) {
        if (!number) continue;
        place.push_back(*number);
        shape.push_back(count);
      }
      if (place.empty()) place = {0}, shape = {1};
      std::string key = fmt::format("{}/shard_{}_{}", extra.key, fmt::join(place, "."), fmt::join(shape, "."));
      model_.extras.push_back({pytorch::MakeText(std::move(key)), extra.value});
    }
  }

  struct Extra {
    std::string key;
    std::optional<std::int64_t> layer;  // Of a stack.
    std::optional<std::int64_t> expert;
    pytorch::ValuePtr value;
  };

  const std::vector<RankOfModel>& ranks_;
  const Arguments& arguments_;
  const ModuleForm form_;
  const bool has_numbers_;
  const std::int64_t experts_;
  std::int64_t experts_of_rank_ = 0;
  std::int64_t tensor_ranks_ = 1;
  std::int64_t expert_ranks_ = 1;
  std::int64_t first_layer_ = 0;  // Of the part that is being taken,
  std::int64_t layers_ = 0;       // which has so many.
  bool is_gated_ = false;
  WholeModel model_;
  std::map<std::string, std::size_t> places_;  // By key, in the whole model.
  std::vector<const LocalTensor*> firsts_;     // Of each tensor, the first part.
  std::vector<std::set<Holder>> seen_;         // Of each tensor.
  std::vector<Extra> extras_;
  // Of grouped experts: the key of the weight, the layer of a stack, and the rank's first expert.
  std::set<std::tuple<std::string, std::optional<std::int64_t>, std::int64_t>> grouped_;
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
