// The text of a drafted spec. Questions are comments at the place they are about.
#pragma once

#include <string>
#include <vector>

#include "compiler/infer/group_names.h"
#include "compiler/infer/infer.h"
#include "compiler/infer/observed.h"
#include "compiler/layout/mesh.h"

namespace ucp {

struct DraftHeading {
  std::string folder;
  std::string format;
  Mesh mesh;
  std::string elsewhere;  // The second checkpoint; empty without one.
  std::string embedded;   // The file whose metadata was believed; empty without.
};

DraftSpec WriteDraft(const DraftHeading& heading, const std::vector<std::string>& dims,
                     const std::vector<DraftNode>& nodes, const Observation& observation);

}  // namespace ucp
