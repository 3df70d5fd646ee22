#include "compiler/explain/explain_json.h"

#include <llvm/Support/JSON.h>

#include <string>

#include "compiler/support/json_text.h"

namespace ucp {
namespace {

constexpr std::size_t kMostRuns = 64;

llvm::json::Array Numbers(const std::vector<std::int64_t>& numbers) {
  llvm::json::Array array;
  for (std::int64_t number : numbers) array.push_back(number);
  return array;
}

llvm::json::Object At(const Coordinate& coordinate) {
  llvm::json::Object at;
  for (const auto& [axis, index] : coordinate.at) at[axis] = index;
  return at;
}

llvm::json::Object Sizes(const Mesh& mesh) {
  llvm::json::Object sizes;
  for (const Axis& axis : mesh.axes) sizes[axis.name] = axis.size;
  return sizes;
}

// Names come from files, whose bytes need not be text.
std::string Text(const std::string& bytes) { return llvm::json::isUTF8(bytes) ? bytes : llvm::json::fixUTF8(bytes); }

llvm::json::Array Texts(const std::vector<std::string>& texts) {
  llvm::json::Array array;
  for (const std::string& text : texts) array.push_back(Text(text));
  return array;
}

llvm::json::Value Json(const FactValue& value) {
  if (const bool* boolean = std::get_if<bool>(&value.value)) return *boolean;
  if (const auto* number = std::get_if<std::int64_t>(&value.value)) return *number;
  if (const double* number = std::get_if<double>(&value.value)) return *number;
  if (const auto* text = std::get_if<std::string>(&value.value)) return Text(*text);
  llvm::json::Array elements;
  for (const FactValue& element : std::get<std::vector<FactValue>>(value.value)) elements.push_back(Json(element));
  return elements;
}

llvm::json::Value Stages(const std::optional<std::vector<std::int64_t>>& stages) {
  if (!stages) return nullptr;
  return Numbers(*stages);
}

llvm::json::Array States(const Shard& shard, const Storage& storage) {
  llvm::json::Array array;
  for (const StateFiles& states : StateFilesOf(shard, storage)) {
    array.push_back(llvm::json::Object{{"names", Texts(states.states)}, {"files", Texts(states.files)}});
  }
  return array;
}

class JsonWriter {
 public:
  JsonWriter(const Explanation& explanation, llvm::raw_ostream& out) : explanation_(explanation), json_(out, 1) {}

  void Write() {
    json_.object([&] {
      WriteHeader();
      json_.attributeArray("tensors", [&] {
        for (const ExplainedTensor& tensor : explanation_.tensors) json_.object([&] { WriteTensor(tensor); });
      });
      const ExplainedTotals& totals = explanation_.totals;
      json_.attribute("totals", llvm::json::Object{{"tensors", totals.tensors},
                                                   {"parameters", totals.parameters},
                                                   {"buffers", totals.buffers},
                                                   {"ties", totals.ties}});
      json_.attribute("version", kJsonVersion);
    });
  }

 private:
  void WriteHeader() {
    json_.attribute("spec", Text(explanation_.spec));
    json_.attribute("layout", Text(explanation_.layout_name));
    json_.attribute("source", Text(explanation_.source_name));
    json_.attribute("mesh", Sizes(explanation_.source_mesh));
    if (explanation_.target_mesh) {
      json_.attribute("target", Text(explanation_.target_name));
      json_.attribute("target_mesh", Sizes(*explanation_.target_mesh));
    }
    WriteValues("dims", explanation_.dims);
    WriteValues("facts", explanation_.facts);
    json_.attribute("choices", Texts(explanation_.choices));
  }

  void WriteValues(const char* name, const std::vector<ExplainedValue>& values) {
    json_.attributeArray(name, [&] {
      for (const ExplainedValue& value : values) {
        json_.value(
            llvm::json::Object{{"name", value.name}, {"value", Json(value.value)}, {"origin", Text(value.origin)}});
      }
    });
  }

  void WriteTensor(const ExplainedTensor& tensor) {
    json_.attribute("name", Text(tensor.layout->name));
    json_.attribute("shape", Numbers(tensor.shape));
    json_.attribute("kind", tensor.layout->buffer ? "buffer" : "parameter");
    json_.attribute("declared", Text(tensor.declared));
    json_.attribute("file", Text(tensor.file));
    json_.attribute("line", tensor.line ? llvm::json::Value(*tensor.line) : llvm::json::Value(nullptr));
    json_.attribute("pattern", llvm::StringRef(ToString(tensor.pattern.pattern)));
    json_.attribute("why", tensor.pattern.why);
    json_.attribute("aliases", Texts(tensor.layout->aliases));
    json_.attribute("optional", tensor.layout->optional);
    json_.attribute("stages", Stages(tensor.stages));
    WriteHolders("holders", explanation_.cuttings[tensor.cutting]);
    if (!tensor.shards.empty()) WriteShards(tensor);
    if (!tensor.target_cutting) return;
    json_.attribute("target_stages", Stages(tensor.target_stages));
    WriteHolders("target_holders", explanation_.cuttings[*tensor.target_cutting]);
  }

  void WriteHolders(const char* name, const Cutting& cutting) {
    json_.attributeArray(name, [&] {
      for (const Holder& holder : cutting.holders) {
        json_.value(llvm::json::Object{{"at", At(holder.at)},
                                       {"local", Numbers(holder.held.LocalShape())},
                                       {"box", HeldText(holder.held, kMostRuns)}});
      }
    });
  }

  void WriteShards(const ExplainedTensor& tensor) {
    json_.attributeArray("shards", [&] {
      for (const Shard* shard : tensor.shards) {
        json_.value(llvm::json::Object{{"at", At(shard->coordinate)},
                                       {"states", States(*shard, explanation_.inventory->storage)}});
      }
    });
  }

  const Explanation& explanation_;
  llvm::json::OStream json_;
};

}  // namespace

void ExplainAsJson(const Explanation& explanation, llvm::raw_ostream& out) {
  JsonWriter(explanation, out).Write();
  out << "\n";
}

}  // namespace ucp
