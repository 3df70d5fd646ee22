// Small values for the dims that a spec leaves open: its definitions divide, and as many small meshes fit as can be.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "compiler/bind/bind.h"
#include "compiler/layout/layout.h"
#include "compiler/trial/reach.h"
#include "compiler/trial/small_meshes.h"

namespace ucp {

// A spec with values, and which of the small meshes it fits.
struct SmallModel {
  Settings set;
  BoundSpec bound;
  std::vector<Mesh> meshes;  // Those that fit.
  struct Misfit {
    Mesh mesh;
    std::string why;  // The first thing the compiler said.
  };
  std::vector<Misfit> misfits;
  std::int64_t elements = 0;
};

// `given` stays as it is; items that are not in `before` are sought. Returns nothing if no values were found that make
// the spec's definitions whole; `why` is the fault of the nearest.
std::optional<SmallModel> ChooseSmallValues(const CheckedSpec& spec, const Settings& given, const Reached& before,
                                            Random& random, std::string& why);

// Returns the layout of a model on a mesh, or nothing and why it does not fit, or is too large to be followed there.
std::optional<Layout> FitToMesh(const BoundSpec& bound, const Mesh& mesh, std::string& why);

}  // namespace ucp
