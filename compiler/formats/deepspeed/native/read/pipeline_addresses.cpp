#include "compiler/formats/deepspeed/native/read/pipeline_addresses.h"

#include <algorithm>
#include <map>

#include "compiler/formats/deepspeed/native/read/optimizer/zero12_states.h"
#include "compiler/support/checked_math.h"
#include "compiler/support/error.h"

namespace ucp::deepspeed {
namespace {

struct Piece {
  std::int64_t begin = 0;  // In the flat vector of the group.
  std::int64_t elements = 0;
  std::string name;
};

// The pieces of one group over all partitions, as parameters: pieces of one name that follow each other are one.
llvm::Expected<std::vector<NamedShape>> JoinPieces(std::vector<Piece> pieces, const std::string& owner) {
  std::sort(pieces.begin(), pieces.end(), [](const Piece& a, const Piece& b) { return a.begin < b.begin; });
  std::vector<NamedShape> shapes;
  std::int64_t end = 0;
  for (const Piece& piece : pieces) {
    auto next = CheckedAdd(piece.begin, piece.elements);
    if (piece.begin != end || piece.elements < 1 || !next) {
      return Fail(ErrorCode::kBadData,
                  "{}: `param_slice_mappings` has `{}` at {} with {} elements, and what comes before it ends at {}",
                  owner, piece.name, piece.begin, piece.elements, end);
    }
    end = *next;
    const bool goes_on = !shapes.empty() && shapes.back().name == piece.name;
    if (!goes_on) shapes.push_back({piece.name, {0}});
    shapes.back().shape.front() += piece.elements;
  }
  return shapes;
}

}  // namespace

llvm::Error ListAddressedParameters(ReadableFileSystem& file_system, const CheckpointFiles& files,
                                    const std::string& folder, std::int64_t partitions,
                                    std::vector<ModelStates>& states) {
  Storage storage;  // Of this look alone: the optimizer itself is read when its parameters have shapes.
  TrainingState training;
  SourceArchives archives(file_system, folder, storage, training);
  for (std::size_t mp = 0; mp < states.size(); ++mp) {
    std::vector<std::vector<Piece>> pieces;
    for (std::int64_t p = 0; p < partitions; ++p) {
      const std::string& path = files.optimizer_states.at({static_cast<std::int64_t>(mp), p});
      UCP_ASSIGN_OR_RETURN(OptimizerStates read, ReadOptimizerStates(archives, path));
      pieces.resize(std::max(pieces.size(), read.groups.size()));
      for (std::size_t g = 0; g < read.groups.size(); ++g) {
        for (const auto& [name, address] : read.groups[g].addresses) {
          auto before = CheckedMultiply(p, read.groups[g].master.elements);  // Padding is kept, so all are as long.
          auto begin = before ? CheckedAdd(*before, address.start) : std::nullopt;
          pieces[g].push_back({begin.value_or(-1), address.elements, name});
        }
      }
    }
    for (std::size_t g = 0; g < pieces.size(); ++g) {
      const std::string owner = fmt::format("`{}`: group {} of the rank of `{}`", folder, g, states[mp].path);
      UCP_ASSIGN_OR_RETURN(std::vector<NamedShape> shapes, JoinPieces(std::move(pieces[g]), owner));
      states[mp].param_shapes.push_back(std::move(shapes));
    }
  }
  return llvm::Error::success();
}

llvm::Error TakeShapesOfModules(const std::string& folder, const Degrees& degrees, std::vector<ModelStates>& states) {
  for (std::int64_t t = 0; t < degrees.tp; ++t) {
    std::map<std::string, const TensorPlace*> tensors;
    for (std::int64_t stage = 0; stage < degrees.pp; ++stage) {
      const ModelStates& rank = states[static_cast<std::size_t>(stage * degrees.tp + t)];
      for (const auto& [name, place] : rank.module.tensors) tensors.emplace(name, &place);
    }
    for (std::int64_t stage = 0; stage < degrees.pp; ++stage) {
      ModelStates& rank = states[static_cast<std::size_t>(stage * degrees.tp + t)];
      for (auto& group : rank.param_shapes) {
        for (NamedShape& parameter : group) {
          auto found = tensors.find(parameter.name);
          if (found == tensors.end()) {
            return Fail(ErrorCode::kBadData,
                        "`{}`: no layer file has the tensor `{}`, which `param_slice_mappings` of the rank of `{}` "
                        "lists",
                        folder, parameter.name, rank.path);
          }
          const TensorPlace& place = *found->second;
          if (place.elements != parameter.shape.front()) {
            return Fail(ErrorCode::kBadData,
                        "`{}`: `{}` has {} elements in its layer file and {} in `param_slice_mappings` of the rank of "
                        "`{}`",
                        folder, parameter.name, place.elements, parameter.shape.front(), rank.path);
          }
          parameter.shape = place.sizes;
        }
      }
    }
  }
  return llvm::Error::success();
}

}  // namespace ucp::deepspeed
