// A rank's rows of queries, keys and values of a head are [heads, 3, rows of a head] in version 2 and later. They are
// [3, heads, rows of a head] in version 0, and [heads, rows of a head, 3] in version 1.
#include "compiler/formats/megatron/ranks/old_models.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <iterator>
#include <utility>

#include "compiler/formats/megatron/rules/cuts.h"
#include "compiler/formats/megatron/rules/keys.h"
#include "compiler/formats/pytorch/values/value_access.h"
#include "compiler/support/error.h"

namespace ucp::megatron {
namespace {

using Renaming = std::pair<std::string_view, std::string_view>;

constexpr std::array<std::string_view, 8> kParts = {"language_model",
                                                    "language_model.embedding",
                                                    "language_model.embedding.word_embeddings",
                                                    "language_model.embedding.position_embeddings",
                                                    "language_model.encoder",
                                                    "language_model.transformer",
                                                    "language_model.output_layer",
                                                    "word_embeddings_for_head"};
constexpr std::array<Renaming, 4> kOfEnds = {
    {{"language_model.embedding.word_embeddings.weight", kWordEmbeddings},
     {"language_model.embedding.position_embeddings.weight", "embedding.position_embeddings.weight"},
     {"language_model.output_layer.weight", kHead},
     {"word_embeddings_for_head.weight", kHead}}};
constexpr std::array<std::string_view, 2> kEncoders = {"language_model.encoder.", "language_model.transformer."};
constexpr std::array<Renaming, 2> kBehindLayers = {
    {{"final_norm.", "decoder.final_layernorm."}, {"final_layernorm.", "decoder.final_layernorm."}}};
constexpr std::array<Renaming, 11> kOfLayers = {{{"input_norm.", "input_layernorm."},
                                                 {"input_layernorm.", "input_layernorm."},
                                                 {"attention.query_key_value.", "self_attention.linear_qkv."},
                                                 {"self_attention.query_key_value.", "self_attention.linear_qkv."},
                                                 {"attention.dense.", "self_attention.linear_proj."},
                                                 {"self_attention.dense.", "self_attention.linear_proj."},
                                                 {"self_attention.core_attention.", "self_attention.core_attention."},
                                                 {"post_attention_norm.", "pre_mlp_layernorm."},
                                                 {"post_attention_layernorm.", "pre_mlp_layernorm."},
                                                 {"mlp.dense_h_to_4h.", "mlp.linear_fc1."},
                                                 {"mlp.dense_4h_to_h.", "mlp.linear_fc2."}}};
constexpr std::array<std::string_view, 5> kSeeds = {"random_rng_state", "np_rng_state", "torch_rng_state",
                                                    "cuda_rng_state", "rng_tracker_states"};
constexpr std::string_view kQueries = "self_attention.linear_qkv.";
constexpr std::int64_t kOfHead = 3;  // A query, a key and a value.

// The name with another beginning, if it has one of these.
template <std::size_t kCount>
std::optional<std::string> Renamed(std::string_view name, const std::array<Renaming, kCount>& renamings) {
  for (const auto& [old, own] : renamings) {
    if (name.starts_with(old)) return fmt::format("{}{}", own, name.substr(old.size()));
  }
  return std::nullopt;
}

// The rank's rows of one head's queries, keys or values, in the order that is wanted.
PlacedBox BlockOf(const PlacedBox& box, std::int64_t block, std::int64_t heads, double version) {
  const std::size_t rows = box.sizes.size() - box.tensor->place.sizes.size();  // Behind the layer, if it is a stack.
  const std::int64_t length = box.sizes[rows] / (heads * kOfHead);
  const std::int64_t columns = box.tensor->place.sizes.size() > 1 ? box.tensor->place.sizes[1] : 1;
  const std::int64_t head = block / kOfHead;
  const std::int64_t part = block % kOfHead;
  PlacedBox own = box;
  own.offsets[rows] += block * length;
  own.sizes[rows] = length;
  own.begin = (version == 0 ? (part * heads + head) * length : head * length * kOfHead + part) * columns;
  if (version == 0) return own;
  own.strides = {kOfHead * columns};
  if (box.tensor->place.sizes.size() > 1) own.strides.push_back(1);
  return own;
}

llvm::Error OrderTensor(double version, const Arguments& arguments, WholeTensor& tensor) {
  std::vector<PlacedBox> ordered;
  for (const PlacedBox& box : tensor.boxes) {
    const TensorPlace& place = box.tensor->place;
    const std::int64_t rows = place.sizes.front();
    const std::size_t dim = tensor.entry.shape.size() - place.sizes.size();
    const std::int64_t ranks = rows > 0 ? tensor.entry.shape[dim] / rows : 1;
    const std::int64_t all = arguments.Number("num_attention_heads").value_or(0);
    const std::int64_t heads = all / ranks;
    const bool are_shared =
        heads > 0 && all % ranks == 0 && rows > 0 && rows % kOfHead == 0 && rows / kOfHead % heads == 0;
    const std::int64_t length = are_shared ? rows / kOfHead / heads : 0;
    if (!are_shared || arguments.Number("kv_channels").value_or(length) != length ||
        arguments.IsSet("group_query_attention")) {
      return Fail(ErrorCode::kBadData,
                  "`{}` of [{}] is not of the {} heads of `args.num_attention_heads`, with as many keys and values as "
                  "queries, which `checkpoint_version` {} has",
                  box.tensor->name, fmt::join(place.sizes, ", "), all, version);
    }
    if (!place.strides.empty()) {
      return Fail(ErrorCode::kUnsupported, "`{}` is not stored row by row", box.tensor->name);
    }
    for (std::int64_t block = 0; block < heads * kOfHead; ++block) {
      ordered.push_back(BlockOf(box, block, heads, version));
    }
  }
  tensor.boxes = std::move(ordered);
  return llvm::Error::success();
}

}  // namespace

bool IsPartOfOldModel(std::string_view path) { return std::ranges::find(kParts, path) != kParts.end(); }

std::optional<std::string> NameInCore(std::string_view path) {
  for (const auto& [old, own] : kOfEnds) {
    if (path == old) return std::string(own);
  }
  for (const std::string_view encoder : kEncoders) {
    if (!path.starts_with(encoder)) continue;
    const std::string_view name = path.substr(encoder.size());
    if (auto behind = Renamed(name, kBehindLayers)) return behind;
    const std::string in_core = fmt::format("decoder.{}", name);
    if (!in_core.starts_with(kLayers)) return std::nullopt;
    const auto [layer, in_layer] = SplitLayer(in_core);
    const auto renamed = layer ? Renamed(in_layer, kOfLayers) : std::nullopt;
    return renamed ? std::optional(fmt::format("{}{}.{}", kLayers, *layer, *renamed)) : std::nullopt;
  }
  return std::nullopt;
}

bool IsOldSeed(std::string_view key) { return std::ranges::find(kSeeds, key) != kSeeds.end(); }

llvm::Expected<double> VersionOf(const SourceArchive& file, bool has_old_model) {
  constexpr double kNewest = 3;
  const pytorch::ValuePtr said = pytorch::Find(file.root(), "checkpoint_version");
  const auto version = said ? pytorch::AsDouble(*said) : 0.0;
  const bool is_old = version == 0.0 || version == 1.0 || version == 2.0;
  if (version && (*version >= kNewest || (has_old_model && is_old))) return *version;
  return Fail(ErrorCode::kUnsupported,
              "`checkpoint_version` is {} in `{}`, and {}; load the checkpoint with "
              "Megatron-LM, and save it again",
              version ? fmt::to_string(*version) : "no number", file.readable->path(),
              has_old_model
                  ? "0, 1, 2 and 3 are known"
                  : fmt::format("models of Megatron Core have {}: the names of its tensors are theirs", kNewest));
}

llvm::Error OrderRows(double version, const Arguments& arguments, WholeModel& model) {
  if (version >= 2) return llvm::Error::success();
  for (WholeTensor& tensor : model.tensors) {
    if (!tensor.entry.key.starts_with(kLayers)) continue;
    const std::string_view name = SplitLayer(tensor.entry.key).second;
    if (name != fmt::format("{}weight", kQueries) && name != fmt::format("{}bias", kQueries)) continue;
    UCP_RETURN_IF_ERROR(OrderTensor(version, arguments, tensor));
  }
  return llvm::Error::success();
}

}  // namespace ucp::megatron
