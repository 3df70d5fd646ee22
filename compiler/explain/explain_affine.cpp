#include "compiler/explain/explain_affine.h"

#include <llvm/ADT/STLFunctionalExtras.h>
#include <llvm/Support/JSON.h>

#include <map>
#include <vector>

#include "compiler/layout/affine_map.h"
#include "compiler/layout/name_pattern.h"
#include "compiler/support/error.h"

namespace ucp {
namespace {

// Of the encoding of maps (AFFINE_MAP_FORMAT_VERSION in deepspeed/checkpoint/affine.py).
constexpr int kVersion = 1;

std::string Utf8(std::string text) { return llvm::json::isUTF8(text) ? text : llvm::json::fixUTF8(text); }

class AffineWriter {
 public:
  AffineWriter(const Explanation& explanation, llvm::raw_ostream& out) : explanation_(explanation), json_(out, 1) {}

  void Write() {
    json_.object([&] {
      WriteMaps("affine_map", "tp", PatternFor);
      WriteMaps("affine_maps", "ep", [](std::string_view name) { return std::string(name); });
      json_.attributeObject("autotp_unsupported_parameter_patterns", [&] {
        for (const auto& [pattern, reason] : unsupported_) json_.attribute(Utf8(pattern), reason);
      });
    });
  }

 private:
  // DeepSpeed keeps the two families apart: one is AutoTP's, the other AutoEP's.
  static std::string_view AxisOf(const TensorLayout& tensor, const Mesh& mesh) {
    for (const Axis& axis : AxesThatCut(tensor, mesh)) {
      if (axis.name == "ep") return "ep";
    }
    return "tp";
  }

  void WriteMaps(const char* entry, std::string_view axis, llvm::function_ref<std::string(std::string_view)> key) {
    json_.attributeObject(entry, [&] {
      json_.attribute("version", kVersion);
      json_.attributeObject("params", [&] {
        for (const ExplainedTensor& tensor : explanation_.tensors) {
          if (tensor.layout->buffer || AxisOf(*tensor.layout, explanation_.source_mesh) != axis) continue;
          WriteMap(*tensor.layout, axis, key(tensor.layout->name));
        }
      });
    });
  }

  void WriteMap(const TensorLayout& tensor, std::string_view axis, const std::string& key) {
    auto map = AffineMapOf(tensor, explanation_.source_mesh, axis);
    if (map) {
      json_.attributeBegin(Utf8(key));  // One line for each parameter.
      json_.rawValue([&](llvm::raw_ostream& out) { out << llvm::json::Value(ToJson(*map)); });
      json_.attributeEnd();
    } else {
      unsupported_.emplace(PatternFor(tensor.name), TakeFailure(map.takeError()).message);
    }
  }

  const Explanation& explanation_;
  llvm::json::OStream json_;
  std::map<std::string, std::string> unsupported_;
};

}  // namespace

void ExplainAsAffine(const Explanation& explanation, llvm::raw_ostream& out) {
  AffineWriter(explanation, out).Write();
  out << "\n";
}

}  // namespace ucp
