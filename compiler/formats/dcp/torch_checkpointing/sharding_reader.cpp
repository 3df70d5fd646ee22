#include "compiler/formats/dcp/torch_checkpointing/sharding_reader.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "compiler/formats/dcp/entries/check_chunks.h"
#include "compiler/formats/pytorch/values/torch_names.h"
#include "compiler/support/checked_math.h"
#include "compiler/support/error.h"

namespace ucp::dcp {
namespace {

constexpr std::size_t kMostDimensionsOfTensor = 64;  // As in PyTorch.
constexpr std::size_t kMostDimensionsOfMesh = 16;

std::optional<DType> DTypeOfText(std::string_view text) {
  constexpr std::string_view kTorch = "torch.";
  if (!text.starts_with(kTorch)) return std::nullopt;
  return pytorch::DTypeOfGlobal(pytorch::Global{"torch", std::string(text.substr(kTorch.size()))});
}

}  // namespace

llvm::Expected<SharedTensor> ShardingReader::Read(Id group, std::string_view what) {
  UCP_ASSIGN_OR_RETURN(const Id sharding, values_.Need(group, "sharding_metadata", what));
  UCP_ASSIGN_OR_RETURN(const std::string_view type, values_.NeedText(sharding, "type", what));
  if (type != "DTensorShardingMetadata") {
    return Fail(ErrorCode::kUnsupported, "{} is shared as `{:.100}` says it, and DTensorShardingMetadata alone is read",
                what, type);
  }
  UCP_ASSIGN_OR_RETURN(const Id data, values_.Need(sharding, "data", what));
  SharedTensor tensor;
  UCP_RETURN_IF_ERROR(ReadTensor(data, what, tensor));
  UCP_ASSIGN_OR_RETURN(const Id mesh, values_.Need(data, "mesh_spec", what));
  UCP_ASSIGN_OR_RETURN(tensor.mesh, MeshOf(mesh, what));
  UCP_ASSIGN_OR_RETURN(const Id placements, values_.Need(data, "placements", what));
  UCP_RETURN_IF_ERROR(ReadPlacements(placements, what, tensor));
  UCP_ASSIGN_OR_RETURN(const Id ranks, values_.Need(group, "ranks", what));
  UCP_RETURN_IF_ERROR(CheckRanks(ranks, tensor.mesh, what));
  return tensor;
}

llvm::Error ShardingReader::ReadTensor(Id data, std::string_view what, SharedTensor& tensor) {
  UCP_ASSIGN_OR_RETURN(const std::string_view dtype, values_.NeedText(data, "dtype", what));
  const auto known = DTypeOfText(dtype);
  if (!known) return Fail(ErrorCode::kUnsupported, "{} is of `{:.100}`, which is not a known dtype", what, dtype);
  tensor.dtype = *known;
  UCP_ASSIGN_OR_RETURN(const Id shape, values_.Need(data, "global_shape", what));
  UCP_ASSIGN_OR_RETURN(tensor.shape, values_.Numbers(shape, fmt::format("`global_shape` of {}", what)));
  if (tensor.shape.size() > kMostDimensionsOfTensor) {
    return Fail(ErrorCode::kBadData, "{} has {} dimensions, and tensors have {} at most", what, tensor.shape.size(),
                kMostDimensionsOfTensor);
  }
  auto elements = ElementsOf(tensor.shape, tensor.dtype);
  return elements ? llvm::Error::success() : AddContext(elements.takeError(), std::string(what));
}

llvm::Error ShardingReader::ReadPlacements(Id list, std::string_view what, SharedTensor& tensor) {
  UCP_RETURN_IF_ERROR(values_.ForEachItem(list, fmt::format("`placements` of {}", what), [&](Id id) -> llvm::Error {
    UCP_ASSIGN_OR_RETURN(const Placement placement, ReadPlacement(id, what, tensor.shape.size()));
    tensor.placements.push_back(placement);
    return llvm::Error::success();
  }));
  const std::size_t dimensions = result_.meshes[tensor.mesh].shape.size();
  if (tensor.placements.size() == dimensions) return llvm::Error::success();
  return Fail(ErrorCode::kBadData, "{} has {} placements on a mesh of {} dimensions", what, tensor.placements.size(),
              dimensions);
}

llvm::Expected<Placement> ShardingReader::ReadPlacement(Id placement, std::string_view what, std::size_t dimensions) {
  UCP_ASSIGN_OR_RETURN(const std::string_view type, values_.NeedText(placement, "type", what));
  Placement read;
  if (type == "Replicate") return read;
  read.kind = type == "Shard" ? Placement::Kind::kShard : Placement::Kind::kStridedShard;
  if (type != "Shard" && type != "StridedShard") {
    return Fail(ErrorCode::kUnsupported, "{} is placed by `{:.100}`, and Shard, StridedShard and Replicate are read",
                what, type);
  }
  UCP_ASSIGN_OR_RETURN(const std::int64_t dim, values_.NeedInteger(placement, "dim", what));
  if (std::cmp_greater_equal(dim, dimensions)) {
    return Fail(ErrorCode::kBadData, "{} is cut along dimension {}, and has {} dimensions", what, dim, dimensions);
  }
  read.dim = static_cast<std::size_t>(dim);
  if (read.kind == Placement::Kind::kShard) return read;
  UCP_ASSIGN_OR_RETURN(read.split_factor, values_.NeedInteger(placement, "split_factor", what));
  if (read.split_factor > 0) return read;
  return Fail(ErrorCode::kBadData, "{} has the `split_factor` {}", what, read.split_factor);
}

llvm::Expected<std::uint32_t> ShardingReader::MeshOf(Id mesh, std::string_view what) {
  if (const auto known = mesh_of_dict_.find(mesh); known != mesh_of_dict_.end()) return known->second;
  UCP_ASSIGN_OR_RETURN(const Id shape, values_.Need(mesh, "mesh_shape", what));
  UCP_ASSIGN_OR_RETURN(const Id ranks, values_.Need(mesh, "mesh_data", what));
  RankMesh read;
  UCP_ASSIGN_OR_RETURN(read.shape, values_.Numbers(shape, fmt::format("`mesh_shape` of {}", what)));
  UCP_ASSIGN_OR_RETURN(read.ranks, values_.Numbers(ranks, fmt::format("`mesh_data` of {}", what)));
  UCP_RETURN_IF_ERROR(CheckMesh(read, what));
  const auto number = static_cast<std::uint32_t>(result_.meshes.size());
  result_.meshes.push_back(std::move(read));
  mesh_of_dict_.try_emplace(mesh, number);
  return number;
}

llvm::Error ShardingReader::CheckMesh(RankMesh& mesh, std::string_view what) const {
  std::optional<std::int64_t> product = 1;
  for (const std::int64_t size : mesh.shape) product = product ? CheckedMultiply(*product, size) : product;
  if (mesh.shape.size() > kMostDimensionsOfMesh || product != static_cast<std::int64_t>(mesh.ranks.size()) ||
      mesh.ranks.empty()) {
    return Fail(ErrorCode::kBadData, "the mesh of {} has the shape [{:.200}] and {} ranks", what,
                fmt::format("{}", fmt::join(mesh.shape, ", ")), mesh.ranks.size());
  }
  std::vector<std::int64_t> sorted = mesh.ranks;
  std::ranges::sort(sorted);
  if (sorted.back() >= result_.world_size) {
    return Fail(ErrorCode::kBadData, "the mesh of {} has the rank {}, and `world_size` is {}", what, sorted.back(),
                result_.world_size);
  }
  mesh.first_rank = sorted.front();
  const auto twice = std::ranges::adjacent_find(sorted);
  if (twice == sorted.end()) return llvm::Error::success();
  return Fail(ErrorCode::kBadData, "the mesh of {} has the rank {} twice", what, *twice);
}

llvm::Error ShardingReader::CheckRanks(Id ranks, std::uint32_t mesh, std::string_view what) {
  if (equal_ranks_.contains({ranks, mesh})) return llvm::Error::success();
  UCP_ASSIGN_OR_RETURN(std::vector<std::int64_t> listed, values_.Numbers(ranks, fmt::format("`ranks` of {}", what)));
  std::vector<std::int64_t> own;
  if (listed.size() == result_.meshes[mesh].ranks.size()) own = result_.meshes[mesh].ranks;
  std::ranges::sort(listed);
  std::ranges::sort(own);
  if (listed != own) {
    return Fail(ErrorCode::kBadData, "`ranks` of {} are {} ranks, and its mesh has {} or others", what, listed.size(),
                result_.meshes[mesh].ranks.size());
  }
  equal_ranks_.insert({ranks, mesh});
  return llvm::Error::success();
}

}  // namespace ucp::dcp
