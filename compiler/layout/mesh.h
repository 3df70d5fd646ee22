// A device mesh: named axes with their sizes, and a coordinate on it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ucp {

// Returns the axes that formats know: pp, dp, edp, sp, cp, tp, ep, etp.
bool IsKnownAxis(std::string_view name);
std::vector<std::string> KnownAxes();

inline constexpr std::int64_t kMostChunks = 1000;  // Of layers, on one pipeline stage.

struct Axis {
  std::string name;
  std::int64_t size = 1;
  bool operator==(const Axis&) const = default;
};

// The degrees of one strategy, major to minor. An axis that is not listed has size 1.
struct Mesh {
  std::vector<Axis> axes;

  std::int64_t Size(std::string_view axis) const;
  bool operator==(const Mesh&) const = default;
};

// The ranks of a strategy. With `interleave` > 1 every pipeline stage holds that many chunks of layers: the pipeline
// then has pp * interleave places, of which place c is on stage c mod pp (virtual stages). Nothing is not the same as
// 1: a layout that has chunks contradicts a strategy that says there are none.
struct Degrees {
  Mesh mesh;
  std::optional<std::int64_t> interleave = {};
  std::vector<std::int64_t> stage_layers = {};  // How many layers each place of the pipeline has; empty: evenly many.

  std::int64_t PipelinePlaces() const { return mesh.Size("pp") * interleave.value_or(1); }
  bool operator==(const Degrees&) const = default;
};

// Where a rank stands on each axis that matters; an axis that is not listed stands at 0.
struct Coordinate {
  std::map<std::string, std::int64_t, std::less<>> at;

  std::int64_t At(std::string_view axis) const;
  auto operator<=>(const Coordinate&) const = default;
};

// "pp=2 tp=2 dp=4" and "pp=0 tp=1".
std::string ToString(const Mesh& mesh);
std::string ToString(const Coordinate& coordinate);

}  // namespace ucp
