// The data is compact: texts and selections are stored once and named by number, since a model has thousands of tensors
// and tens of ways to cut them.
#include "compiler/explain/explain_page.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <llvm/Support/JSON.h>
#include <llvm/Support/Path.h>
#include <llvm/Support/raw_ostream.h>

#include <algorithm>
#include <set>
#include <vector>

#include "compiler/explain/explain_text.h"
#include "compiler/page/page.h"
#include "compiler/page/rank_bytes.h"

namespace ucp {
namespace {

// The most that is drawn and listed, so that a page stays small whatever a spec says; the page says how many more.
constexpr std::size_t kMostHolders = 512;
constexpr std::size_t kMostRuns = 512;

// [local length, [[logical begin, length], …], how many more runs]
std::string SelectionJson(const Selection& selection) {
  std::size_t shown = std::min(selection.runs().size(), kMostRuns);
  std::string runs;
  for (std::size_t i = 0; i < shown; ++i) {
    const Run& run = selection.runs()[i];
    runs += fmt::format("{}[{},{}]", i == 0 ? "" : ",", run.logical_begin, run.length);
  }
  return fmt::format("[{},[{}],{}]", selection.local_length(), runs, selection.runs().size() - shown);
}

// "llama", "qwen3_moe, layout hub", or "run/global_step5" of a checkpoint without a spec.
std::string TitleOf(const Explanation& explanation) {
  namespace path = llvm::sys::path;
  if (explanation.spec.empty()) {
    if (explanation.inventory == nullptr) return "a checkpoint";
    const std::string& root = explanation.inventory->root;
    return fmt::format("{}/{}", path::filename(path::parent_path(root)).str(), path::filename(root).str());
  }
  const std::string model = path::stem(explanation.spec).str();
  const std::string& layout = explanation.layout_name;
  return layout.empty() || layout == model ? model : fmt::format("{}, layout {}", model, layout);
}

std::string SideText(const std::string& name, const Mesh& mesh) {
  if (mesh.axes.empty()) return name.empty() ? "one rank" : name;
  return fmt::format("{}{}{}", name, name.empty() ? "" : ", ", ToString(mesh));
}

class PageData {
 public:
  explicit PageData(const Explanation& explanation)
      : explanation_(explanation),
        partitions_(explanation.inventory == nullptr
                        ? RankBytes{}
                        : BytesOfRanks(explanation.inventory->storage, CountedStates::kPartitioned)) {}

  std::string Json() {
    std::string text;
    llvm::raw_string_ostream out(text);
    llvm::json::OStream json(out);
    json.object([&] {
      WriteHeader(json);
      json.attributeArray("tensors", [&] {
        for (const ExplainedTensor& tensor : explanation_.tensors) json.array([&] { WriteTensor(json, tensor); });
      });
      json.attributeArray("cuttings", [&] {
        for (const Cutting& cutting : explanation_.cuttings) json.array([&] { WriteCutting(json, cutting); });
      });
      WriteNumbered(json, "texts", texts_);
      WriteNumbered(json, "patterns", patterns_);
      json.attributeArray("selections", [&] {
        for (const std::string& selection : selections_.InOrder()) json.rawValue(selection);
      });
      partitions_.Write(json);
    });
    return text;
  }

 private:
  void WriteHeader(llvm::json::OStream& json) const {
    json.attribute("title", Utf8(TitleOf(explanation_)));
    json.attribute("source", SideText(explanation_.source_name, explanation_.source_mesh));
    if (explanation_.target_mesh) {
      json.attribute("target", SideText(explanation_.target_name, *explanation_.target_mesh));
      WriteMesh(json, "targetMesh", *explanation_.target_mesh);
    }
    WriteMesh(json, "sourceMesh", explanation_.source_mesh);
    json.attribute("totals", TotalsText(explanation_.totals));
    json.attributeArray("values", [&] {
      for (const ExplainedValue& dim : explanation_.dims) json.value(Utf8(ValueText("dim", dim)));
      for (const ExplainedValue& fact : explanation_.facts) json.value(Utf8(ValueText("fact", fact)));
      for (const std::string& choice : explanation_.choices) json.value(Utf8(choice));
    });
  }

  static void WriteMesh(llvm::json::OStream& json, const char* name, const Mesh& mesh) {
    json.attributeArray(name, [&] {
      for (const Axis& axis : mesh.axes) {
        json.array([&] {
          json.value(axis.name);
          json.value(axis.size);
        });
      }
    });
  }

  // The order is that of compiler/page/explain.js.
  void WriteTensor(llvm::json::OStream& json, const ExplainedTensor& tensor) {
    json.value(Utf8(tensor.layout->name));
    json.value(patterns_.NumberOf(std::string(ToString(tensor.pattern.pattern))));
    json.value(texts_.NumberOf(tensor.pattern.why));
    json.value(texts_.NumberOf(tensor.declared));
    json.value(texts_.NumberOf(tensor.file));
    json.value(tensor.line ? llvm::json::Value(*tensor.line) : llvm::json::Value(nullptr));
    WriteNumbers(json, tensor.shape);
    json.value(texts_.NumberOf(StatesText(tensor)));
    json.value(tensor.layout->buffer ? 1 : 0);
    json.value(static_cast<std::int64_t>(tensor.cutting));
    json.value(tensor.target_cutting ? llvm::json::Value(static_cast<std::int64_t>(*tensor.target_cutting))
                                     : llvm::json::Value(nullptr));
    WriteNumbers(json, tensor.stages.value_or(std::vector<std::int64_t>{}));
    WriteNumbers(json, tensor.target_stages.value_or(std::vector<std::int64_t>{}));
    json.array([&] {
      for (const std::string& alias : tensor.layout->aliases) json.value(Utf8(alias));
    });
    json.value(partitions_.NumberOf(tensor.layout->name));
  }

  static void WriteNumbers(llvm::json::OStream& json, const std::vector<std::int64_t>& numbers) {
    json.array([&] {
      for (std::int64_t number : numbers) json.value(number);
    });
  }

  // "exp_avg float32, fp32 float32, weight bfloat16"
  std::string StatesText(const ExplainedTensor& tensor) const {
    std::set<std::string> states;
    for (const Shard* shard : tensor.shards) {
      const Storage& storage = explanation_.inventory->storage;
      for (const StateBuffer& entry : storage.buffer_set(shard->states)) {
        states.insert(fmt::format("{} {}", entry.state, Name(storage.buffer(entry.buffer).dtype)));
      }
    }
    return fmt::format("{}", fmt::join(states, ", "));
  }

  void WriteCutting(llvm::json::OStream& json, const Cutting& cutting) {
    json.array([&] {
      for (const auto& [axis, index] : cutting.holders.front().at.at) json.value(axis);
    });
    std::size_t shown = std::min(cutting.holders.size(), kMostHolders);
    json.array([&] {
      for (std::size_t i = 0; i < shown; ++i) json.array([&] { WriteHolder(json, cutting.holders[i]); });
    });
    json.value(static_cast<std::int64_t>(cutting.holders.size() - shown));
  }

  void WriteHolder(llvm::json::OStream& json, const Holder& holder) {
    for (const auto& [axis, index] : holder.at.at) json.value(index);
    for (const Selection& selection : holder.held.dims) json.value(selections_.NumberOf(SelectionJson(selection)));
  }

  static void WriteNumbered(llvm::json::OStream& json, const char* name, const Numbering& numbering) {
    json.attributeArray(name, [&] {
      for (const std::string& text : numbering.InOrder()) json.value(Utf8(text));
    });
  }

  const Explanation& explanation_;
  Numbering texts_;
  Numbering patterns_;
  Numbering selections_;
  RankRows partitions_;
};

}  // namespace

std::string ExplainAsPage(const Explanation& explanation) {
  return MakePage(PageKind::kExplain, PageData(explanation).Json());
}

}  // namespace ucp
