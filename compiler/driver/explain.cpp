#include "compiler/driver/explain.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <llvm/Support/GlobPattern.h>

#include <map>
#include <vector>

#include "compiler/check/fact_value.h"
#include "compiler/support/error.h"
#include "compiler/support/units.h"

namespace ucp {
namespace {

std::string ShapeText(const std::vector<std::int64_t>& shape) { return fmt::format("[{}]", fmt::join(shape, ", ")); }

std::uint64_t Elements(const std::vector<std::int64_t>& shape) {
  std::uint64_t elements = 1;
  for (std::int64_t length : shape) elements *= static_cast<std::uint64_t>(length);
  return elements;
}

class Explainer {
 public:
  Explainer(const ExplainRequest& request, llvm::function_ref<bool(const std::string&)> line)
      : request_(request), line_(line) {
    if (request.inventory == nullptr) return;
    for (const Shard& shard : request.inventory->storage.shards) shards_[shard.tensor].push_back(&shard);
  }

  llvm::Error Run() {
    llvm::Expected<llvm::GlobPattern> glob = llvm::GlobPattern::create(request_.tensor_glob);
    if (!glob) {
      return Fail(ErrorCode::kUsage, "`{}` is no pattern for names: {}", request_.tensor_glob,
                  llvm::toString(glob.takeError()));
    }
    PrintDims();
    std::uint64_t tensors = 0;
    std::uint64_t elements = 0;
    for (const TensorLayout& tensor : request_.layout.tensors) {
      if (!glob->match(tensor.name)) continue;
      if (stopped_) break;
      UCP_ASSIGN_OR_RETURN(std::vector<std::int64_t> shape, LogicalShape(tensor));
      ++tensors;
      elements += Elements(shape);
      UCP_RETURN_IF_ERROR(PrintTensor(tensor, shape));
    }
    if (tensors == 0) {
      return Fail(ErrorCode::kUsage, "no tensor's name fits `{}`; the layout has {}", request_.tensor_glob,
                  request_.layout.tensors.size());
    }
    Line(fmt::format("{} tensor{}, {} elements", WithThousands(tensors), tensors == 1 ? "" : "s",
                     WithThousands(elements)));
    return llvm::Error::success();
  }

 private:
  void Line(const std::string& text) { stopped_ = stopped_ || !line_(text); }

  void PrintDims() {
    if (request_.bound == nullptr) return;
    const std::vector<DimDeclaration>& declared = request_.bound->spec.dims;
    for (std::size_t i = 0; i < declared.size() && i < request_.bound->dims.size(); ++i) {
      const std::optional<DimValue>& value = request_.bound->dims[i];
      if (value) Line(fmt::format("dim {} is {}{}", declared[i].name, value->value, value->origin));
    }
    const std::vector<FactDeclaration>& facts = request_.bound->spec.facts;
    for (std::size_t i = 0; i < facts.size(); ++i) {
      const std::optional<BoundFact>& fact = request_.bound->facts[i];
      if (fact) Line(fmt::format("fact {} is {}{}", facts[i].name, TextOf(fact->value), fact->origin));
    }
    for (const Choice& choice : request_.bound->choices) Line(fmt::format("when {}", choice.text));
    if (!declared.empty() || !facts.empty() || !request_.bound->choices.empty()) Line("");
  }

  llvm::Error PrintTensor(const TensorLayout& tensor, const std::vector<std::int64_t>& shape) {
    Line(tensor.name);
    Line(fmt::format("  declared  {}", ToString(tensor).substr(tensor.name.size() + 1)));
    Line(fmt::format("  by        {}", tensor.declared_at));
    Line(fmt::format("  whole     {}, {} elements", ShapeText(shape), WithThousands(Elements(shape))));
    auto found = shards_.find(tensor.name);
    if (found == shards_.end()) {
      for (const Coordinate& coordinate : CoordinatesOf(tensor, request_.layout.mesh)) {
        UCP_RETURN_IF_ERROR(PrintHolder(tensor, coordinate, ""));
      }
    } else {
      for (const Shard* shard : found->second) {
        UCP_RETURN_IF_ERROR(PrintHolder(tensor, shard->coordinate, StatesText(*shard)));
      }
    }
    Line("");
    return llvm::Error::success();
  }

  llvm::Error PrintHolder(const TensorLayout& tensor, const Coordinate& coordinate, const std::string& states) {
    UCP_ASSIGN_OR_RETURN(ProductSet set, HeldAt(tensor, request_.layout.mesh, coordinate));
    std::string who = coordinate.at.empty() ? "every rank" : ToString(coordinate);
    Line(fmt::format("  {:<9} {} local, elements {}{}", who, ShapeText(set.LocalShape()), ToString(set), states));
    return llvm::Error::success();
  }

  // ": exp_avg, exp_avg_sq, fp32 in bf16_zero_pp_rank_0_mp_rank_00_optim_states.pt and 1 more"
  std::string StatesText(const Shard& shard) const {
    const Storage& storage = request_.inventory->storage;
    std::string names;
    for (const StateBuffer& entry : storage.buffer_set(shard.states)) {
      names += fmt::format("{}{}", names.empty() ? "" : ", ", entry.state);
    }
    const Buffer& buffer = storage.buffer(storage.buffer_set(shard.states).front().buffer);
    std::string more = buffer.parts.size() == 1 ? "" : fmt::format(" and {} more", buffer.parts.size() - 1);
    return fmt::format(": {} in {}{}", names, storage.file(buffer.parts.front().record).path, more);
  }

  const ExplainRequest& request_;
  llvm::function_ref<bool(const std::string&)> line_;
  std::map<std::string, std::vector<const Shard*>> shards_;
  bool stopped_ = false;
};

}  // namespace

llvm::Error Explain(const ExplainRequest& request, llvm::function_ref<bool(const std::string&)> line) {
  return Explainer(request, line).Run();
}

}  // namespace ucp
