// Tensors are many and the ways to cut them few: everything that costs (selections at every coordinate) is done once
// for each distinct fingerprint of the dimensions, and tensors refer to it.
#include "compiler/explain/explain.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <llvm/Support/GlobPattern.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <set>

#include "compiler/support/error.h"

namespace ucp {
namespace {

// Everything that decides which positions are selected, on one line.
std::string Fingerprint(const ShapeExpr& expr) {
  std::string text = fmt::format("{}:{}:{}:{}:{}", static_cast<int>(expr.kind), expr.number, fmt::join(expr.axes, ","),
                                 static_cast<int>(expr.rule), expr.grain);
  text += fmt::format(":{}", fmt::join(expr.widths, ","));
  for (const std::vector<std::int64_t>& list : expr.lists) text += fmt::format(":{}", fmt::join(list, ","));
  for (const ShapeExpr& operand : expr.operands) text += "(" + Fingerprint(operand) + ")";
  return text;
}

std::string Fingerprint(const TensorLayout& tensor) {
  std::string text = fmt::format("{}", fmt::join(tensor.axes, ","));
  for (const auto& [axis, places] : tensor.only_at) text += fmt::format("@{}={}", axis, fmt::join(places, ","));
  for (const ShapeExpr& dim : tensor.dims) text += "[" + Fingerprint(dim) + "]";
  return text;
}

std::uint64_t Elements(const std::vector<std::int64_t>& shape) {
  std::uint64_t elements = 1;
  for (std::int64_t length : shape) elements *= static_cast<std::uint64_t>(length);
  return elements;
}

std::string Declared(const TensorLayout& tensor) {
  std::vector<std::string> dims;
  for (const ShapeExpr& dim : tensor.dims) dims.push_back(ToString(dim));
  std::string text = fmt::format("[{}]", fmt::join(dims, ", "));
  if (!tensor.mean_axes.empty()) text += fmt::format(" mean@{}", fmt::join(tensor.mean_axes, ","));
  if (tensor.scale != Scale{}) text += fmt::format(" scale({} / {})", tensor.scale.numerator, tensor.scale.denominator);
  return text;
}

// All axes that cut a tensor of the layout, with `size` ranks each.
Mesh TrialMesh(const Layout& layout, std::int64_t size) {
  std::set<std::string> names;
  for (const TensorLayout& tensor : layout.tensors) {
    for (const ShapeExpr& dim : tensor.dims) {
      for (const std::string& axis : CuttingAxes(dim)) names.insert(axis);
    }
    names.insert(tensor.mean_axes.begin(), tensor.mean_axes.end());
  }
  Mesh mesh;
  for (const std::string& name : KnownAxes()) {
    if (names.contains(name)) mesh.axes.push_back({name, size});
  }
  return mesh;
}

class Explainer {
 public:
  explicit Explainer(const ExplainRequest& request) : request_(request) {
    if (request.inventory != nullptr) {
      for (const Shard& shard : request.inventory->storage.shards) shards_[shard.tensor].push_back(&shard);
    }
    if (!request.source_name.empty()) return;
    for (std::int64_t size : {2, 3, 4, 5, 7, 8}) trials_.push_back(TrialMesh(request.source, size));
  }

  llvm::Expected<Explanation> Run() {
    llvm::Expected<llvm::GlobPattern> glob = llvm::GlobPattern::create(request_.tensor_glob);
    if (!glob) {
      return Fail(ErrorCode::kUsage, "`{}` is not a valid pattern for names: {}", request_.tensor_glob,
                  llvm::toString(glob.takeError()));
    }
    AddHeader();
    for (const TensorLayout& tensor : request_.source.tensors) {
      if (glob->match(tensor.name)) UCP_RETURN_IF_ERROR(AddTensor(tensor));
    }
    if (!explanation_.tensors.empty()) return std::move(explanation_);
    return Fail(ErrorCode::kUsage, "no tensor's name fits `{}`; the layout has {}", request_.tensor_glob,
                request_.source.tensors.size());
  }

 private:
  void AddHeader() {
    explanation_.source_name = request_.source_name;
    explanation_.source_mesh = request_.source.mesh;
    explanation_.target_name = request_.target_name;
    explanation_.inventory = request_.inventory;
    if (request_.target != nullptr) explanation_.target_mesh = request_.target->mesh;
    if (request_.bound == nullptr) return;
    const BoundSpec& bound = *request_.bound;
    explanation_.spec = bound.spec.source->path();
    explanation_.layout_name = bound.spec.layout_name;
    for (std::size_t i = 0; i < bound.spec.dims.size() && i < bound.dims.size(); ++i) {
      if (!bound.dims[i]) continue;
      explanation_.dims.push_back({bound.spec.dims[i].name, {bound.dims[i]->value}, Origin(bound.dims[i]->origin)});
    }
    for (std::size_t i = 0; i < bound.spec.facts.size() && i < bound.facts.size(); ++i) {
      if (!bound.facts[i]) continue;
      explanation_.facts.push_back({bound.spec.facts[i].name, bound.facts[i]->value, Origin(bound.facts[i]->origin)});
    }
    for (const BoundTensor& tensor : bound.tensors) {
      const std::int64_t offset = bound.spec.tensors[tensor.declaration].offset;
      if (offset != 0) offsets_.emplace(tensor.name, offset);
    }
    for (const Choice& choice : bound.choices) explanation_.choices.push_back("when " + choice.text);
  }

  // ", read from `args.x`" stands behind a number in a message; here it stands alone.
  static std::string Origin(const std::string& origin) {
    std::size_t begin = origin.find_first_not_of(", ");
    return begin == std::string::npos ? "" : origin.substr(begin);
  }

  llvm::Error AddTensor(const TensorLayout& tensor) {
    ExplainedTensor explained;
    explained.layout = &tensor;
    UCP_ASSIGN_OR_RETURN(explained.shape, LogicalShape(tensor));
    explained.elements = Elements(explained.shape);
    explained.declared = Declared(tensor);
    const auto offset = offsets_.find(tensor.name);
    if (offset != offsets_.end()) explained.declared += fmt::format(" offset({})", offset->second);
    SetPlace(tensor.declared_at, explained);
    auto shards = shards_.find(tensor.name);
    if (shards != shards_.end()) explained.shards = shards->second;
    explained.stages = StagesOf(tensor, explained.shards);
    UCP_ASSIGN_OR_RETURN(explained.cutting, CuttingOf(tensor, request_.source.mesh, "source"));
    if (const TensorLayout* target = request_.target == nullptr ? nullptr : request_.target->Find(tensor.name)) {
      UCP_ASSIGN_OR_RETURN(explained.target_cutting, CuttingOf(*target, request_.target->mesh, "target"));
      explained.target_stages = target->stages;
    }
    UCP_ASSIGN_OR_RETURN(explained.pattern, PatternOf(tensor, explained));
    Count(explained);
    explanation_.tensors.push_back(std::move(explained));
    return llvm::Error::success();
  }

  // "gpt.ucp:14"
  static void SetPlace(const std::string& declared_at, ExplainedTensor& explained) {
    std::size_t colon = declared_at.rfind(':');
    explained.file = declared_at.substr(0, colon);
    if (colon == std::string::npos) return;
    std::int64_t line = 0;
    std::from_chars(declared_at.data() + colon + 1, declared_at.data() + declared_at.size(), line);
    explained.line = line;
  }

  std::optional<std::vector<std::int64_t>> StagesOf(const TensorLayout& tensor,
                                                    const std::vector<const Shard*>& shards) const {
    if (tensor.stages || shards.empty() || request_.source.mesh.Size("pp") == 1) return tensor.stages;
    std::set<std::int64_t> stages;
    for (const Shard* shard : shards) stages.insert(shard->coordinate.At("pp"));
    return std::vector<std::int64_t>(stages.begin(), stages.end());
  }

  llvm::Expected<std::size_t> CuttingOf(const TensorLayout& tensor, const Mesh& mesh, const std::string& side) {
    std::string key = side + Fingerprint(tensor);
    auto found = cuttings_.find(key);
    if (found != cuttings_.end()) return found->second;
    UCP_ASSIGN_OR_RETURN(std::vector<Holder> holders, HoldersOf(tensor, mesh));
    explanation_.cuttings.push_back({std::move(holders)});
    return cuttings_.emplace(std::move(key), explanation_.cuttings.size() - 1).first->second;
  }

  llvm::Expected<DerivedPattern> PatternOf(const TensorLayout& tensor, const ExplainedTensor& explained) {
    TensorLayout placed = tensor;
    placed.stages = explained.stages;
    for (const Mesh& trial : trials_) {
      const std::vector<Holder>* holders = TrialHolders(tensor, trial);
      if (holders == nullptr) continue;
      UCP_ASSIGN_OR_RETURN(DerivedPattern pattern, DerivePattern(placed, trial, *holders));
      if (pattern.pattern != PaperPattern::kUnique) pattern.why += fmt::format(" (if {})", ToString(trial));
      return pattern;
    }
    return DerivePattern(placed, request_.source.mesh, explanation_.cuttings[explained.cutting].holders);
  }

  // Null if the tensor cannot be cut like that.
  const std::vector<Holder>* TrialHolders(const TensorLayout& tensor, const Mesh& trial) {
    auto [entry, added] = trial_holders_.try_emplace(ToString(trial) + Fingerprint(tensor));
    if (added) {
      if (auto holders = HoldersOf(tensor, trial)) {
        entry->second = std::move(*holders);
      } else {
        llvm::consumeError(holders.takeError());
      }
    }
    return entry->second ? &*entry->second : nullptr;
  }

  void Count(const ExplainedTensor& explained) {
    ExplainedTotals& totals = explanation_.totals;
    ++totals.tensors;
    (explained.layout->buffer ? totals.buffers : totals.parameters) += explained.elements;
    totals.ties += explained.layout->aliases.size();
  }

  const ExplainRequest& request_;
  std::map<std::string, std::vector<const Shard*>> shards_;
  std::vector<Mesh> trials_;  // Where the spec stands alone.
  std::map<std::string, std::size_t> cuttings_;
  std::map<std::string, std::optional<std::vector<Holder>>> trial_holders_;
  std::map<std::string, std::int64_t> offsets_;  // Of a layout of a model, where they are not 0.
  Explanation explanation_;
};

std::string SelectionText(const Selection& selection, std::size_t most_runs) {
  if (selection.runs().size() <= most_runs) return ToString(selection);
  std::vector<std::string> runs;
  for (std::size_t i = 0; i < most_runs; ++i) {
    const Run& run = selection.runs()[i];
    runs.push_back(fmt::format("{}..{}", run.logical_begin, run.logical_begin + run.length));
  }
  return fmt::format("{} and {} more runs", fmt::join(runs, " "), selection.runs().size() - most_runs);
}

std::vector<std::string> FilesOf(const Shard& shard, const Buffer& buffer, const Storage& storage) {
  std::int64_t elements = 1;
  for (std::int64_t length : shard.shape) elements *= length;
  std::vector<std::string> files;
  for (const Fragment& fragment : FragmentsOf(shard.spread, shard.base, elements, buffer, 0, elements)) {
    const std::string& path = storage.file(buffer.parts[fragment.part].record).path;
    if (std::find(files.begin(), files.end(), path) == files.end()) files.push_back(path);
  }
  return files;
}

}  // namespace

llvm::Expected<Explanation> Explain(const ExplainRequest& request) { return Explainer(request).Run(); }

std::string HeldText(const ProductSet& held, std::size_t most_runs) {
  std::vector<std::string> dims;
  for (const Selection& selection : held.dims) dims.push_back(SelectionText(selection, most_runs));
  return fmt::format("[{}]", fmt::join(dims, ", "));
}

std::vector<StateFiles> StateFilesOf(const Shard& shard, const Storage& storage) {
  std::vector<StateFiles> found;
  for (const StateBuffer& entry : storage.buffer_set(shard.states)) {
    std::vector<std::string> files = FilesOf(shard, storage.buffer(entry.buffer), storage);
    auto same = std::find_if(found.begin(), found.end(), [&](const StateFiles& other) { return other.files == files; });
    if (same == found.end()) same = found.insert(found.end(), {{}, std::move(files)});
    same->states.push_back(entry.state);
  }
  return found;
}

}  // namespace ucp
