// The meshes that a spec is tried on: those of its axes that a tensor can feel.
#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include "compiler/layout/mesh.h"
#include "compiler/spec/spec.h"

namespace ucp {

using Random = std::mt19937_64;
std::int64_t Pick(Random& random, std::int64_t first, std::int64_t last);  // Both included.

// Returns every mesh of at most 8 ranks with at most 4 on each axis that cuts something or that formats cut models by,
// smallest first. Other axes have one rank, or as many as it takes to make all views of the ranks equally large.
std::vector<Mesh> SmallMeshes(const CheckedSpec& spec);

// Does the same with at most 64 ranks and 8 on each axis.
Mesh RandomMesh(const CheckedSpec& spec, Random& random);

bool IsOneRank(const Mesh& mesh);

}  // namespace ucp
