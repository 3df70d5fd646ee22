#include "compiler/formats/deepspeed/common/place_stages.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <optional>
#include <unordered_map>
#include <variant>

#include "compiler/formats/deepspeed/common/expert_names.h"
#include "compiler/formats/deepspeed/common/place_layers.h"
#include "compiler/support/error.h"

namespace ucp::deepspeed {
namespace {

constexpr const char* kSetting = "partition";

llvm::Expected<std::string> PrefixOf(const std::string& name, const PipelineLayers& layers) {
  for (const auto& [layer, prefix] : layers.prefixes) {
    if (name.starts_with(prefix)) return prefix;
  }
  return Fail(ErrorCode::kUnsupported,
              "the source does not say which layer of the pipeline `{}` belongs to: none of its layer files holds it",
              name);
}

// DeepSpeed counts what the rank that deals has; all tensor ranks have to come to the same.
llvm::Expected<std::int64_t> LocalElements(const TensorLayout& tensor, const Mesh& mesh) {
  std::optional<std::int64_t> same;
  for (std::int64_t tp = 0; tp < mesh.Size("tp"); ++tp) {
    UCP_ASSIGN_OR_RETURN(ProductSet set, HeldAt(tensor, mesh, Coordinate{{{"tp", tp}}}));
    if (same && *same != set.local_elements()) {
      return Fail(
          ErrorCode::kUsage,
          "`{}` has {} elements on one tensor-parallel rank and {} on another, so ranks of DeepSpeed would deal "
          "layers differently; say how many layers each stage has",
          tensor.name, *same, set.local_elements());
    }
    same = set.local_elements();
  }
  return *same;
}

// A job made with this method would also have had its source's stages.
llvm::Error CheckAgainstSource(const PipelineSource& pipeline, DealMethod method) {
  if (pipeline.stage_count == 1) return llvm::Error::success();
  UCP_ASSIGN_OR_RETURN(PipelineStages same, PlaceLayers(pipeline, pipeline.stage_count, method));
  for (const auto& [prefix, held] : same.of_prefix) {
    const std::set<std::int64_t>& in_source = pipeline.stages.at(prefix);
    if (std::equal(held.begin(), held.end(), in_source.begin(), in_source.end())) continue;
    return Fail(ErrorCode::kUsage,
                "DeepSpeed deals layers over stages by their parameters unless the model says otherwise, and this one "
                "does: the source has layer `{}` on stage {}, and not on {}. Say partition=uniform, or how many layers "
                "each stage has (pp=8+8)",
                prefix.substr(0, prefix.size() - 1), fmt::join(in_source, " and "), fmt::join(held, " and "));
  }
  return llvm::Error::success();
}

using PrefixOfTensor = std::unordered_map<const TensorLayout*, std::string>;

// Fills in where the source has each layer, and how many trained parameters it has.
llvm::Error WeighLayers(const FamilyState& state, const StageRequest& request, const Layout& layout,
                        PipelineSource& pipeline, PrefixOfTensor& prefix_of) {
  for (const auto& [layer, prefix] : pipeline.layers.prefixes) pipeline.weights[prefix] = 0;
  std::map<std::string, std::int64_t> of_experts;  // Of all of a layer's.
  for (const LogicalTensor& tensor : request.tensors) {
    const TensorLayout* in_layout = layout.Find(tensor.name);
    UCP_ASSIGN_OR_RETURN(std::string prefix, PrefixOf(tensor.name, pipeline.layers));
    const std::set<std::int64_t>& held = request.source.of_tensor.at(in_layout->name);
    pipeline.stages[prefix].insert(held.begin(), held.end());
    if (state.fused_experts.contains(tensor.name)) {
      // Layers are dealt before AutoEP spreads their experts: every rank has all of them then.
      pipeline.weights[prefix] += ProductSet::Whole(tensor.shape).local_elements();
    } else if (tensor.kind == TensorKind::kParameter) {
      UCP_ASSIGN_OR_RETURN(std::int64_t elements, LocalElements(*in_layout, layout.mesh));
      (ParseExpertName(tensor.name) ? of_experts : pipeline.weights)[prefix] += elements;
    }
    prefix_of[in_layout] = std::move(prefix);
  }
  // Its own experts are what a rank counts, which are as large as the others.
  for (const auto& [prefix, elements] : of_experts) pipeline.weights[prefix] += elements / layout.mesh.Size("ep");
  return llvm::Error::success();
}

}  // namespace

llvm::Error PlacePipeline(const FamilyState& state, const StageRequest& request, Layout& layout,
                          std::vector<std::string>& remarks) {
  const std::vector<std::int64_t>& stage_layers = request.degrees.stage_layers;
  PipelineLayers layers = *state.pipeline;
  PipelineSource pipeline{layers, {}, {}, request.source.count};
  PrefixOfTensor prefix_of;
  UCP_RETURN_IF_ERROR(WeighLayers(state, request, layout, pipeline, prefix_of));
  // A layer without a tensor here counts as one without a file.
  std::erase_if(layers.prefixes, [&](const auto& layer) { return !pipeline.stages.contains(layer.second); });
  std::variant<DealMethod, std::vector<std::int64_t>> how = stage_layers;
  auto setting = request.strategy.options.find(kSetting);
  const bool is_said = setting != request.strategy.options.end();
  if (is_said && !stage_layers.empty()) {
    return Fail(ErrorCode::kUsage, "the strategy says the layers of each stage ({}) and `partition`; leave one out",
                fmt::join(stage_layers, "+"));
  }
  if (stage_layers.empty()) {
    how = is_said ? *FindDealMethod(setting->second) : DealMethod::kParameters;
    if (!is_said) UCP_RETURN_IF_ERROR(CheckAgainstSource(pipeline, DealMethod::kParameters));
  }
  UCP_ASSIGN_OR_RETURN(PipelineStages placed, PlaceLayers(pipeline, layout.mesh.Size("pp"), how));
  for (TensorLayout& tensor : layout.tensors) {
    auto prefix = prefix_of.find(&tensor);
    if (prefix != prefix_of.end()) tensor.stages = placed.of_prefix.at(prefix->second);
  }
  if (stage_layers.empty()) {
    remarks.push_back(
        fmt::format("the stages have {} layers, as DeepSpeed's `{}` deals them{}", fmt::join(placed.layers, "+"),
                    is_said ? setting->second : "parameters",
                    is_said ? "" : ", its default; a model that says otherwise needs partition= or pp=8+8"));
  }
  return llvm::Error::success();
}

}  // namespace ucp::deepspeed
