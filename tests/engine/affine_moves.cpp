// affine_moves < CASES > ANSWERS: moves one tensor from one affine map to another by our own plan, for
// tests/engine/test_affine_moves.py. A case is a line {"source": MAP, "target": MAP, "shards": [[…], …]}, with what
// stands in each source shard; its answer is {"shards": [[…], …]}, what then stands in each target shard, or
// {"refused": "why"}. Maps are as ParamAffineMap.to_dict writes them.
#include <fmt/format.h>
#include <llvm/Support/JSON.h>
#include <llvm/Support/raw_ostream.h>

#include <iostream>
#include <string>

#include "compiler/infer/lift_map.h"
#include "compiler/support/error.h"
#include "compiler/trial/carry_out.h"
#include "compiler/trial/positions.h"
#include "compiler/trial/side.h"

namespace ucp {
namespace {

using Sizes = std::vector<std::int64_t>;

Sizes ReadSizes(const llvm::json::Value& value) {
  Sizes sizes;
  for (const llvm::json::Value& one : *value.getAsArray()) sizes.push_back(*one.getAsInteger());
  return sizes;
}

AffineView ReadView(const llvm::json::Array& view) { return {*view[0].getAsInteger(), ReadSizes(view[1])}; }

AffineMap ReadMap(const llvm::json::Object& object) {
  AffineMap map;
  map.logical_shape = ReadSizes(*object.get("logical_shape"));
  for (const auto& [rank, shard] : *object.getObject("ranks")) {
    AffineShard& read = map.ranks[std::stoll(rank.str())];
    read.shape = ReadSizes(*shard.getAsObject()->get("shard_shape"));
    for (const llvm::json::Value& value : *shard.getAsObject()->getArray("pieces")) {
      const llvm::json::Object& piece = *value.getAsObject();
      read.pieces.push_back({ReadSizes(*piece.get("shape")), ReadView(*piece.getArray("source")),
                             ReadView(*piece.getArray("dest")), ReadSizes(*piece.get("locations")),
                             piece.getNumber("scale").value_or(1.0)});
    }
  }
  return map;
}

llvm::Expected<Side> SideOf(const AffineMap& map) {
  ObservedTensor observed;
  observed.name = "tensor";
  for (const auto& [rank, shard] : map.ranks) observed.by_rank.push_back(shard.shape);
  UCP_ASSIGN_OR_RETURN(Reading reading, LiftMap(map, observed));
  TensorLayout tensor;
  tensor.name = observed.name;
  tensor.dims = std::move(reading.dims);
  Layout layout;
  layout.mesh.axes = {{kCutAxis, static_cast<std::int64_t>(map.ranks.size())}};
  layout.tensors.push_back(std::move(tensor));
  UCP_RETURN_IF_ERROR(VerifyLayout(layout));
  return BuildSide(layout, {});
}

// The places of one rank's shard.
std::vector<std::int64_t>& PlacesOf(const Side& side, const Shard& shard, Memory& memory) {
  const Buffer& buffer = side.files.storage.buffer(side.files.storage.buffer_set(shard.states).front().buffer);
  return memory[buffer.parts.front().record.index()];
}

llvm::Expected<llvm::json::Array> Move(const llvm::json::Object& line) {
  UCP_ASSIGN_OR_RETURN(Side source, SideOf(ReadMap(*line.getObject("source"))));
  UCP_ASSIGN_OR_RETURN(Side target, SideOf(ReadMap(*line.getObject("target"))));
  UCP_ASSIGN_OR_RETURN(Plan plan, PlanBetween(source, target));
  Memory memory = source.memory;
  for (const Shard& shard : source.files.storage.shards) {
    Sizes given = ReadSizes((*line.getArray("shards"))[static_cast<std::size_t>(shard.coordinate.At(kCutAxis))]);
    if (!given.empty()) PlacesOf(source, shard, memory) = std::move(given);
  }
  CarriedOut carried = CarryOut(plan, source, target, memory);
  if (!carried.problem.empty()) return Fail(ErrorCode::kBadData, "{}", carried.problem);
  std::vector<llvm::json::Value> shards(target.files.storage.shards.size(), nullptr);
  for (const Shard& shard : target.files.storage.shards) {
    llvm::json::Array places;
    std::int64_t elements = 1;
    for (std::int64_t length : shard.shape) elements *= length;
    const std::vector<std::int64_t>& found = PlacesOf(target, shard, carried.memory);
    for (std::int64_t i = 0; i < elements; ++i) places.push_back(found[static_cast<std::size_t>(i)]);
    shards[static_cast<std::size_t>(shard.coordinate.At(kCutAxis))] = std::move(places);
  }
  llvm::json::Array answer;
  for (llvm::json::Value& shard : shards) answer.push_back(std::move(shard));
  return answer;
}

}  // namespace
}  // namespace ucp

int main() {
  std::string text;
  while (std::getline(std::cin, text)) {
    llvm::json::Value line = llvm::cantFail(llvm::json::parse(text));
    auto shards = ucp::Move(*line.getAsObject());
    llvm::json::Object answer;
    if (shards) {
      answer["shards"] = std::move(*shards);
    } else {
      answer["refused"] = llvm::toString(shards.takeError());
    }
    llvm::outs() << llvm::json::Value(std::move(answer)) << "\n";
  }
  return 0;
}
