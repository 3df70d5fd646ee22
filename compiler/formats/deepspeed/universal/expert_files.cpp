#include "compiler/formats/deepspeed/universal/expert_files.h"

#include <algorithm>

#include "compiler/formats/deepspeed/common/expert_groups.h"
#include "compiler/formats/deepspeed/common/expert_names.h"
#include "compiler/support/error.h"

namespace ucp::universal {
namespace {

const LogicalTensor* FindTensor(std::span<const LogicalTensor> tensors, const std::string& name) {
  auto found = std::lower_bound(tensors.begin(), tensors.end(), name,
                                [](const LogicalTensor& tensor, const std::string& key) { return tensor.name < key; });
  return found != tensors.end() && found->name == name ? &*found : nullptr;
}

}  // namespace

std::vector<std::int64_t> StackedExperts::Shape() const {
  std::vector<std::int64_t> shape = tensors.front()->shape;
  if (tensors.size() > 1) shape.front() *= std::ssize(tensors);
  return shape;
}

llvm::Expected<StackedExperts> StackExperts(const LogicalTensor& tensor, std::span<const LogicalTensor> tensors,
                                            std::int64_t ep) {
  StackedExperts stack{tensor.name, {&tensor}};
  const auto parsed = ep > 1 ? ParseExpertName(tensor.name) : std::nullopt;
  if (!parsed) return stack;
  std::int64_t local = 0;  // How many each rank has; the names say how many there are.
  while (FindTensor(tensors, parsed->With(local)) != nullptr) ++local;
  if (local % ep != 0) {
    return Fail(ErrorCode::kUnsupported, "ep={}: there are {} experts in a row that have the parameter `{}`", ep, local,
                tensor.name);
  }
  local /= ep;
  stack.tensors.clear();
  if (parsed->expert >= local) return stack;
  for (std::int64_t rank = 0; rank < ep; ++rank) {
    const LogicalTensor& part = *FindTensor(tensors, parsed->With(rank * local + parsed->expert));
    if (part.shape != tensor.shape || part.states != tensor.states || part.kind != tensor.kind || part.shape.empty()) {
      return Fail(ErrorCode::kUnsupported,
                  "ep={}: `{}` and `{}` have different shapes or states, and the engine loads both from one file", ep,
                  tensor.name, part.name);
    }
    stack.tensors.push_back(&part);
  }
  return stack;
}

llvm::Expected<std::vector<std::string>> NamesInModel(const std::string& root, const std::string& folder,
                                                      const std::vector<std::int64_t>& shape,
                                                      const ShapeOfName& shapes) {
  const auto parsed = ParseExpertName(folder);
  const auto known = parsed ? shapes.find(folder) : shapes.end();
  if (known == shapes.end() || known->second == shape) return std::vector{folder};
  auto refuse = [&] {
    return Fail(
        ErrorCode::kBadData,
        "`{}/zero/{}` has the shape [{}], and the model-states file says [{}]: that is not the same parameter of "
        "one expert from each rank",
        root, folder, fmt::join(shape, ", "), fmt::join(known->second, ", "));
  };
  std::vector<std::int64_t> whole = known->second;
  if (whole.empty() || whole.size() != shape.size() || whole.front() < 1 || shape.front() % whole.front() != 0) {
    return refuse();
  }
  const std::int64_t ep = shape.front() / whole.front();
  whole.front() = shape.front();
  std::int64_t experts = 0;
  while (shapes.contains(parsed->With(experts))) ++experts;
  if (whole != shape || ep < 1 || experts % ep != 0 || parsed->expert >= experts / ep) return refuse();
  std::vector<std::string> names;
  for (std::int64_t rank = 0; rank < ep; ++rank) {
    names.push_back(parsed->With(rank * (experts / ep) + parsed->expert));
  }
  return names;
}

std::vector<pytorch::Entry> ExpertEntries(const StackedExperts& stack) {
  if (!ParseExpertName(stack.name)) return {};
  const std::vector<std::int64_t> shape = stack.Shape();
  return {{pytorch::MakeText("is_expert_param"), pytorch::MakeBool(true)},
          {pytorch::MakeText("ep_num_experts"), pytorch::MakeInteger(shape.empty() ? 1 : shape.front())}};
}

std::vector<pytorch::Entry> FusedExpertEntries(const LogicalTensor& tensor) {
  return {{pytorch::MakeText("cat_dim"), pytorch::MakeInteger(0)},
          {pytorch::MakeText("is_expert_param"), pytorch::MakeBool(true)},
          {pytorch::MakeText("ep_num_experts"), pytorch::MakeInteger(tensor.shape.front())}};
}

llvm::Expected<TrainingState> WithExpertRanks(const TrainingState& training, std::span<const LogicalTensor> tensors,
                                              std::int64_t ep, std::vector<std::string>& remarks) {
  TrainingState adapted = training;
  const auto counts = ExpertCounts(tensors);
  if (counts.empty() && ep > 1) {
    return Fail(ErrorCode::kUsage, "ep={}: the model has no experts of DeepSpeed's MoE layer to spread over ranks", ep);
  }
  for (const auto& [prefix, count] : counts) {
    if (count % ep == 0) continue;
    return Fail(ErrorCode::kUsage, "ep={}: the {} experts of `{}*` do not divide over so many ranks", ep, count,
                prefix);
  }
  for (const LogicalTensor& tensor : tensors) {
    if (ep == 1 || tensor.kind == TensorKind::kParameter || !ParseExpertName(tensor.name)) continue;
    return Fail(ErrorCode::kUnsupported,
                "ep={}: `{}` is not trained; the engine does not load it, and what would restore it goes by the names "
                "of the whole model",
                ep, tensor.name);
  }
  if (counts.empty()) return adapted;
  auto groups = GroupsForExpertRanks(training, tensors, ep);
  if (groups) {
    adapted.groups = std::move(*groups);
  } else {
    remarks.push_back(fmt::format("the hyper-parameters of the groups of experts are in the source's order: {}",
                                  llvm::toString(groups.takeError())));
  }
  remarks.push_back(
      fmt::format("the folder is for engines whose experts are spread over {} rank{} (`universal:ep=N`); "
                  "at stages 1 and 2 of DeepSpeed 0.19.8 others stop with an error",
                  ep, ep == 1 ? "" : "s"));
  return adapted;
}

}  // namespace ucp::universal
