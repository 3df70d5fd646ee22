#include "compiler/formats/deepspeed/native/write/job/cut_metadata.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "compiler/formats/deepspeed/common/affine_map_value.h"
#include "compiler/formats/deepspeed/common/cut_runs.h"
#include "compiler/formats/deepspeed/common/family_state.h"
#include "compiler/formats/deepspeed/native/write/job/adapt_config.h"
#include "compiler/formats/pytorch/values/value_access.h"
#include "compiler/layout/name_pattern.h"
#include "compiler/support/error.h"

namespace ucp::deepspeed {
namespace {

using pytorch::Entry;
using pytorch::MakeDict;
using pytorch::MakeDouble;
using pytorch::MakeInteger;
using pytorch::MakeList;
using pytorch::MakeText;
using pytorch::ValuePtr;

constexpr double kVersion = 0.4;  // The first with widths (UNIVERSAL_CHECKPOINT_VERSION_VALUE of 0.19.8).
constexpr std::int64_t kMapVersion = 1;
constexpr char kPaddedVocabulary[] = "padded_vocab_size";

// Entries that depend on the degrees, or that two descriptions of one parameter could contradict.
constexpr std::array<std::string_view, 11> kMadeAnew = {"universal_checkpoint_version",
                                                        "tp_replicated_parameter_patterns",
                                                        "parameter_to_average_patterns",
                                                        "parameter_with_row_parallelism_patterns",
                                                        "parameter_with_2_sub_params_cat_dim_0",
                                                        "parameter_with_sub_params",
                                                        "sub_param_shard_widths",
                                                        "vocabulary_parameter_patterns",
                                                        "affine_map",
                                                        "autotp_unsupported_parameter_patterns",
                                                        kPaddedVocabulary};

bool IsCutOverTensorRanks(const std::vector<ShapeExpr>& dims) {
  return std::any_of(dims.begin(), dims.end(), [](const ShapeExpr& dim) {
    const std::vector<std::string> axes = CuttingAxes(dim);
    return std::find(axes.begin(), axes.end(), "tp") != axes.end();
  });
}

std::vector<ValuePtr> Integers(const std::vector<std::int64_t>& numbers) {
  std::vector<ValuePtr> items;
  for (std::int64_t number : numbers) items.push_back(MakeInteger(number));
  return items;
}

struct SaidOfTensor {
  const LogicalTensor* tensor;
  ValuePtr value;
};

// The tensors whose names differ in numbers alone.
struct Alike {
  std::string pattern;
  std::size_t tensors = 0;
};

class Describer {
 public:
  Describer(const TargetRequest& request, const WriteOptions& options)
      : request_(request),
        options_(options),
        source_(FindEntry(request.training.ranks[request.training.counting_rank].client, kCutMetadata)) {
    if (source_ && pytorch::Entries(*source_) == nullptr) source_ = nullptr;
    ValuePtr maps = source_ ? pytorch::Find(*source_, "affine_map") : nullptr;
    is_autotp_ = (maps && !maps->is_none()) || (options.tp > 1 && !StateOf(request.training).fused_experts.empty());
    layout_knows_cuts_ = std::any_of(request.layout.tensors.begin(), request.layout.tensors.end(),
                                     [](const TensorLayout& tensor) { return IsCutOverTensorRanks(tensor.dims); });
  }

  // On one rank every tensor is whole; only the lists are of use then, and only from a layout that knows better.
  bool KnowsMore() const {
    return options_.tp > 1 || layout_knows_cuts_ ||
           std::any_of(request_.tensors.begin(), request_.tensors.end(),
                       [](const LogicalTensor& tensor) { return IsCutOverTensorRanks(tensor.dims); });
  }

  ValuePtr source() const { return source_; }

  ValuePtr Run(std::vector<std::string>& remarks) {
    SortByPatterns();
    for (const LogicalTensor& tensor : request_.tensors) Describe(tensor);
    if (!unsupported_.empty()) {
      remarks.push_back(fmt::format(
          "`{}` has no words for how {} of the {} tensors are cut, first {}: {}; DeepSpeed's converter will refuse "
          "these files, and a conversion needs a spec",
          kCutMetadata, unsupported_.size(), request_.tensors.size(), pytorch::Print(*unsupported_.front().key),
          *pytorch::AsText(*unsupported_.front().value)));
    }
    return Value();
  }

 private:
  void SortByPatterns() {
    std::unordered_map<std::string, std::size_t> numbers;
    for (const LogicalTensor& tensor : request_.tensors) {
      auto [known, is_new] = numbers.try_emplace(PatternForAnyNumbers(tensor.name), alike_.size());
      if (is_new) alike_.push_back({known->first});
      ++alike_[known->second].tensors;
      alike_of_.push_back(known->second);
    }
  }

  // Its place in `alike_`.
  std::size_t AlikeOf(const LogicalTensor& tensor) const {
    return alike_of_[static_cast<std::size_t>(&tensor - request_.tensors.data())];
  }

  // Where the target's layout has forgotten cuts, since nothing is cut there, the source's says them.
  const std::vector<ShapeExpr>& DimsOf(const LogicalTensor& tensor, const TensorLayout& held) const {
    return layout_knows_cuts_ ? held.dims : tensor.dims;
  }

  // AutoTP looks at what a rank has of AutoEP's experts, and takes it for the same on every rank.
  void DescribeExperts(const LogicalTensor& tensor, TensorLayout held) {
    held.dims.front() = ShapeExpr::Length(tensor.shape.front() / options_.ep);
    replicated_.push_back(&tensor);
    AddMap(tensor, held, true);
  }

  void Describe(const LogicalTensor& tensor) {
    const TensorLayout& held = *request_.layout.Find(tensor.name);
    if (options_.tp > 1 && StateOf(request_.training).fused_experts.contains(tensor.name))
      return DescribeExperts(tensor, held);
    const std::vector<ShapeExpr>& dims = DimsOf(tensor, held);
    const bool is_trained = tensor.kind == TensorKind::kParameter;
    if (tensor.kind == TensorKind::kBuffer && !IsCutOverTensorRanks(dims)) return;  // The same on every rank.
    // A list's pattern must match something trained, or DeepSpeed's converter stops.
    const bool is_listed = is_trained && ListIt(tensor, held, dims);
    if (options_.tp > 1 && (!is_listed || is_autotp_)) AddMap(tensor, held, is_listed);
  }

  void AddMap(const LogicalTensor& tensor, const TensorLayout& held, bool is_listed) {
    auto map = AffineMapOf(held, request_.layout.mesh, "tp");
    if (map) {
      maps_.push_back({&tensor, MakeAffineMap(*map)});
      return;
    }
    std::string why = TakeFailure(map.takeError()).message;
    if (!is_listed) unsupported_.push_back({MakeText(PatternFor(tensor.name)), MakeText(std::move(why))});
  }

  // Whether one of the lists says all about the tensor.
  bool ListIt(const LogicalTensor& tensor, const TensorLayout& held, const std::vector<ShapeExpr>& dims) {
    if (held.scale != Scale{}) return false;
    if (!held.mean_axes.empty()) return averaged_.push_back(&tensor), true;
    if (!IsCutOverTensorRanks(dims)) return replicated_.push_back(&tensor), true;
    const auto cut = FindCut(dims);
    if (!cut) return false;
    std::vector<std::vector<std::int64_t>> widths;
    for (const CutRun& run : cut->runs) {
      auto found = WidthsOf(run, request_.layout.mesh);
      if (!found) return false;
      widths.push_back(std::move(*found));
    }
    if (cut->IsPaddedVocabulary(dims.size())) return ListVocabulary(tensor, cut->runs.front().length, held);
    if (std::any_of(cut->runs.begin(), cut->runs.end(), [](const CutRun& run) { return run.is_padded(); })) {
      return false;
    }
    return ListCut(tensor, *cut, widths);
  }

  // There is room for one vocabulary.
  bool ListVocabulary(const LogicalTensor& tensor, std::int64_t rows, const TensorLayout& held) {
    std::int64_t padded = 0;
    for (std::int64_t rank = 0; rank < options_.tp; ++rank) {
      auto part = HeldAt(held, request_.layout.mesh, {{{"tp", rank}}});
      if (!part) return llvm::consumeError(part.takeError()), false;
      padded += part->LocalShape().front();
    }
    if (padded_ && (*padded_ != padded || *original_ != rows)) return false;
    padded_ = padded;
    original_ = rows;
    vocabulary_.push_back(&tensor);
    return true;
  }

  bool ListCut(const LogicalTensor& tensor, const CutDimension& cut,
               const std::vector<std::vector<std::int64_t>>& widths) {
    const bool is_one = cut.runs.size() == 1;
    if (is_one && cut.dim == 1) return row_parallel_.push_back(&tensor), true;
    if (is_one && cut.dim == 0) {
      // So does AutoTP name them; there is nothing behind them.
      const bool is_vocabulary = tensor.shape.size() == 2 && (tensor.name.find("embed") != std::string::npos ||
                                                              tensor.name.find("lm_head") != std::string::npos);
      if (is_autotp_ && is_vocabulary) {
        vocabulary_.push_back(&tensor);
        if (!original_) original_ = tensor.shape.front();
      }
      return false;
    }
    if (cut.dim == 0 && widths.size() == 2 && widths[0] == widths[1]) return halves_.push_back(&tensor), true;
    ListParts(tensor, cut, widths);
    return true;
  }

  void ListParts(const LogicalTensor& tensor, const CutDimension& cut,
                 const std::vector<std::vector<std::int64_t>>& widths) {
    const ValuePtr pattern = MakeText(PatternFor(tensor.name));
    std::vector<ValuePtr> shape = Integers(tensor.shape);
    std::vector<std::int64_t> lengths;
    std::vector<ValuePtr> of_runs;
    for (const CutRun& run : cut.runs) lengths.push_back(run.length);
    for (const std::vector<std::int64_t>& of_run : widths) of_runs.push_back(MakeList(Integers(of_run)));
    shape[cut.dim] = pytorch::MakeTuple(Integers(lengths));
    parts_.push_back(MakeDict({{MakeText("patterns"), MakeList({pattern})},
                               {MakeText("shape"), MakeList(std::move(shape))},
                               {MakeText("partition_dim"), MakeInteger(static_cast<std::int64_t>(cut.dim))}}));
    widths_.push_back({pattern, MakeList(std::move(of_runs))});
  }

  // By their patterns: one for tensors whose names differ in numbers alone, where the same holds for all of them, since
  // DeepSpeed's converter tries each pattern on each name. AutoTP names each tensor.
  std::vector<Entry> ByPatterns(const std::vector<SaidOfTensor>& all) const {
    struct SaidOfAlike {
      std::size_t tensors = 0;
      bool is_same = true;
      std::string says;
      bool is_listed = false;
    };
    std::vector<SaidOfAlike> said_of(alike_.size());
    for (const SaidOfTensor& said : all) {
      SaidOfAlike& others = said_of[AlikeOf(*said.tensor)];
      std::string says = said.value ? pytorch::Print(*said.value) : "";
      if (others.tensors++ == 0)
        others.says = std::move(says);
      else
        others.is_same &= others.says == says;
    }
    std::vector<Entry> entries;
    for (const SaidOfTensor& said : all) {
      const Alike& alike = alike_[AlikeOf(*said.tensor)];
      SaidOfAlike& others = said_of[AlikeOf(*said.tensor)];
      if (is_autotp_ || !others.is_same || others.tensors == 1 || others.tensors < alike.tensors) {
        entries.push_back({MakeText(PatternFor(said.tensor->name)), said.value});
      } else if (!std::exchange(others.is_listed, true)) {
        entries.push_back({MakeText(alike.pattern), said.value});
      }
    }
    return entries;
  }

  // As AutoTP lists them: by their patterns, whose escapes put names in another order.
  ValuePtr List(const std::vector<const LogicalTensor*>& tensors) const {
    std::vector<SaidOfTensor> all;
    for (const LogicalTensor* tensor : tensors) all.push_back({tensor, nullptr});
    std::vector<ValuePtr> patterns;
    for (Entry& entry : ByPatterns(all)) patterns.push_back(std::move(entry.key));
    std::sort(patterns.begin(), patterns.end(),
              [](const ValuePtr& a, const ValuePtr& b) { return *pytorch::AsText(*a) < *pytorch::AsText(*b); });
    return MakeList(std::move(patterns));
  }

  ValuePtr Value() {
    std::vector<Entry> info;
    if (source_) {
      info = *pytorch::Entries(*source_);
      std::erase_if(info, [](const Entry& entry) {
        auto key = pytorch::AsText(*entry.key);
        return key && std::find(kMadeAnew.begin(), kMadeAnew.end(), *key) != kMadeAnew.end();
      });
    }
    auto set = [&](const char* key, ValuePtr value) { SetEntry(info, key, std::move(value)); };
    set("universal_checkpoint_version", MakeDouble(kVersion));
    set("tp_replicated_parameter_patterns", List(replicated_));
    set("parameter_with_row_parallelism_patterns", List(row_parallel_));
    set("vocabulary_parameter_patterns", List(vocabulary_));
    set("parameter_with_sub_params", MakeList(std::move(parts_)));
    if (!widths_.empty()) set("sub_param_shard_widths", MakeDict(std::move(widths_)));
    if (!halves_.empty()) set("parameter_with_2_sub_params_cat_dim_0", List(halves_));
    if (!averaged_.empty()) set("parameter_to_average_patterns", List(averaged_));
    set("autotp_unsupported_parameter_patterns", MakeDict(std::move(unsupported_)));
    if (original_) set("original_vocab_size", MakeInteger(*original_));
    if (padded_) set(kPaddedVocabulary, MakeInteger(*padded_));
    if (options_.pp > 1) set("pipeline_replicated_parameter_patterns", OnSeveralStages());
    if (!maps_.empty()) {
      set("affine_map", MakeDict({{MakeText("version"), MakeInteger(kMapVersion)},
                                  {MakeText("params"), MakeDict(ByPatterns(maps_))}}));
    }
    return MakeDict(std::move(info));
  }

  ValuePtr OnSeveralStages() const {
    std::vector<ValuePtr> patterns;
    for (const LogicalTensor& tensor : request_.tensors) {
      std::int64_t stages = 0;
      for (std::int64_t stage = 0; stage < options_.pp; ++stage) {
        stages += IsHeldAt(*request_.layout.Find(tensor.name), {{{"pp", stage}}}) ? 1 : 0;
      }
      if (stages > 1) patterns.push_back(MakeText(PatternFor(tensor.name)));
    }
    return MakeList(std::move(patterns));
  }

  const TargetRequest& request_;
  const WriteOptions& options_;
  ValuePtr source_;         // Null: it has none.
  bool is_autotp_ = false;  // Its maps say so, or there is AutoEP, which knows no other.
  bool layout_knows_cuts_ = false;
  std::vector<Alike> alike_;
  std::vector<std::size_t> alike_of_;  // By tensor.
  std::vector<const LogicalTensor*> replicated_, averaged_, row_parallel_, halves_, vocabulary_;
  std::vector<ValuePtr> parts_;
  std::vector<SaidOfTensor> maps_;
  std::vector<Entry> widths_, unsupported_;
  std::optional<std::int64_t> original_, padded_;  // Of the vocabulary.
};

}  // namespace

ValuePtr DescribeCuts(const TargetRequest& request, const WriteOptions& options, std::vector<std::string>& remarks) {
  Describer describer(request, options);
  if (!describer.KnowsMore()) return describer.source();
  return describer.Run(remarks);
}

std::optional<std::int64_t> PaddedVocabulary(const pytorch::Value& metadata) {
  ValuePtr size = pytorch::Find(metadata, kPaddedVocabulary);
  return size ? pytorch::AsInteger(*size) : std::nullopt;
}

}  // namespace ucp::deepspeed
