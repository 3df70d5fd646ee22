#include "compiler/driver/strategy_mesh.h"

#include <charconv>

#include "compiler/support/error.h"

namespace ucp {

llvm::Expected<Mesh> MeshOf(const Strategy& strategy) {
  Mesh mesh;
  std::int64_t ranks = 1;
  for (const std::string& axis : KnownAxes()) {
    auto option = strategy.options.find(axis);
    if (option == strategy.options.end()) continue;
    const std::string& text = option->second;
    std::int64_t size = 0;
    auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), size);
    if (error != std::errc() || rest != text.data() + text.size() || size < 1) {
      return Fail(ErrorCode::kUsage, "`{}={}` is no degree; write a number, such as `{}=2`", axis, text, axis);
    }
    if (size > kMaxRanks / ranks) {
      return Fail(ErrorCode::kUsage, "`{}={}` makes more than {} ranks", axis, text, kMaxRanks);
    }
    ranks *= size;
    mesh.axes.push_back({axis, size});
  }
  return mesh;
}

}  // namespace ucp
